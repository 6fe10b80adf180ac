// SPDX-License-Identifier: BSD-3-Clause
// Conflicts: exactly the elements that are written twice, or read while written, are found by
// address.
#include "plan/conflicts.hpp"

#include <map>
#include <set>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::cases;
using layout_oracle::expect_error;
using layout_oracle::Random;
using layout_oracle::seed_of;

/// Four blocks of one process, terabytes apart, rows upward or downward in memory.
struct Memory {
    Layout layout;
    MemoryLayout memory;
    std::int64_t elem_bytes;

    explicit Memory(Random& random) : elem_bytes(random.integer(1, 24)) {
        std::vector<Region> regions;
        for (std::int64_t b = 0; b < 4; ++b)
            regions.emplace_back(Point{5 * b, 0}, Point{5 * b + 5, 6});
        layout = FloorPlan(regions, {0, 0, 0, 0}, 1);
        for (std::int64_t b = 0; b < 4; ++b) {
            const bool upward = random.chance(50);
            const std::int64_t row = 6 * elem_bytes + random.integer(0, 9);
            const std::int64_t offset = (b << 41) + random.integer(0, 99) + (upward ? 0 : 4 * row);
            memory.blocks.push_back(
                {b, offset, {upward ? row : -row, elem_bytes}, Region({0, 0}, {5, 6})});
        }
        memory.end_bytes = std::int64_t{1} << 44;
    }
    plan::BoundMemory bound() const { return {&layout, &memory, 1 << 20, elem_bytes}; }
};

Region random_box(Random& random, std::int64_t block) {
    Point lo{5 * block + random.integer(0, 4), random.integer(0, 5)}, hi = lo;
    hi[0] = random.integer(lo[0] + 1, std::min(lo[0] + 2, 5 * block + 5));
    hi[1] = random.integer(lo[1] + 1, std::min<std::int64_t>(lo[1] + 3, 6));
    return {lo, hi};
}

TEST(Conflicts, AgainstCountingElements) {
    std::set<std::string> seen;
    for (std::int64_t i = 0; i < cases(400); ++i) {
        Random random(seed_of(i));
        const Memory array(random);
        MotionPlan plan(array.layout, array.layout);
        std::map<std::vector<std::int64_t>, int> reads, writes;
        bool onto_itself = false;
        for (std::int64_t n = random.integer(1, 4); n > 0; --n) {
            const std::int64_t from = random.integer(0, 3), to = random.integer(0, 3);
            const Region box = random_box(random, from);
            const Point lo{5 * to + random.integer(0, 5 - box.extent(0)),
                           random.integer(0, 6 - box.extent(1))};
            const Region target(lo, lo + box.shape());
            plan.add_section(from, box, to, target);
            onto_itself = onto_itself || (from == to && box == target);
            box.for_each([&](const Point& p) { ++reads[p.to_vector()]; });
            target.for_each([&](const Point& p) { ++writes[p.to_vector()]; });
        }
        bool twice = false, both = false;
        for (const auto& [index, times] : writes) {
            twice = twice || times > 1;
            both = both || reads.count(index) > 0;
        }
        seen.insert(std::string(twice ? "twice" : "") + (both ? "both" : ""));
        const auto outgoing = plan.outgoing(0), incoming = plan.incoming(0);
        const plan::BoundParts parts{array.bound(), &outgoing, array.bound(), &incoming};
        const auto check = [&](bool combines) {
            plan::check_conflicts(std::span(&parts, 1), 0, combines);
        };
        if (twice || both)
            expect_error(ErrorCode::invalid_argument, [&] { check(false); });
        else
            EXPECT_NO_THROW(check(false));
        if (both)
            expect_error(ErrorCode::invalid_argument, [&] { check(true); });
        else
            EXPECT_NO_THROW(check(true));
        // Boxes onto themselves are all that the quick check lets pass.
        const auto quick = [&] { plan::check_overlaps(std::span(&parts, 1), 0); };
        if (both && !onto_itself) expect_error(ErrorCode::invalid_argument, quick);
        if (!both) {
            EXPECT_NO_THROW(quick());
        }
    }
    EXPECT_EQ(seen.size(), 4u);
}

/// The dense memory of rank 0, rows or columns first, from any byte of one buffer on, elements
/// apart by more than their size.
struct View {
    Layout layout;
    MemoryLayout memory;
    std::uintptr_t base;
    std::int64_t elem_bytes;

    View(Random& random, Layout of, std::int64_t elem_bytes)
        : layout(std::move(of)), elem_bytes(elem_bytes) {
        const bool rows = random.chance(50);
        const std::int64_t apart = elem_bytes * random.integer(1, 2);
        memory = dense_memory(layout, 0, apart,
                              rows ? ElementOrder::row_major : ElementOrder::column_major);
        base = static_cast<std::uintptr_t>(4096 +
                                           random.integer(0, 40) * (random.chance(50) ? apart : 1));
    }
    plan::BoundMemory bound() const { return {&layout, &memory, base, elem_bytes}; }
};

TEST(Overlaps, OfBlockCyclicViewsAsFoundByteByByte) {
    std::int64_t refused = 0, taken = 0, missed = 0;
    for (std::int64_t i = 0; i < cases(1000); ++i) {
        Random random(seed_of(i));
        const Point shape{random.integer(1, 9), random.integer(1, 9)};
        const std::int64_t nprocs = random.integer(1, 3), elem_bytes = random.integer(1, 8);
        const auto layout = [&] {
            const std::string cyclic = "cyclic(" + std::to_string(random.integer(1, 3)) + ")";
            return Layout(BlockCyclic(
                shape, random.chance(50) ? "(" + cyclic + ", *)" : "(*, " + cyclic + ")", nprocs));
        };
        const View from(random, layout(), elem_bytes), to(random, layout(), elem_bytes);
        const MotionPlan plan = redistribute(from.layout, to.layout);
        const auto outgoing = plan.outgoing(0), incoming = plan.incoming(0);
        const plan::BoundParts parts{from.bound(), &outgoing, to.bound(), &incoming};
        const std::span<const plan::BoundParts> move(&parts, 1);
        const auto refuses = [&](auto&& check) {
            try {
                check();
                return false;
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
                return true;
            }
        };
        const bool truth = refuses([&] { plan::check_conflicts(move, 0, true); });
        const bool quick = refuses([&] { plan::check_overlaps(move, 0); });
        EXPECT_TRUE(truth || !quick) << "case " << i;
        (quick ? refused : truth ? missed : taken) += 1;
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(taken, 0);
    // What stays where it is is taken.
    EXPECT_LT(missed, refused / 4);
}

TEST(Conflicts, SectionsAreNamedInGlobalIndices) {
    Random random(1);
    const Memory array(random);
    MotionPlan plan(array.layout, array.layout);
    plan.add_section(1, Region({6, 2}, {8, 4}), 3, Region({15, 0}, {17, 2}));
    const auto parts = plan.outgoing(0);
    const plan::BoundParts bound{array.bound(), &parts, array.bound(), &parts};
    std::vector<Region> sections;
    for (const Side side : {Side::source, Side::destination})
        plan::for_each_touch(bound, side, [&](const plan::Touch& touch) {
            sections.push_back(plan::section(array.layout, touch.piece, touch.side));
        });
    EXPECT_EQ(sections, (std::vector{Region({6, 2}, {8, 4}), Region({15, 0}, {17, 2})}));

    const Layout dealt = BlockCyclic(Point{20}, "(cyclic(3))", 2);
    const auto outgoing = redistribute(dealt, BlockCyclic(Point{20}, "(block)", 2)).outgoing(1);
    EXPECT_EQ(plan::section(dealt, outgoing.front().part.pieces.front(), Side::source),
              Region(Point{3}, Point{10}));
}

}  // namespace
}  // namespace datamover
