// SPDX-License-Identifier: BSD-3-Clause
// How do panels reach their rows and columns of processes by MPI_Bcast?
#include "version.hpp"

namespace summa {
namespace {

class ByHand final : public Version {
public:
    explicit ByHand(const Problem& problem) : problem_(problem) {
        // communication: begin
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        row_ = rank / problem.grid_columns;
        column_ = rank % problem.grid_columns;
        MPI_Comm_split(MPI_COMM_WORLD, row_, column_, &row_communicator_);
        MPI_Comm_split(MPI_COMM_WORLD, column_, row_, &column_communicator_);
        // communication: end
        a_ = matrix(problem.m, problem.k);
        b_ = matrix(problem.k, problem.n);
        c_ = matrix(problem.m, problem.n);
        // communication: begin
        left_.resize(static_cast<std::size_t>(a_.part.height() * problem.block));
        right_.resize(static_cast<std::size_t>(problem.block * b_.part.width()));
        // communication: end
    }

    // communication: begin
    ~ByHand() override {
        MPI_Comm_free(&row_communicator_);
        MPI_Comm_free(&column_communicator_);
    }
    ByHand(const ByHand&) = delete;
    ByHand& operator=(const ByHand&) = delete;
    // communication: end

    const Part& a() const override { return a_.part; }
    const Part& b() const override { return b_.part; }
    const Part& c() const override { return c_.part; }

    void multiply(apps::Times& times) override {
        for (std::int64_t k = 0; k < problem_.k; k += problem_.block) {
            const std::int64_t depth = std::min(problem_.block, problem_.k - k);
            const double *left = nullptr, *right = nullptr;
            // communication: begin
            apps::timed(times.communication, [&] {
                left = columns_of_a(k, depth, times);
                right = rows_of_b(k, depth, times);
            });
            // communication: end
            add_product(c(), left, right, depth);
        }
    }

private:
    struct Matrix {
        std::vector<double> memory;
        Part part;
    };

    Matrix matrix(std::int64_t height, std::int64_t width) const {
        Matrix made;
        // communication: begin
        made.part.rows = dealt_out(height, row_, problem_.grid_rows);
        made.part.columns = dealt_out(width, column_, problem_.grid_columns);
        // communication: end
        made.memory.resize(static_cast<std::size_t>(made.part.height() * made.part.width()));
        made.part.values = made.memory.data();
        return made;
    }

    // communication: begin
    /// The indices that a row or column of the grid gets: every so many-th block.
    std::vector<std::int64_t> dealt_out(std::int64_t extent, int place, int places) const {
        std::vector<std::int64_t> indices;
        const std::int64_t block = problem_.block;
        for (std::int64_t first = place * block; first < extent; first += places * block)
            for (std::int64_t i = first; i < std::min(first + block, extent); ++i)
                indices.push_back(i);
        return indices;
    }

    /// The columns of A from k on, from the process of this row of the grid that has them.
    const double* columns_of_a(std::int64_t k, std::int64_t depth, apps::Times& times) {
        const std::int64_t block = k / problem_.block, places = problem_.grid_columns;
        const int root = static_cast<int>(block % places);
        if (root == column_)
            apps::timed(times.pack, [&] {
                const std::int64_t height = a_.part.height(), width = a_.part.width();
                const double* from = a_.part.values + block / places * problem_.block;
                double* to = left_.data();
                for (std::int64_t i = 0; i < height; ++i, from += width, to += depth)
                    std::copy(from, from + depth, to);
            });
        const int count = static_cast<int>(a_.part.height() * depth);
        apps::timed(times.wait,
                    [&] { MPI_Bcast(left_.data(), count, MPI_DOUBLE, root, row_communicator_); });
        return left_.data();
    }

    /// The rows of B from k on, which are contiguous where they are.
    const double* rows_of_b(std::int64_t k, std::int64_t depth, apps::Times& times) {
        const std::int64_t block = k / problem_.block, places = problem_.grid_rows;
        const std::int64_t width = b_.part.width();
        const int root = static_cast<int>(block % places);
        double* const panel =
            root == row_ ? b_.part.values + block / places * problem_.block * width : right_.data();
        const int count = static_cast<int>(depth * width);
        apps::timed(times.wait,
                    [&] { MPI_Bcast(panel, count, MPI_DOUBLE, root, column_communicator_); });
        return panel;
    }
    // communication: end

    Problem problem_;
    Matrix a_, b_, c_;
    // communication: begin
    int row_ = 0, column_ = 0;
    MPI_Comm row_communicator_ = MPI_COMM_NULL, column_communicator_ = MPI_COMM_NULL;
    std::vector<double> left_, right_;
    // communication: end
};

}  // namespace

std::unique_ptr<Version> by_hand(const Problem& problem) {
    return std::make_unique<ByHand>(problem);
}

}  // namespace summa
