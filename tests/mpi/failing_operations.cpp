// SPDX-License-Identifier: BSD-3-Clause
// Failure of one process in a move that all processes have agreed on.
#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "datamover/progress.hpp"
#include "distribute/agreement.hpp"
#include "mpi_test.hpp"

namespace datamover::distribute {
namespace {

constexpr std::int64_t elems = 1000, elem_bytes = sizeof(std::int64_t);

/// A part that runs out of memory as it begins.
class Lacking final : public SlotOperation {
    using SlotOperation::SlotOperation;
    void begin() override { throw std::bad_alloc(); }
    bool advance() override { return true; }
    std::vector<std::int64_t> waiting_for() const override { return {}; }
};

/// A part that waits for the first process for ever.
class Waiting final : public SlotOperation {
    using SlotOperation::SlotOperation;
    void begin() override {}
    bool advance() override { return false; }
    std::vector<std::int64_t> waiting_for() const override { return {0}; }
};

/// 0 where it goes well.
int code_of(const std::function<void()>& part) {
    try {
        part();
        return 0;
    } catch (const Error& e) {
        return static_cast<int>(e.code());
    }
}

class FailingOperations : public ::testing::TestWithParam<std::int64_t> {
protected:
    FailingOperations() {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
        for (std::int64_t i = 0; i < elems; ++i)
            ranks_.push_back(static_cast<std::int32_t>(i % mpi_test::world_size()));
        group_ = mpi::ProcessGroup::of(comm_);
        channel_ = NodeChannel::of(*group_);
        claim_.emplace(channel_);
        TargetList targets;
        targets.elems = elems;
        targets.data = ranks_.data();
        state_.emplace(group_, channel_, claim_->slot(), targets, MigrationOptions{GetParam()});
        const auto room = static_cast<std::size_t>(std::max(elems, state_->received()));
        given_.resize(room);
        arrived_.resize(room);
        column_ = {given_.data(), elem_bytes, elem_bytes};
        buffer_ = {reinterpret_cast<std::byte*>(arrived_.data()),
                   static_cast<std::int64_t>(room) * elem_bytes,
                   {}};
    }
    ~FailingOperations() override { MPI_Comm_free(&comm_); }

    ColumnTransfer carriage() const { return {{&column_, 1}, {&buffer_, 1}}; }

    /// The last process lacks its part, the others have theirs: nobody waits for ever.
    void expect_told(std::function<void()> part) {
        MPI_Barrier(MPI_COMM_WORLD);  // all are through with the set-up
        const bool lacks = mpi_test::world_rank() == mpi_test::world_size() - 1;
        Lacking lacking(*state_, claim_->slot());
        if (lacks) part = [&] { run(*state_, lacking); };
        const ErrorCode right = lacks ? ErrorCode::no_memory : ErrorCode::peer_failed;
        EXPECT_EQ(code_of(part), static_cast<int>(right));
        // So does whoever comes later.
        EXPECT_THROW(Agreement(*state_, claim_->slot(), {}, {"move", {}}).reach(), Error);
    }

    MPI_Comm comm_ = MPI_COMM_NULL;
    std::vector<std::int32_t> ranks_;
    std::vector<std::int64_t> given_, arrived_;
    mpi::ProcessGroupPtr group_;
    std::shared_ptr<NodeChannel> channel_;
    std::optional<SlotClaim> claim_;
    std::optional<State> state_;
    ElementColumn column_;
    ElementBuffer buffer_;
};

TEST_P(FailingOperations, OfAMove) {
    expect_told([&] { carry_by_partition(*state_, claim_->slot(), carriage(), true); });
}

TEST_P(FailingOperations, OfAMoveInPlace) {
    const Buffer buffer{reinterpret_cast<std::byte*>(given_.data()), elem_bytes, elems, 0};
    expect_told([&] { exchange_by_partition(*state_, claim_->slot(), buffer, false); });
}

TEST_P(FailingOperations, OfAReverse) {
    expect_told([&] { carry_back(*state_, claim_->slot(), {carriage()}); });
}

TEST_P(FailingOperations, OfFindingOutAnOrder) {
    MPI_Barrier(MPI_COMM_WORLD);  // all are through with the set-up
    const bool lacks = mpi_test::world_rank() == mpi_test::world_size() - 1;
    constexpr std::int64_t beyond_memory = std::int64_t{1} << 60;
    Delivery order{"partition", true};
    order.capacity_elems = lacks ? beyond_memory : 0;
    if (lacks)
        EXPECT_ANY_THROW(state_->orders.places(*state_, claim_->slot(), order));
    else
        EXPECT_THROW(state_->orders.places(*state_, claim_->slot(), order), Error);
    // What was not found out is not taken for known.
    EXPECT_THROW(state_->orders.places(*state_, claim_->slot(), order), Error);
}

TEST_P(FailingOperations, AreGivenUpWhereADeadlinePasses) {
    MPI_Barrier(MPI_COMM_WORLD);  // all are through with the set-up
    Waiting part(*state_, claim_->slot());
    set_default_timeout(0.05);
    try {
        run(*state_, part);
        ADD_FAILURE() << "no error";
    } catch (const Error& e) {
        // Whose deadline passes first tells the others.
        const std::string text = e.what();
        const bool late = e.code() == ErrorCode::timeout;
        EXPECT_NE(text.find(late ? "the migration is given up" : "gave up a migration"),
                  std::string::npos)
            << text;
    }
    set_default_timeout(std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Limits, FailingOperations, ::testing::Values(0, 100));

}  // namespace
}  // namespace datamover::distribute

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
