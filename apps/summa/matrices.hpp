// SPDX-License-Identifier: BSD-3-Clause
// Matrices to multiply, and the work of a process on its parts. All versions share it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace summa {

/// C = A B with A of m x k and B of k x n elements, all dealt out in blocks of block x block
/// elements, in turns, to a grid of processes; rank = row-major position.
struct Problem {
    std::int64_t m = 0, k = 0, n = 0, block = 0;
    int grid_rows = 1, grid_columns = 1;
};

/// One process's part of a matrix, row-major: the product of some rows and some columns.
struct Part {
    double* values = nullptr;
    std::vector<std::int64_t> rows, columns;  ///< their indices in the matrix, ascending

    std::int64_t height() const { return static_cast<std::int64_t>(rows.size()); }
    std::int64_t width() const { return static_cast<std::int64_t>(columns.size()); }
};

/// Elements are whole numbers from -8 to 7, so that all sums are exact.
inline std::int64_t element(std::int64_t i, std::int64_t j, std::uint64_t matrix) {
    std::uint64_t x = (static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u) ^
                      (static_cast<std::uint64_t>(j) * 0xc2b2ae3d27d4eb4fu) ^ (matrix << 60);
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 32)) * 0x94d049bb133111ebu;
    return static_cast<std::int64_t>(x >> 60) - 8;
}
inline std::int64_t element_of_a(std::int64_t i, std::int64_t j) {
    return element(i, j, 1);
}
inline std::int64_t element_of_b(std::int64_t i, std::int64_t j) {
    return element(i, j, 2);
}

template <class Element>
void fill(const Part& part, Element&& element) {
    double* value = part.values;
    for (const std::int64_t i : part.rows)
        for (const std::int64_t j : part.columns) *value++ = static_cast<double>(element(i, j));
}

extern "C" void dgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const double* alpha, const double* a, const int* stride_a,
                       const double* b, const int* stride_b, const double* beta, double* c,
                       const int* stride_c);

/// c += left right, for panels of `depth` columns and rows: left (height, depth), right (depth,
/// width). Column by column, as BLAS has it, matrices are transposed: so C' += B' A'.
inline void add_product(const Part& c, const double* left, const double* right,
                        std::int64_t depth) {
    const int height = static_cast<int>(c.height()), width = static_cast<int>(c.width());
    const int inner = static_cast<int>(depth);
    const double one = 1;
    if (height == 0 || width == 0 || inner == 0) return;
    dgemm_("N", "N", &width, &height, &inner, &one, right, &width, left, &inner, &one, c.values,
           &width);
}

}  // namespace summa
