// SPDX-License-Identifier: BSD-3-Clause
// Moves that tests repeat: of an array from rows to columns, and of single elements.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "datamover/datamover.hpp"
#include "mpi_test.hpp"

namespace mpi_test {

constexpr std::int64_t elems_per_process = 24;

/// How often tests of threads repeat what they do.
inline int steps() {
    return 30 * case_factor();
}

/// An array by rows, another by columns, and the mover from one to the other.
class RowsToColumns {
public:
    RowsToColumns(MPI_Comm comm, const datamover::MoverOptions& options)
        : RowsToColumns(comm, world_size() * elems_per_process, options) {}

    void fill(std::int64_t step) {
        std::int64_t value = step;
        for (std::int64_t& x : elements(rows_)) x = value++;
    }
    void start() { mover_.start(); }
    bool test() { return mover_.test(); }
    void wait() { mover_.wait(60.0); }
    void abort() { mover_.abort(); }
    std::int64_t rounds() const { return mover_.counters().rounds; }

    /// Element (i, j) of the rows was step + its number among those of its process.
    bool arrived(std::int64_t step) const {
        const std::int64_t columns = n_ / world_size();
        const std::int64_t first = world_rank() * columns;
        std::int64_t k = 0;
        for (const std::int64_t x : elements(columns_)) {
            const std::int64_t i = k / columns, j = first + k % columns;
            if (x != step + i % elems_per_process * n_ + j) return false;
            ++k;
        }
        return true;
    }

private:
    RowsToColumns(MPI_Comm comm, std::int64_t n, const datamover::MoverOptions& options)
        : n_(n),
          row_layout_({n, n}, "(block, *)", world_size()),
          column_layout_({n, n}, "(*, block)", world_size()),
          rows_(comm, row_layout_, sizeof(std::int64_t)),
          columns_(comm, column_layout_, sizeof(std::int64_t)),
          mover_(comm, datamover::redistribute(row_layout_, column_layout_), rows_, columns_,
                 options) {}

    std::span<std::int64_t> elements(const datamover::Array& array) const {
        const auto& layout = &array == &rows_ ? row_layout_ : column_layout_;
        auto* first = reinterpret_cast<std::int64_t*>(array.origin(layout.block_of(array.rank())));
        return {first, static_cast<std::size_t>(elems_per_process * n_)};
    }

    std::int64_t n_;
    datamover::BlockCyclic row_layout_, column_layout_;
    datamover::Array rows_, columns_;
    datamover::Mover mover_;
};

/// Elements that go to all processes in turn, and the migration that takes them there.
class Dealt {
public:
    explicit Dealt(MPI_Comm comm)
        : ranks_(made_ranks()), mine_(ranks_.size()), migration_(comm, list_of(ranks_)) {}

    void start(std::int64_t step) {
        for (std::size_t i = 0; i < mine_.size(); ++i)
            mine_[i] = 1000 * world_rank() + step + static_cast<std::int64_t>(i);
        const datamover::ElementColumn column{mine_.data(), sizeof(std::int64_t)};
        results_ = migration_.start({&column, 1});
    }
    void wait() { migration_.wait(60.0); }
    bool test() { return migration_.test(); }
    /// What it has moved so far, which may be read at any time.
    std::int64_t rounds() const { return migration_.counters().rounds; }
    /// Each process's elements for this one have come, in their order.
    bool arrived(std::int64_t step) const {
        const std::int64_t nprocs = world_size();
        const auto* elements = reinterpret_cast<const std::int64_t*>(results_.front().data);
        for (std::int64_t k = 0; k < migration_.received(); ++k)
            if (elements[k] != 1000 * (k / per_pair) + step + k % per_pair * nprocs + world_rank())
                return false;
        return migration_.received() == per_pair * nprocs;
    }

private:
    static constexpr std::int64_t per_pair = 50;
    static std::vector<std::int32_t> made_ranks() {
        std::vector<std::int32_t> ranks;
        for (std::int64_t i = 0; i < per_pair * world_size(); ++i)
            ranks.push_back(static_cast<std::int32_t>(i % world_size()));
        return ranks;
    }
    static datamover::TargetList list_of(const std::vector<std::int32_t>& ranks) {
        datamover::TargetList targets;
        targets.elems = static_cast<std::int64_t>(ranks.size());
        targets.data = ranks.data();
        return targets;
    }

    std::vector<std::int32_t> ranks_;
    std::vector<std::int64_t> mine_;
    std::vector<datamover::ElementBuffer> results_;
    datamover::Migration migration_;  ///< last: in flight it reads the others
};

/// What a program computes meanwhile.
inline double arithmetic() {
    std::vector<double> numbers(2000);
    std::iota(numbers.begin(), numbers.end(), 0.5);
    return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

}  // namespace mpi_test
