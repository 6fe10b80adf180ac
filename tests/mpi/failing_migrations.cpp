// SPDX-License-Identifier: BSD-3-Clause
// Failure of one MPI call of a migration on one process.
//
// Every process is a node of its own here, so that all elements are sent by messages.
#include "failing_mpi.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include "datamover/migration.hpp"

namespace datamover {
namespace {

constexpr std::int64_t elems = 30;

/// A value that tells a process, a position there and a round.
std::int64_t label(int rank, std::int64_t position, int round) {
    return (round * 100 + rank) * 1000 + position;
}

int target(int rank, std::int64_t position) {
    return static_cast<int>((rank + position * position) % mpi_test::world_size());
}

/// What arrives here in stable order.
std::vector<std::int64_t> arriving(int round) {
    std::vector<std::int64_t> labels;
    for (int r = 0; r < mpi_test::world_size(); ++r)
        for (std::int64_t i = 0; i < elems; ++i)
            if (target(r, i) == mpi_test::world_rank()) labels.push_back(label(r, i, round));
    return labels;
}

/// Memory that stays: MPI may touch a user's arrays after an operation that failed.
std::vector<std::int64_t>& lasting(std::size_t size) {
    static std::deque<std::vector<std::int64_t>> all;
    return all.emplace_back(size);
}

/// Moves, moves in place and reverses by some methods, on one communicator.
class Moves {
public:
    explicit Moves(MPI_Comm comm) {
        std::vector<std::int32_t> ranks;
        for (std::int64_t i = 0; i < elems; ++i) ranks.push_back(target(mpi_test::world_rank(), i));
        TargetList targets;
        targets.elems = elems;
        targets.data = ranks.data();
        free_ = Migration(comm, targets);
        bounded_ = Migration(comm, targets, {100, {}});
    }

    void run(int round) {
        for (std::int64_t i = 0; i < elems; ++i)
            given_[static_cast<std::size_t>(i)] = label(mpi_test::world_rank(), i, round);
        right_ = arriving(round);
        move_all();
    }

protected:
    virtual void move_all() = 0;
    ~Moves() = default;

    void move(Migration& d, const char* method, bool stable) {
        const ElementColumn column{given_.data(), sizeof(std::int64_t)};
        auto &first = lasting(right_.size()), &second = lasting(right_.size());
        const std::vector<ElementColumn> columns{column, column};
        const std::vector<ElementBuffer> results{buffer(first), buffer(second)};
        d.move(columns, results, CarryOptions{method, stable});
        EXPECT_EQ(first, second) << method;
        expect_arrived(first, stable);
    }
    void move_in_place(Migration& d, const char* method, bool stable) {
        auto& data = lasting(std::max(given_.size(), right_.size()));
        std::copy(given_.begin(), given_.end(), data.begin());
        d.move_in_place(data.data(), sizeof(std::int64_t), static_cast<std::int64_t>(data.size()),
                        CarryOptions{method, stable});
        data.resize(right_.size());
        expect_arrived(data, stable);
    }
    void reverse(Migration& d) {
        const std::vector<ElementColumn> values(2, {right_.data(), sizeof(std::int64_t)});
        auto &first = lasting(given_.size()), &second = lasting(given_.size());
        const std::vector<ElementBuffer> results{buffer(first), buffer(second)};
        d.reverse(values, results, Op::replace, ArrivedBy::move);
        EXPECT_EQ(first, given_);
        EXPECT_EQ(second, given_);
    }

    Migration free_, bounded_;

private:
    static ElementBuffer buffer(std::vector<std::int64_t>& values) {
        return {reinterpret_cast<std::byte*>(values.data()),
                static_cast<std::int64_t>(values.size() * sizeof(std::int64_t)),
                {}};
    }
    void expect_arrived(std::vector<std::int64_t> labels, bool stable) const {
        if (!stable) std::sort(labels.begin(), labels.end());
        EXPECT_EQ(labels, right_);
    }

    std::vector<std::int64_t>& given_ = lasting(elems);
    std::vector<std::int64_t>& right_ = lasting(0);
};

class OurMoves : public Moves {
    using Moves::Moves;
    void move_all() override {
        move(free_, "partition", true);
        reverse(free_);
        move_in_place(free_, "partition", false);
        move(bounded_, "partition", true);
        reverse(bounded_);
    }
};

class AlternativeMoves : public Moves {
    using Moves::Moves;
    void move_all() override {
        move(free_, "alltoallv", true);
        move(bounded_, "alltoallv", true);
        move(free_, "alltoallw", true);
        move(free_, "sendrecv", false);
        move(free_, "sort", true);
        move_in_place(free_, "alltoallv", true);
        move_in_place(free_, "sort", false);
    }
};

/// More processes than cores are slow: there `make test` takes some of the calls, by steps that no
/// number of processes divides, so that all processes have their turn.
class FailingCalls : public ::testing::TestWithParam<Failure> {};

TEST_P(FailingCalls, OfDistributionsAreToldToAll) {
    const bool few = mpi_test::world_size() <= 2 || mpi_test::case_factor() > 1;
    run_all_cases<OurMoves>(GetParam(), few ? 1 : 29);
}

TEST_P(FailingCalls, OfAlternativesAreToldToAll) {
    const bool few = mpi_test::case_factor() > 1;
    run_all_cases<AlternativeMoves>(GetParam(), few ? 1 : mpi_test::world_size() <= 2 ? 5 : 31);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingCalls,
                         ::testing::Values(Failure::instead, Failure::afterwards),
                         [](const auto& kind) {
                             return kind.param == Failure::instead ? "Instead" : "Afterwards";
                         });

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    setenv("DATAMOVER_NODE_SIZE", "1", 1);
    return mpi_test::run(argc, argv);
}
