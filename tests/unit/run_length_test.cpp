// SPDX-License-Identifier: BSD-3-Clause
// Length of contiguous runs: the value from the tables is that of the memory.
#include "plan/compile.hpp"

#include "layout_oracle.hpp"

namespace datamover {
namespace {

std::int64_t source_run(const std::string& from, const std::string& to, ElementOrder order) {
    const Point shape{64, 96};
    const Layout a = BlockCyclic(shape, from, 2), b = BlockCyclic(shape, to, 2);
    return plan::mean_run_bytes(redistribute(a, b).part(0, 1), dense_memory(a, 0, 8, order),
                                Side::source, 8);
}

TEST(RunLength, OfKnownPairs) {
    const auto c = ElementOrder::row_major, f = ElementOrder::column_major;
    EXPECT_EQ(source_run("(block, *)", "(*, block)", c), 48 * 8);
    EXPECT_EQ(source_run("(block, *)", "(*, block)", f), 32 * 48 * 8);
    EXPECT_EQ(source_run("(*, block)", "(block, *)", c), 32 * 48 * 8);
    EXPECT_EQ(source_run("(*, block)", "(block, *)", f), 32 * 8);
    EXPECT_EQ(source_run("(*, cyclic(4))", "(cyclic(8), *)", f), 8 * 8);
    EXPECT_EQ(source_run("(*, block)", "(cyclic, *)", f), 8);
}

/// The runs are at least as many as the pieces of memory: pieces may happen to touch.
TEST(RunLength, IsNeverLongerThanTheMemoryHas) {
    for (std::int64_t i = 0; i < layout_oracle::cases(300); ++i) {
        SCOPED_TRACE(i);
        layout_oracle::Random random(layout_oracle::seed_of(i));
        const Point shape =
            layout_oracle::random_shape(random, static_cast<int>(random.integer(1, 3)));
        const auto kind = [&] { return static_cast<layout_oracle::Kind>(random.integer(0, 2)); };
        const Layout a = layout_oracle::random_layout(random, kind(), shape, 2);
        const Layout b = layout_oracle::random_layout(random, kind(), shape, 2);
        const PairPart part = redistribute(a, b).part(0, 1);
        if (part.size() == 0) continue;
        const MemoryLayout memory = dense_memory(a, 0, 8);
        const AddressRelation gathered =
            plan::compile(part, {&a, &memory, 8, 0}, {nullptr, nullptr, 8, 0});
        std::vector<std::int64_t> from, to;
        gathered.ordered_by_source().to_pairs(from, to);
        std::int64_t pieces = 1;
        for (std::size_t k = 1; k < from.size(); ++k)
            pieces += from[k] != from[k - 1] && from[k] != from[k - 1] + 8;
        const std::int64_t run = plan::mean_run_bytes(part, memory, Side::source, 8);
        EXPECT_GE(run, 8);
        EXPECT_LE(run * pieces, part.size() * 8);
    }
}

}  // namespace
}  // namespace datamover
