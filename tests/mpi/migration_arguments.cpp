// SPDX-License-Identifier: BSD-3-Clause
// Invalid arguments of a migration: rejected on every process, whichever process passes them.
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "datamover/migration.hpp"
#include "datamover/targets.hpp"
#include "mpi_test.hpp"

namespace datamover {
namespace {

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 2;
constexpr std::int64_t elems = 8;

bool is_guilty() {
    return mpi_test::world_rank() == mpi_test::world_size() - 1;
}

/// The code of the error that `call` throws; 0 for none.
int code_of(const std::function<void()>& call) {
    try {
        call();
        return 0;
    } catch (const Error& e) {
        return static_cast<int>(e.code());
    }
}

/// Every process hears the error.
void expect_refused(ErrorCode code, const std::function<void()>& call) {
    EXPECT_EQ(code_of(call), static_cast<int>(code));
}

TargetList targets_of(const std::vector<std::int32_t>& ranks) {
    TargetList targets;
    targets.elems = static_cast<std::int64_t>(ranks.size());
    targets.data = ranks.data();
    return targets;
}

class DistributionArguments : public ::testing::Test {
protected:
    std::vector<std::int32_t> ranks_ = std::vector<std::int32_t>(elems, mpi_test::world_rank());
    Migration migration_{MPI_COMM_WORLD, targets_of(ranks_)};
    std::array<double, elems> values_{}, result_{};

    ElementColumn column() const { return {values_.data(), sizeof(double)}; }
    ElementBuffer buffer() {
        return {reinterpret_cast<std::byte*>(result_.data()), sizeof result_, {}};
    }
    /// One process gives another column or buffer to a move, and to a reverse.
    void expect_both_refuse(ErrorCode code, const ElementColumn& bad_column,
                            const ElementBuffer& bad_buffer) {
        const ElementColumn c = is_guilty() ? bad_column : column();
        const ElementBuffer b = is_guilty() ? bad_buffer : buffer();
        expect_refused(code, [&] { migration_.move({&c, 1}, {&b, 1}); });
        expect_refused(code, [&] { migration_.reverse(c, b); });
    }

    /// Nothing is left over that could disturb the next move.
    void TearDown() override {
        std::iota(values_.begin(), values_.end(), 1.0);
        const ElementColumn c = column();
        const ElementBuffer b = buffer();
        migration_.move({&c, 1}, {&b, 1});
        EXPECT_EQ(result_, values_);
    }
};

TEST_F(DistributionArguments, MemoryThatIsNone) {
    expect_both_refuse(ErrorCode::invalid_argument, {nullptr, 8}, buffer());
    expect_both_refuse(ErrorCode::invalid_argument, column(), {nullptr, sizeof result_, {}});
    expect_refused(ErrorCode::invalid_argument, [&] {
        migration_.move_in_place(is_guilty() ? nullptr : result_.data(), 8, elems);
    });
    TargetList targets = targets_of(ranks_);
    if (is_guilty()) targets.data = nullptr;
    expect_refused(ErrorCode::invalid_argument, [&] { Migration(MPI_COMM_WORLD, targets); });
}

TEST_F(DistributionArguments, SizesBeyond64Bits) {
    for (const std::int64_t bytes : {huge, huge / 2, std::int64_t{1} << 60})
        expect_both_refuse(ErrorCode::out_of_range, {values_.data(), bytes, 0}, buffer());
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-8}, -huge})
        expect_both_refuse(ErrorCode::wrong_type, {values_.data(), bytes}, buffer());
    expect_both_refuse(ErrorCode::mismatch, column(), {buffer().data, -huge, {}});
    // Two columns that fit alone.
    const std::int64_t half = huge / elems / 4;
    const std::array<ElementColumn, 8> eight = [&] {
        std::array<ElementColumn, 8> columns;
        columns.fill({values_.data(), half, 0});
        return columns;
    }();
    expect_refused(ErrorCode::out_of_range, [&] { migration_.move(eight); });
    expect_refused(ErrorCode::out_of_range, [&] {
        migration_.move_in_place(result_.data(), is_guilty() ? huge : 8, elems);
    });
    for (const auto& [count, each] :
         {std::pair{huge, huge}, std::pair{huge, std::int64_t{1}}, std::pair{elems, huge}}) {
        TargetList targets = targets_of(ranks_);
        if (is_guilty()) {
            targets.elems = count;
            targets.targets_per_elem = each;
        }
        expect_refused(ErrorCode::out_of_range, [&] { Migration(MPI_COMM_WORLD, targets); });
    }
    const std::vector<std::int64_t> starts{0, huge};
    TargetList targets = targets_of({});
    targets.data = ranks_.data();
    if (is_guilty()) {
        targets.elems = 1;
        targets.row_starts = starts;
    }
    expect_refused(ErrorCode::out_of_range, [&] { Migration(MPI_COMM_WORLD, targets); });
    targets.elems = is_guilty() ? std::numeric_limits<std::int64_t>::max() : 0;
    expect_refused(ErrorCode::invalid_argument, [&] { Migration(MPI_COMM_WORLD, targets); });
}

TEST_F(DistributionArguments, StridesBeyondAllMemory) {
    for (const std::int64_t stride : {2 * huge, -2 * huge}) {
        expect_both_refuse(ErrorCode::out_of_range, {values_.data(), 8, stride}, buffer());
        TargetList targets = targets_of(ranks_);
        if (is_guilty()) targets.stride_bytes = stride;
        expect_refused(ErrorCode::out_of_range, [&] { Migration(MPI_COMM_WORLD, targets); });
    }
}

TEST_F(DistributionArguments, BuffersThatShareMemory) {
    const ElementBuffer same{reinterpret_cast<std::byte*>(values_.data()), sizeof values_, {}};
    expect_both_refuse(ErrorCode::invalid_argument, column(), same);
    const ElementBuffer last{
        reinterpret_cast<std::byte*>(values_.data() + elems - 1), sizeof values_, {}};
    expect_both_refuse(ErrorCode::invalid_argument, column(), last);
    const std::array<ElementColumn, 2> columns{column(), column()};
    const std::array<ElementBuffer, 2> results{buffer(), buffer()};
    expect_refused(ErrorCode::invalid_argument, [&] { migration_.move(columns, results); });
    expect_refused(ErrorCode::invalid_argument, [&] { migration_.reverse(columns, results); });
}

TEST_F(DistributionArguments, AMethodThatIsNone) {
    const TargetList targets = targets_of(ranks_);
    for (const char* method : {"magic", "", "Auto"}) {
        MigrationOptions options;
        options.carry.method = method;
        expect_refused(ErrorCode::invalid_argument,
                       [&] { Migration(MPI_COMM_WORLD, targets, options); });
        if (!is_guilty()) options.carry.method = "auto";
        EXPECT_NE(code_of([&] { Migration(MPI_COMM_WORLD, targets, options); }), 0);
    }
}

/// What a function that tells targets throws is thrown where it happened, and heard by all.
TEST_F(DistributionArguments, ExceptionsOfTheCaller) {
    const auto thrown_by = [&](const std::function<void()>& raise) {
        TargetList targets = targets_of(ranks_);
        targets.evaluate = [&](std::int64_t, std::int64_t count, std::int64_t* ranks) {
            if (is_guilty()) raise();
            std::fill(ranks, ranks + count, mpi_test::world_rank());
        };
        Migration(MPI_COMM_WORLD, targets);
    };
    const auto raise_runtime = [] { throw std::runtime_error("mine"); };
    const auto raise_number = [] { throw 7; };
    const auto raise_memory = [] { throw std::bad_alloc(); };
    if (is_guilty()) {
        EXPECT_THROW(thrown_by(raise_runtime), std::runtime_error);
        EXPECT_THROW(thrown_by(raise_number), int);
        EXPECT_THROW(thrown_by(raise_memory), std::bad_alloc);
    } else {
        EXPECT_THROW(thrown_by(raise_runtime), Error);
        EXPECT_THROW(thrown_by(raise_number), Error);
        EXPECT_THROW(thrown_by(raise_memory), Error);
    }
}

TEST_F(DistributionArguments, KeysWithoutTargetAreToldFromNumbersGiven) {
    TargetList targets = targets_of(ranks_);
    targets.evaluate = [&](std::int64_t, std::int64_t count, std::int64_t* ranks) {
        std::fill(ranks, ranks + count, is_guilty() ? TargetMap::no_target : 0);
    };
    try {
        Migration(MPI_COMM_WORLD, targets);
        FAIL() << "nothing was thrown";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::out_of_range);
        EXPECT_NE(std::string(e.what()).find("has no target"), std::string::npos) << e.what();
    }
}

TEST_F(DistributionArguments, StridesOfZeroAndBelow) {
    std::iota(values_.begin(), values_.end(), 1.0);
    const ElementBuffer b = buffer();
    const ElementColumn one{values_.data() + 2, sizeof(double), 0};
    migration_.move({&one, 1}, {&b, 1});
    for (const double value : result_) EXPECT_EQ(value, 3);
    const ElementColumn backwards{values_.data() + elems - 1, sizeof(double), -8};
    migration_.move({&backwards, 1}, {&b, 1});
    for (std::size_t i = 0; i < elems; ++i) EXPECT_EQ(result_[i], values_[elems - 1 - i]);
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
