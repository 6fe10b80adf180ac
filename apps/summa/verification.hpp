// SPDX-License-Identifier: BSD-3-Clause
// Verification of a product. Its elements are whole numbers, so the comparison is exact.
#pragma once

#include <mpi.h>

#include <cmath>
#include <string>

#include "matrices.hpp"

namespace summa {

/// What C should be, told without multiplying the matrices as the versions do.
class Verification {
public:
    explicit Verification(const Problem& problem)
        : problem_(problem), element_by_element_(problem.m * problem.n <= most_elems / problem.k) {
        if (element_by_element_) return;
        std::vector<std::int64_t> b_x(static_cast<std::size_t>(problem.k));
        for (std::int64_t i = 0; i < problem.k; ++i)
            for (std::int64_t j = 0; j < problem.n; ++j)
                b_x[static_cast<std::size_t>(i)] += element_of_b(i, j) * x(j);
        a_b_x_.resize(static_cast<std::size_t>(problem.m));
        for (std::int64_t i = 0; i < problem.m; ++i)
            for (std::int64_t j = 0; j < problem.k; ++j)
                a_b_x_[static_cast<std::size_t>(i)] +=
                    element_of_a(i, j) * b_x[static_cast<std::size_t>(j)];
    }

    /// Of how many parts of C each is looked at: elements, or rows of large matrices.
    std::int64_t parts() const { return problem_.m * (element_by_element_ ? problem_.n : 1); }
    /// What they are, for people.
    std::string what() const {
        return element_by_element_ ? "elements are exactly right"
                                   : "rows of C x are those of A (B x)";
    }
    /// How many of them are right. Collective.
    std::int64_t right_parts(const Part& c) const {
        return element_by_element_ ? right_elements(c) : right_rows(c);
    }

private:
    /// Up to so many products of elements C is compared element by element, else by C x = A (B x).
    static constexpr std::int64_t most_elems = std::int64_t{1} << 24;

    /// A vector of odd numbers between -2^21 and 2^21: a wrong element changes its row's sum.
    static std::int64_t x(std::int64_t j) {
        std::int64_t number = 0;
        for (std::uint64_t digit = 3; digit < 8; ++digit)
            number = number * 16 + element(j, 0, digit);
        return number * 2 + 1;
    }

    /// An element of C, or what no element is where it is no whole number in the range of them.
    static std::int64_t whole_number(double value) {
        const double most = 0x1p40;
        return std::abs(value) < most && value == std::trunc(value)
                   ? static_cast<std::int64_t>(value)
                   : std::int64_t{1} << 41;
    }

    std::int64_t right_elements(const Part& c) const {
        std::int64_t right = 0;
        const double* value = c.values;
        for (const std::int64_t i : c.rows)
            for (const std::int64_t j : c.columns) {
                std::int64_t sum = 0;
                for (std::int64_t k = 0; k < problem_.k; ++k)
                    sum += element_of_a(i, k) * element_of_b(k, j);
                right += whole_number(*value++) == sum;
            }
        MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        return right;
    }

    std::int64_t right_rows(const Part& c) const {
        // Wrong numbers may overflow, so the sums wrap around.
        std::vector<std::uint64_t> c_x(a_b_x_.size());
        const double* value = c.values;
        for (const std::int64_t i : c.rows)
            for (const std::int64_t j : c.columns)
                c_x[static_cast<std::size_t>(i)] +=
                    static_cast<std::uint64_t>(whole_number(*value++)) *
                    static_cast<std::uint64_t>(x(j));
        MPI_Allreduce(MPI_IN_PLACE, c_x.data(), static_cast<int>(c_x.size()), MPI_UINT64_T, MPI_SUM,
                      MPI_COMM_WORLD);
        std::int64_t right = 0;
        for (std::size_t i = 0; i < c_x.size(); ++i)
            right += c_x[i] == static_cast<std::uint64_t>(a_b_x_[i]);
        return right;
    }

    Problem problem_;
    bool element_by_element_;
    std::vector<std::int64_t> a_b_x_;
};

}  // namespace summa
