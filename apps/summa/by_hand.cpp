// SPDX-License-Identifier: BSD-3-Clause
// Panel broadcasts along rows and columns of processes by MPI_Bcast, or in a ring.
#include <array>

#include "version.hpp"

namespace summa {
namespace {

class ByHand : public Version {
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

protected:
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

    /// Which process of a row or column of the grid holds the panel from k on, and at which local
    /// index.
    int root(std::int64_t k, int places) const {
        return static_cast<int>(k / problem_.block % places);
    }
    std::int64_t local(std::int64_t k, int places) const {
        return k / problem_.block / places * problem_.block;
    }

    /// My columns of A from k on, which have to be contiguous to be sent.
    void pack(std::int64_t k, std::int64_t depth, double* to) const {
        const double* from = a_.part.values + local(k, problem_.grid_columns);
        for (std::int64_t i = 0; i < a_.part.height(); ++i, from += a_.part.width(), to += depth)
            std::copy(from, from + depth, to);
    }
    /// My rows of B from k on, which are contiguous.
    double* rows(std::int64_t k) const {
        return b_.part.values + local(k, problem_.grid_rows) * b_.part.width();
    }

    const double* columns_of_a(std::int64_t k, std::int64_t depth, apps::Times& times) {
        const int from = root(k, problem_.grid_columns);
        if (from == column_) apps::timed(times.pack, [&] { pack(k, depth, left_.data()); });
        const int count = static_cast<int>(a_.part.height() * depth);
        apps::timed(times.wait,
                    [&] { MPI_Bcast(left_.data(), count, MPI_DOUBLE, from, row_communicator_); });
        return left_.data();
    }

    const double* rows_of_b(std::int64_t k, std::int64_t depth, apps::Times& times) {
        const int from = root(k, problem_.grid_rows);
        double* const panel = from == row_ ? rows(k) : right_.data();
        const int count = static_cast<int>(depth * b_.part.width());
        apps::timed(times.wait,
                    [&] { MPI_Bcast(panel, count, MPI_DOUBLE, from, column_communicator_); });
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

/// A row or column of the grid, through which panels pass from one process to the next. There are
/// two panels in turns: one is multiplied, the other arrives.
class Ring {
public:
    Ring(MPI_Comm communicator, std::int64_t most_elems) : communicator_(communicator) {
        MPI_Comm_rank(communicator, &place_);
        MPI_Comm_size(communicator, &places_);
        for (Turn& turn : turns_) turn.buffer.resize(static_cast<std::size_t>(most_elems));
    }

    /// Where the root may put a panel, once the last one from there has been passed on.
    double* buffer(std::size_t step) {
        Turn& turn = turns_[step % 2];
        MPI_Wait(&turn.send, MPI_STATUS_IGNORE);
        return turn.buffer.data();
    }

    /// Begins to receive; the root has its panel already.
    void begin(std::size_t step, int root, std::int64_t elems, double* of_root) {
        Turn& turn = turns_[step % 2];
        turn.panel = buffer(step);
        turn.elems = static_cast<int>(elems);
        turn.root = root;
        if (place_ == root)
            turn.panel = of_root;
        else
            MPI_Irecv(turn.panel, turn.elems, MPI_DOUBLE, (place_ + places_ - 1) % places_, 0,
                      communicator_, &receive_);
    }

    /// Returns the panel when it is there, and passes it on.
    const double* end(std::size_t step) {
        Turn& turn = turns_[step % 2];
        MPI_Wait(&receive_, MPI_STATUS_IGNORE);
        const int next = (place_ + 1) % places_;
        if (next != turn.root)
            MPI_Isend(turn.panel, turn.elems, MPI_DOUBLE, next, 0, communicator_, &turn.send);
        return turn.panel;
    }

    void finish() {
        for (Turn& turn : turns_) MPI_Wait(&turn.send, MPI_STATUS_IGNORE);
    }

private:
    struct Turn {
        std::vector<double> buffer;
        double* panel = nullptr;
        int elems = 0, root = 0;
        MPI_Request send = MPI_REQUEST_NULL;
    };

    MPI_Comm communicator_;
    int place_ = 0, places_ = 1;
    std::array<Turn, 2> turns_;
    MPI_Request receive_ = MPI_REQUEST_NULL;
};

class InARing final : public ByHand {
public:
    explicit InARing(const Problem& problem)
        : ByHand(problem),
          along_row_(row_communicator_, a_.part.height() * problem.block),
          along_column_(column_communicator_, problem.block * b_.part.width()) {}

    void multiply(apps::Times& times) override {
        apps::timed(times.communication, [&] { begin(0, times); });
        for (std::size_t step = 0; first(step) < problem_.k; ++step) {
            const double *left = nullptr, *right = nullptr;
            apps::timed(times.communication, [&] {
                apps::timed(times.wait, [&] {
                    left = along_row_.end(step);
                    right = along_column_.end(step);
                });
                if (first(step + 1) < problem_.k) begin(step + 1, times);
            });
            add_product(c(), left, right, depth(step));
        }
        apps::timed(times.communication, [&] {
            along_row_.finish();
            along_column_.finish();
        });
    }

private:
    std::int64_t first(std::size_t step) const {
        return static_cast<std::int64_t>(step) * problem_.block;
    }
    std::int64_t depth(std::size_t step) const {
        return std::min(problem_.block, problem_.k - first(step));
    }

    void begin(std::size_t step, apps::Times& times) {
        const std::int64_t k = first(step);
        const int root_of_a = root(k, problem_.grid_columns),
                  root_of_b = root(k, problem_.grid_rows);
        double* const packed = along_row_.buffer(step);
        if (root_of_a == column_) apps::timed(times.pack, [&] { pack(k, depth(step), packed); });
        along_row_.begin(step, root_of_a, a_.part.height() * depth(step), packed);
        along_column_.begin(step, root_of_b, depth(step) * b_.part.width(),
                            root_of_b == row_ ? rows(k) : nullptr);
    }

    Ring along_row_, along_column_;
};

}  // namespace

std::unique_ptr<Version> by_hand(const Problem& problem) {
    return std::make_unique<ByHand>(problem);
}

std::unique_ptr<Version> by_hand_in_a_ring(const Problem& problem) {
    return std::make_unique<InARing>(problem);
}

}  // namespace summa
