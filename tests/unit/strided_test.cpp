// SPDX-License-Identifier: BSD-3-Clause
// Strided sections and halos of one color: move exactly the points that they name.
#include <cstdint>
#include <limits>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::carry_out;
using layout_oracle::cases;
using layout_oracle::Coordinates;
using layout_oracle::Element;
using layout_oracle::elements_of;
using layout_oracle::expect_error;
using layout_oracle::Random;
using layout_oracle::seed_of;
using layout_oracle::untouched;
using layout_oracle::Way;
using layout_oracle::World;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

Coordinates local_of(const FloorPlan& blocks, std::int64_t block, const Point& global) {
    return (global - blocks.region(block).lo()).to_vector();
}

/// One random section between two blocks, ghosts included, and every pair of points it names.
struct StridedCase {
    FloorPlan from, to;
    SectionCopy section;
    std::vector<std::pair<Point, Point>> pairs;

    StridedCase(Random& random, int dims) {
        const Point origin = random.point(dims, -5, 5), other = random.point(dims, -5, 5);
        Point from_hi = origin, to_hi = other, from_end = origin, to_end = other;
        Point count = random.point(dims, 1, 4);
        section.source_step = random.point(dims, 1, 3);
        section.destination_step = random.point(dims, 1, 3);
        for (int d = 0; d < dims; ++d)
            section.axes.insert(section.axes.begin() + random.integer(0, d), d);
        for (int k = 0; k < dims; ++k) section.flip.push_back(random.chance(40));
        for (int k = 0; k < dims; ++k) {
            const int d = section.axes[static_cast<std::size_t>(k)];
            // Up to a step beyond the last point.
            from_end[d] +=
                (count[k] - 1) * section.source_step[d] + random.integer(1, section.source_step[d]);
            to_end[k] += (count[k] - 1) * section.destination_step[k] +
                         random.integer(1, section.destination_step[k]);
            from_hi[d] = from_end[d] + 2;
            to_hi[k] = to_end[k] + 2;
        }
        // The blocks begin one point into the sections: those reach into ghosts.
        const Point one = Point::filled(dims, 1);
        from = FloorPlan({Region(origin + one, from_hi)}, {0}, 2);
        to = FloorPlan({Region(other + one, to_hi)}, {1}, 2);
        section.source_region = Region(origin, from_end);
        section.destination_region = Region(other, to_end);
        Region::from_shape(count).for_each([&](const Point& t) {
            Point a = origin, b = other;
            for (int k = 0; k < dims; ++k) {
                const int d = section.axes[static_cast<std::size_t>(k)];
                const bool flips = section.flip[static_cast<std::size_t>(k)];
                a[d] += (flips ? count[k] - 1 - t[k] : t[k]) * section.source_step[d];
                b[k] += t[k] * section.destination_step[k];
            }
            pairs.emplace_back(a, b);
        });
    }
};

TEST(StridedSections, MoveEveryStepthPoint) {
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 3));
        const StridedCase c(random, dims);
        SCOPED_TRACE("case " + std::to_string(i));
        MotionPlan plan(c.from, c.to);
        plan.add(c.section);
        for (const Way way : {Way::direct, Way::message}) {
            const Point ghost = Point::filled(dims, 3);
            World a = layout_oracle::make_world(random, c.from, ghost);
            World b = layout_oracle::make_world(random, c.to, ghost);
            std::int32_t value = 0;
            for (auto& data : a.data)
                for (auto& element : data) element = value++;
            carry_out(plan, a, b, way);
            std::int64_t moved = 0;
            for (const auto& data : b.data)
                moved += std::count_if(data.begin(), data.end(),
                                       [](std::int32_t x) { return x != untouched; });
            ASSERT_EQ(moved, static_cast<std::int64_t>(c.pairs.size()));
            for (const auto& [from, to] : c.pairs)
                ASSERT_EQ(b.at(0, local_of(c.to, 0, to)), a.at(0, local_of(c.from, 0, from)));
        }
        EXPECT_EQ(MotionPlan::from_bytes(plan.to_bytes()), plan);
        EXPECT_EQ(plan.reversed().reversed(), plan);
        EXPECT_EQ(plan.reversed().part(1, 0).size(), plan.part(0, 1).size());
        EXPECT_EQ(plan.filter([](const SectionCopy&) { return true; }), plan);
        EXPECT_TRUE(plan.filter([](const SectionCopy&) { return false; }).size() == 0);
    }
}

TEST(StridedSections, OfStepsOfOneAreTheSameAsWithout) {
    const FloorPlan blocks = FloorPlan::uniform(Region({0, 0}, {4, 4}), {2, 1}, 2);
    MotionPlan with(blocks, blocks), without(blocks, blocks);
    const Region top({0, 0}, {2, 4}), bottom({2, 0}, {4, 4});
    with.add_section(0, top, 1, bottom, {}, {1, 1}, {1, 1});
    without.add_section(0, top, 1, bottom);
    EXPECT_EQ(with, without);
    EXPECT_EQ(with.to_bytes(), without.to_bytes());
}

TEST(StridedSections, OfBlockCyclicPartsLieWhole) {
    const Layout cyclic = BlockCyclic({12}, "(cyclic(4))", 2);
    const Layout packed = FloorPlan({Region({0}, {2})}, {0}, 2);
    MotionPlan plan(cyclic, packed);
    plan.add_section(0, Region({8}, {12}), 0, Region({0}, {2}), {}, {2});
    EXPECT_EQ(plan.outgoing(0).front().part.size(), 2);
    MotionPlan apart(cyclic, packed);
    apart.add_section(0, Region({0}, {12}), 0, Region({0}, {2}), {}, {8});
    expect_error(ErrorCode::out_of_range, [&] { apart.outgoing(0); });
}

TEST(StridedSections, AreRefusedWhereTheyDoNotFit) {
    const FloorPlan blocks({Region({0, 0}, {8, 8})}, {0});
    MotionPlan plan(blocks, blocks);
    const Region all({0, 0}, {8, 8}), half({0, 0}, {4, 8});
    const auto refused = [&](ErrorCode code, const Region& from, const Region& to,
                             const Point& step, const Point& to_step) {
        expect_error(code, [&] { plan.add_section(0, from, 0, to, {}, step, to_step); });
    };
    refused(ErrorCode::invalid_argument, all, half, {0, 1}, {});
    refused(ErrorCode::invalid_argument, all, half, {-2, 1}, {});
    refused(ErrorCode::invalid_argument, all, half, {}, {1, 0});
    refused(ErrorCode::mismatch, all, half, {2}, {});
    refused(ErrorCode::mismatch, all, half, {}, {1, 1, 1});
    refused(ErrorCode::mismatch, all, half, {1, 2}, {});
    refused(ErrorCode::mismatch, all, half, {3, 1}, {});
    EXPECT_EQ(plan.size(), 0);
    plan.add_section(0, all, 0, half, {}, {2, 1});
    EXPECT_EQ(plan.incoming(0).front().part.size(), 32);
    expect_error(ErrorCode::unsupported, [&] { plan.composed(plan); });
    expect_error(ErrorCode::unsupported, [&] { redistribute(blocks, blocks).composed(plan); });
}

TEST(StridedSections, OfAnySizeCostNothing) {
    const FloorPlan line({Region({0}, {huge})}, {0}), packed({Region({0}, {2})}, {0});
    MotionPlan plan(line, packed);
    plan.add_section(0, Region({0}, {huge}), 0, Region({0}, {2}), {}, {huge - 1});
    EXPECT_EQ(plan.incoming(0).front().part.size(), 2);
    MotionPlan even(line, line);
    even.add_section(0, Region({0}, {huge}), 0, Region({0}, {huge}), {}, {2}, {2});
    EXPECT_EQ(even.incoming(0).front().part.size(), huge / 2 + 1);
}

/// The halo of one color fills, of what the whole halo fills, the points of that color.
void check_colors(Random& random, const FloorPlan& blocks, const Point& lower, const Point& upper,
                  const Region& periodic, bool corners, std::int64_t colors, bool reversed) {
    const int dims = blocks.dims();
    const Point ghost = Point::filled(dims, 3);
    const auto moved = [&](const MotionPlan& plan, Way way) {
        Random same(7);
        World a = layout_oracle::make_world(same, blocks, ghost);
        World b = layout_oracle::make_world(same, blocks, ghost);
        // Every element says what the sum of its global indices is, and which it is.
        std::int32_t number = 0;
        for (std::int64_t i = 0; i < blocks.num_blocks(); ++i) {
            if (blocks.region(i).empty()) continue;
            blocks.region(i).grown(ghost).for_each([&](const Point& p) {
                std::int64_t sum = 1000 * colors;
                for (int d = 0; d < dims; ++d) sum += p[d];
                a.at(i, local_of(blocks, i, p)) =
                    static_cast<std::int32_t>(number++ * colors + sum % colors);
            });
        }
        carry_out(plan, a, b, way);
        return b.data;
    };
    MotionPlan all = halo(blocks, lower, upper, periodic, {}, corners);
    if (reversed) all = all.reversed();
    const auto whole = moved(all, Way::direct);
    for (std::int64_t color = 0; color < colors; ++color) {
        MotionPlan plan = halo(blocks, lower, upper, periodic, {}, corners, colors, color);
        if (reversed) plan = plan.reversed();
        const auto some = moved(plan, random.chance(50) ? Way::direct : Way::message);
        for (std::size_t rank = 0; rank < whole.size(); ++rank)
            for (std::size_t i = 0; i < whole[rank].size(); ++i) {
                const std::int32_t value = whole[rank][i];
                const bool wanted = value != untouched && value % colors == color;
                ASSERT_EQ(some[rank][i], wanted ? value : untouched) << "color " << color;
            }
        EXPECT_EQ(MotionPlan::from_bytes(plan.to_bytes()), plan);
        MotionPlan listed(plan.source(), plan.destination());
        plan.for_each_section([&](const SectionCopy& s) { listed.add(s); });
        EXPECT_EQ(moved(listed, Way::message), some);
    }
}

TEST(ColoredHalos, FillThePointsOfOneColor) {
    for (std::int64_t i = 0; i < cases(200); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 3));
        const Point shape = random.point(dims, 2, dims == 3 ? 6 : 9);
        const Region domain = Region::from_shape(shape).shifted(random.point(dims, -4, 4));
        const FloorPlan blocks =
            FloorPlan::tiles(domain, random.point(dims, 1, 5), random.integer(1, 4), "cyclic");
        SCOPED_TRACE("case " + std::to_string(i));
        // Ghosts that go back come from the color of their interior, which the values tell only
        // where nothing wraps.
        const bool reversed = random.chance(25);
        check_colors(random, blocks, random.point(dims, 0, 3), random.point(dims, 0, 3),
                     !reversed && random.chance(50) ? domain : Region{}, random.chance(70),
                     random.integer(2, 4), reversed);
    }
}

TEST(ColoredHalos, OfBlocksThatOverlapToo) {
    Random random(1);
    const FloorPlan blocks({Region({0, 0}, {5, 5}), Region({3, 2}, {8, 9}), Region({0, 5}, {3, 9})},
                           {0, 1, 0}, 2);
    check_colors(random, blocks, {1, 2}, {2, 1}, {}, true, 2, false);
    check_colors(random, blocks, {1, 2}, {2, 1}, {}, true, 3, true);
}

TEST(ColoredHalos, TakeAsManyPointsOfEachColor) {
    const FloorPlan cubes = FloorPlan::uniform(Region({0, 0, 0}, {8, 8, 8}), {2, 2, 2}, 8);
    const auto elems = [&](std::int64_t color) {
        std::int64_t sum = 0;
        for (const PeerPart& peer :
             halo(cubes, {1, 1, 1}, {1, 1, 1}, {}, {}, false, 2, color).incoming(0))
            sum += peer.part.size();
        return sum;
    };
    EXPECT_EQ(elems(0), 3 * 8);
    EXPECT_EQ(elems(1), 3 * 8);
}

TEST(ColoredHalos, RefuseColorsThatAreNone) {
    const FloorPlan blocks = FloorPlan::uniform(Region({0}, {8}), {2}, 2);
    const auto refused = [&](std::int64_t colors, std::int64_t color) {
        expect_error(ErrorCode::invalid_argument,
                     [&] { halo(blocks, {1}, {1}, {}, {}, true, colors, color); });
    };
    refused(0, 0);
    refused(-2, 0);
    refused(65, 0);
    refused(huge, 0);
    refused(2, 2);
    refused(2, -1);
    refused(1, 1);
    EXPECT_EQ(halo(blocks, {1}, {1}, {}, {}, true, 1, 0), halo(blocks, {1}, {1}));
}

}  // namespace
}  // namespace datamover
