// SPDX-License-Identifier: BSD-3-Clause
// Plans: move the elements of their sections, also after editing, merging, reversing or composing.
#include "datamover/motion_plan.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <thread>

#include "layout_oracle.hpp"
#include "plan/compile.hpp"
#include "plan/serial.hpp"

namespace datamover {
namespace {

using layout_oracle::carry_out;
using layout_oracle::cases;
using layout_oracle::Coordinates;
using layout_oracle::expect_error;
using layout_oracle::Kind;
using layout_oracle::Random;
using layout_oracle::seed_of;
using layout_oracle::Way;
using layout_oracle::World;

constexpr std::int64_t ghost = 2;

std::vector<Coordinates> points_in_order(const Region& region) {
    std::vector<Coordinates> points;
    region_oracle::for_each_between(region.lo().to_vector(), region.hi().to_vector(),
                                    [&](const Coordinates& p) { points.push_back(p); });
    return points;
}

Coordinates within(const FloorPlan& plan, std::int64_t block, Coordinates global) {
    const Point lo = plan.region(block).lo();
    for (std::size_t d = 0; d < global.size(); ++d) global[d] -= lo[static_cast<int>(d)];
    return global;
}

/// What a section copy between floor plans means, point by point.
void copy_point_by_point(const SectionCopy& s, World& from, World& to) {
    const FloorPlan& source = *from.layout.floor_plan();
    const FloorPlan& destination = *to.layout.floor_plan();
    const auto read = points_in_order(s.source_region);
    const auto written = points_in_order(s.destination_region);
    ASSERT_EQ(read.size(), written.size());
    for (std::size_t i = 0; i < written.size(); ++i) {
        Coordinates origin = read[i];
        for (std::size_t k = 0; k < s.axes.size(); ++k) {
            const int d = s.axes[k], to_dim = static_cast<int>(k);
            const std::int64_t t = written[i][k] - s.destination_region.lo()[to_dim];
            origin[static_cast<std::size_t>(d)] = !s.flip.empty() && s.flip[k]
                                                      ? s.source_region.hi()[d] - 1 - t
                                                      : s.source_region.lo()[d] + t;
        }
        to.at(s.destination_block, within(destination, s.destination_block, written[i])) =
            from.at(s.source_block, within(source, s.source_block, origin));
    }
}

Region random_box(Random& random, const Region& inside) {
    Point lo = inside.lo(), hi = lo;
    for (int d = 0; d < lo.dims(); ++d) {
        lo[d] = random.integer(inside.lo()[d], inside.hi()[d] - 1);
        hi[d] = random.integer(lo[d] + 1, inside.hi()[d]);
    }
    return {lo, hi};
}

std::vector<int> random_axes(Random& random, int dims) {
    std::vector<int> axes;
    for (int d = 0; d < dims; ++d) axes.insert(axes.begin() + random.integer(0, d), d);
    return axes;
}

/// Half of the time none.
std::vector<bool> random_flip(Random& random, int dims) {
    std::vector<bool> flip;
    if (random.chance(50))
        for (int k = 0; k < dims; ++k) flip.push_back(random.chance(60));
    return flip;
}

/// A box of `points` points in a random place of `inside`, or an empty one where none fits.
Region box_of_size(Random& random, const Region& inside, std::int64_t points) {
    Point shape = Point::filled(inside.dims(), 1);
    for (int d = 0; d < inside.dims(); ++d) {
        const bool last = d == inside.dims() - 1;
        std::int64_t extent = last ? points : random.integer(1, points);
        while (points % extent != 0) --extent;
        shape[d] = extent;
        points /= extent;
        if (extent > inside.extent(d)) return Region::empty_region(inside.dims());
    }
    Point lo = inside.lo();
    for (int d = 0; d < inside.dims(); ++d) lo[d] += random.integer(0, inside.extent(d) - shape[d]);
    return {lo, lo + shape};
}

/// A hand-made plan between random floor plans: at most one section into each destination block,
/// some through axes, some that change their shape, reaching into ghosts.
struct HandMade {
    explicit HandMade(Random& random) {
        const std::int64_t nprocs = random.integer(1, 5);
        const int dims = static_cast<int>(random.integer(1, 3));
        source = layout_oracle::random_floor_plan(random, layout_oracle::random_shape(random, dims),
                                                  nprocs);
        destination = layout_oracle::random_floor_plan(
            random, layout_oracle::random_shape(random, dims), nprocs);
        plan = MotionPlan(source, destination);
        const Point width = Point::filled(dims, ghost);
        const auto& to = *destination.floor_plan();
        const auto& from = *source.floor_plan();
        for (std::int64_t block = 0; block < std::min<std::int64_t>(to.num_blocks(), 12); ++block) {
            const std::int64_t source_block = random.integer(0, from.num_blocks() - 1);
            const Region allowed = to.region(block).grown(width);
            const Region read = random_box(random, from.region(source_block).grown(width));
            if (random.chance(40)) {
                const Region written = box_of_size(random, allowed, read.size());
                if (!written.empty()) plan.add_section(source_block, read, block, written);
                continue;
            }
            const auto axes = random_axes(random, dims);
            Point lo = allowed.lo(), hi = lo, read_hi = read.lo();
            for (int k = 0; k < dims; ++k) {
                const int d = axes[static_cast<std::size_t>(k)];
                const std::int64_t extent = std::min(allowed.extent(k), read.extent(d));
                lo[k] += random.integer(0, allowed.extent(k) - extent);
                hi[k] = lo[k] + extent;
                read_hi[d] = read.lo()[d] + extent;
            }
            plan.add_section(source_block, Region(read.lo(), read_hi), block, Region(lo, hi), axes,
                             {}, {}, random_flip(random, dims));
        }
    }

    World world(Random& random, const Layout& layout) const {
        World w = layout_oracle::make_world(random, layout, Point::filled(layout.dims(), ghost));
        std::int32_t next = 0;
        for (auto& of_rank : w.data)
            for (std::int32_t& element : of_rank) element = next++;
        return w;
    }

    Layout source, destination;
    MotionPlan plan;
};

std::vector<SectionCopy> sections_of(const MotionPlan& plan, std::int64_t source_rank = -1,
                                     std::int64_t destination_rank = -1) {
    std::vector<SectionCopy> sections;
    plan.for_each_section([&](const SectionCopy& s) { sections.push_back(s); }, source_rank,
                          destination_rank);
    return sections;
}

TEST(MotionPlan, HandMadeSectionsMovePointByPoint) {
    for (const Way way : {Way::direct, Way::message}) {
        for (std::int64_t i = 0; i < cases(300); ++i) {
            Random random(seed_of(i));
            const HandMade c(random);
            World from = c.world(random, c.source), to = c.world(random, c.destination);
            World expected = to;
            for (const SectionCopy& s : sections_of(c.plan)) copy_point_by_point(s, from, expected);
            carry_out(c.plan, from, to, way);
            ASSERT_EQ(to.data, expected.data) << "case " << i;
        }
    }
}

TEST(MotionPlan, ReversedBringsBackWhatItBrought) {
    for (std::int64_t i = 0; i < cases(200); ++i) {
        Random random(seed_of(i));
        const HandMade c(random);
        World from = c.world(random, c.source), to = c.world(random, c.destination);
        const World before = from;
        carry_out(c.plan, from, to, Way::direct);
        carry_out(c.plan.reversed(), to, from, Way::message);
        ASSERT_EQ(from.data, before.data) << "case " << i;
        ASSERT_EQ(c.plan.reversed().reversed(), c.plan);
    }
}

TEST(MotionPlan, BlockCyclicSectionsMayBeNamedWhereABlockHoldsThemWhole) {
    const Layout dealt = BlockCyclic(Point{12}, "(cyclic(3))", 2);
    MotionPlan plan(dealt, dealt);
    plan.add_section(1, Region(Point{9}, Point{12}), 0, Region(Point{6}, Point{9}));
    Random random(1);
    World from = layout_oracle::make_world(random, dealt), to = from;
    layout_oracle::fill_with_indices(from);
    carry_out(plan, from, to, Way::direct);
    for (std::int64_t k = 0; k < 3; ++k) EXPECT_EQ(to.at(0, {3 + k}), 9 + k);
    plan.add_section(1, Region(Point{5}, Point{7}), 0, Region(Point{0}, Point{2}));
    expect_error(ErrorCode::out_of_range, [&] { plan.outgoing(1); });
}

/// Between floor plans and block-cyclic layouts of one shape.
MotionPlan random_box_plan(Random& random, const Layout& source, const Layout& destination) {
    return redistribute(source, source.domain(), destination, destination.domain(),
                        random_axes(random, source.dims()), false,
                        random_flip(random, source.dims()));
}

Layout random_boxes(Random& random, const Point& shape, std::int64_t nprocs) {
    const Kind kind = random.chance(50) ? Kind::block_cyclic : Kind::floor_plan;
    return layout_oracle::random_layout(random, kind, shape, nprocs);
}

/// From which element of the source to which of the destination, as (rank, byte, rank, byte).
using ElementPairs = std::multiset<std::array<std::int64_t, 4>>;

/// All pairs of a plan, by the addresses of both memories.
ElementPairs element_pairs(const MotionPlan& plan, bool exchanged = false) {
    ElementPairs pairs;
    const auto memories = [](const Layout& layout) {
        std::vector<MemoryLayout> all;
        for (std::int64_t r = 0; r < layout.nprocs(); ++r)
            all.push_back(dense_memory(layout, r, 1));
        return all;
    };
    const auto from = memories(plan.source()), to = memories(plan.destination());
    for (std::int64_t rank = 0; rank < plan.nprocs(); ++rank)
        for (const PeerPart& peer : plan.outgoing(rank)) {
            const auto r = static_cast<std::size_t>(rank), p = static_cast<std::size_t>(peer.rank);
            std::vector<std::int64_t> s, d;
            plan::compile(peer.part, {&plan.source(), &from[r], 1, rank},
                          {&plan.destination(), &to[p], 1, peer.rank})
                .to_pairs(s, d);
            for (std::size_t i = 0; i < s.size(); ++i)
                pairs.insert(exchanged ? std::array{peer.rank, d[i], rank, s[i]}
                                       : std::array{rank, s[i], peer.rank, d[i]});
        }
    return pairs;
}

TEST(MotionPlan, SectionsMoveTheSameAsThePlan) {
    for (std::int64_t i = 0; i < cases(1000); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 3));
        const Point shape = Point::filled(dims, random.integer(1, 9));
        const std::int64_t nprocs = random.integer(1, 5);
        const Layout a = random_boxes(random, shape, nprocs);
        const Layout b = random_boxes(random, shape, nprocs);
        const MotionPlan plan = random_box_plan(random, a, b);
        MotionPlan expanded(a, b), returned(b, a);
        for (const SectionCopy& s : sections_of(plan)) expanded.add(s);
        for (const SectionCopy& s : sections_of(plan.adjoint())) returned.add(s);
        ASSERT_EQ(element_pairs(returned), element_pairs(plan.adjoint())) << "case " << i;
        EXPECT_EQ(MotionPlan::from_bytes(expanded.to_bytes()), expanded);
        EXPECT_EQ(expanded.reversed().reversed(), expanded);
        World from = layout_oracle::make_world(random, a);
        World to = layout_oracle::make_world(random, b), to_expanded = to;
        layout_oracle::fill_with_indices(from);
        carry_out(plan, from, to, Way::message);
        carry_out(expanded, from, to_expanded, Way::message);
        ASSERT_EQ(to.data, to_expanded.data) << "case " << i;
    }
}

TEST(MotionPlan, SectionsLieInTheirBlocksAndCoverTheDestinationOnce) {
    using Held = std::set<std::pair<std::int64_t, Coordinates>>;
    const auto held_in = [](const Layout& layout) {
        Held held;
        for (const auto& e : layout_oracle::elements_of(layout)) held.insert({e.block, e.global});
        return held;
    };
    for (std::int64_t i = 0; i < cases(500); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 2));
        const Point shape = Point::filled(dims, random.integer(1, 12));
        const std::int64_t nprocs = random.integer(1, 4);
        const Layout a = random_boxes(random, shape, nprocs);
        const Layout b = random_boxes(random, shape, nprocs);
        const Held sources = held_in(a);
        Held missing = held_in(b);
        for (const SectionCopy& s : sections_of(random_box_plan(random, a, b))) {
            for (const Coordinates& p : points_in_order(s.source_region))
                ASSERT_TRUE(sources.contains({s.source_block, p})) << "case " << i;
            for (const Coordinates& p : points_in_order(s.destination_region))
                ASSERT_EQ(missing.erase({s.destination_block, p}), 1u) << "case " << i;
        }
        ASSERT_TRUE(missing.empty()) << "case " << i;
    }
}

TEST(MotionPlan, SectionsOfRanksArePartsOfAllSections) {
    const auto key = [](const SectionCopy& s) {
        return std::make_tuple(s.source_block, s.source_region.lo().to_vector(),
                               s.source_region.hi().to_vector(), s.destination_block,
                               s.destination_region.lo().to_vector());
    };
    for (std::int64_t i = 0; i < cases(60); ++i) {
        Random random(seed_of(i));
        const std::int64_t nprocs = random.integer(1, 4);
        const Layout tiles = layout_oracle::random_floor_plan(random, Point{8, 8}, nprocs);
        MotionPlan plan = halo(*tiles.floor_plan(), Point{1, 2}, Point{1, 0}, tiles.domain());
        plan = plan.merged(plan.reversed()).merged(redistribute(tiles, tiles, {1, 0}));
        plan.add_section(0, tiles.floor_plan()->region(0), 0, tiles.floor_plan()->region(0));
        std::set<decltype(key(SectionCopy{}))> all, of_pairs, of_sources, of_destinations;
        for (const auto& s : sections_of(plan)) all.insert(key(s));
        for (std::int64_t a = 0; a < nprocs; ++a) {
            for (const auto& s : sections_of(plan, a)) {
                EXPECT_EQ(tiles.owner(s.source_block), a);
                of_sources.insert(key(s));
            }
            for (const auto& s : sections_of(plan, -1, a)) {
                EXPECT_EQ(tiles.owner(s.destination_block), a);
                of_destinations.insert(key(s));
            }
            for (std::int64_t b = 0; b < nprocs; ++b)
                for (const auto& s : sections_of(plan, a, b)) of_pairs.insert(key(s));
        }
        EXPECT_FALSE(all.empty());
        EXPECT_EQ(of_pairs, all);
        EXPECT_EQ(of_sources, all);
        EXPECT_EQ(of_destinations, all);
    }
}

TEST(MotionPlan, ComposedDoesWhatOneAfterTheOtherDoes) {
    for (std::int64_t i = 0; i < cases(1000); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 2));
        const Point shape = Point::filled(dims, random.integer(1, 9));
        const std::int64_t nprocs = random.integer(1, 4);
        const Layout a = random_boxes(random, shape, nprocs);
        const Layout b = random_boxes(random, shape, nprocs);
        const Layout c = random_boxes(random, shape, nprocs);
        const Region part = random_box(random, Region::from_shape(shape));
        const MotionPlan first =
            random.chance(50) ? random_box_plan(random, a, b) : redistribute(a, part, b, part);
        const MotionPlan second = random_box_plan(random, b, c);
        World at_a = layout_oracle::make_world(random, a);
        World at_b = layout_oracle::make_world(random, b);
        World at_c = layout_oracle::make_world(random, c), composed_at_c = at_c;
        layout_oracle::fill_with_indices(at_a);
        carry_out(first, at_a, at_b, Way::direct);
        carry_out(second, at_b, at_c, Way::direct);
        carry_out(first.composed(second), at_a, composed_at_c, Way::message);
        ASSERT_EQ(composed_at_c.data, at_c.data) << "case " << i;
    }
}

TEST(MotionPlan, FilteredKeepsWhatThePredicateKeeps) {
    const FloorPlan tiles = FloorPlan::uniform(Region(Point{0, 0}, Point{8, 8}), Point{2, 2}, 4);
    const MotionPlan plan = halo(tiles, Point{1, 1}, Point{1, 1});
    const auto is_face = [](const SectionCopy& s) { return s.source_region.size() > 1; };
    const MotionPlan faces = plan.filter(is_face);
    std::vector<SectionCopy> expected;
    for (const SectionCopy& s : sections_of(plan))
        if (is_face(s)) expected.push_back(s);
    EXPECT_EQ(expected.size(), 8u);
    EXPECT_EQ(sections_of(faces), expected);
    EXPECT_EQ(plan.filter([](const SectionCopy&) { return true; }), plan);
    EXPECT_EQ(plan.filter([](const SectionCopy&) { return false; }).size(), 0);
}

TEST(MotionPlan, TermsAreReadReplacedErasedAndMerged) {
    const Layout halves = FloorPlan::uniform(Region(Point{0}, Point{8}), Point{2}, 2);
    MotionPlan plan(halves, halves);
    const SectionCopy one{0, Region(Point{0}, Point{2}), 1, Region(Point{4}, Point{6}), {}};
    const SectionCopy two{1, Region(Point{5}, Point{6}), 0, Region(Point{3}, Point{4}), {}};
    plan.add(one);
    plan.add(two);
    ASSERT_EQ(plan.size(), 2);
    EXPECT_EQ(std::get<SectionCopy>(plan[1]), two);
    MotionPlan edited = plan;
    edited.erase(0);
    ASSERT_EQ(edited.size(), 1);
    EXPECT_EQ(std::get<SectionCopy>(edited[0]), two);
    edited.replace(0, one);
    EXPECT_EQ(std::get<SectionCopy>(edited[0]), one);
    const MotionPlan both = edited.merged(plan);
    ASSERT_EQ(both.size(), 3);
    EXPECT_EQ(std::get<SectionCopy>(both[0]), one);
    EXPECT_EQ(std::get<SectionCopy>(both[2]), two);
    EXPECT_EQ(both.outgoing(0).front().part.size(), 4);
    EXPECT_FALSE(both == plan);
}

TEST(MotionPlan, FlipsThatDoNotFitAreRefused) {
    const Layout tiles = FloorPlan({Region(Point{0, 0}, Point{4, 4})}, {0}, 1);
    const Region tall(Point{0, 0}, Point{4, 2}), wide(Point{0, 0}, Point{2, 4});
    MotionPlan plan(tiles, tiles);
    expect_error(ErrorCode::mismatch,
                 [&] { plan.add_section(0, tall, 0, tall, {}, {}, {}, {true}); });
    expect_error(ErrorCode::mismatch,
                 [&] { plan.add_section(0, tall, 0, wide, {}, {}, {}, {true, false}); });
    plan.add_section(0, tall, 0, wide, {1, 0}, {}, {}, {true, false});
    EXPECT_EQ(plan.part(0, 0).size(), 8);
    plan.add_section(0, tall, 0, tall, {}, {}, {}, {false, false});
    EXPECT_EQ(std::get<SectionCopy>(plan[1]), (SectionCopy{0, tall, 0, tall}));
}

TEST(MotionPlan, RefusesWhatDoesNotFit) {
    const Layout halves = FloorPlan::uniform(Region(Point{0, 0}, Point{8, 4}), Point{2, 1}, 2);
    const Layout lists =
        IndexList(Point{8, 4}, std::vector<std::int64_t>{0, 1, 1}, std::vector<std::int64_t>{3});
    MotionPlan plan(halves, halves);
    const Region box(Point{0, 0}, Point{2, 3}), turned(Point{4, 0}, Point{7, 2});
    const auto refused = [&](ErrorCode code, auto... arguments) {
        expect_error(code, [&] { plan.add_section(arguments...); });
    };
    using Axes = std::vector<int>;
    refused(ErrorCode::out_of_range, 2, box, 0, box);
    refused(ErrorCode::out_of_range, 0, box, -1, box);
    refused(ErrorCode::mismatch, 0, box, 1, Region(Point{4, 0}, Point{6, 2}));
    refused(ErrorCode::mismatch, 0, Region(Point{0}, Point{6}), 1, box);
    refused(ErrorCode::mismatch, 0, box, 1, turned, Axes{0, 1});
    refused(ErrorCode::invalid_argument, 0, box, 1, turned, Axes{1, 1});
    refused(ErrorCode::invalid_argument, 0, box, 1, turned, Axes{1});
    EXPECT_EQ(plan.size(), 0);
    expect_error(ErrorCode::unsupported,
                 [&] { MotionPlan(lists, lists).add_section(0, box, 0, box); });
    expect_error(ErrorCode::unsupported, [&] { sections_of(redistribute(lists, halves)); });
    expect_error(ErrorCode::out_of_range, [&] { plan[0]; });
    expect_error(ErrorCode::out_of_range, [&] { plan.erase(-1); });
    expect_error(ErrorCode::out_of_range, [&] { sections_of(plan, 2); });
    expect_error(ErrorCode::out_of_range, [&] { plan.outgoing(2); });
    expect_error(ErrorCode::out_of_range, [&] { plan.incoming(-1); });
    expect_error(ErrorCode::mismatch, [&] { plan.merged(redistribute(lists, lists)); });
    expect_error(ErrorCode::mismatch, [&] { plan.composed(redistribute(lists, lists)); });
    expect_error(ErrorCode::mismatch, [&] {
        MotionPlan(halves, FloorPlan::uniform(Region(Point{0}, Point{8}), Point{2}, 3));
    });
    expect_error(ErrorCode::invalid_argument, [&] { MotionPlan(halves, Layout{}); });
    plan.add_section(0, box, 1, turned);
    expect_error(ErrorCode::unsupported, [&] { plan.composed(plan); });
}

TEST(MotionPlan, HalosMovePointByPoint) {
    for (std::int64_t i = 0; i < cases(100); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 2));
        const Layout tiles = layout_oracle::random_floor_plan(
            random, layout_oracle::random_shape(random, dims), random.integer(1, 5));
        const Point lower = random.point(dims, 0, ghost), upper = random.point(dims, 0, ghost);
        const Region periodic = random.chance(50) ? tiles.domain() : Region{};
        const MotionPlan plan =
            halo(*tiles.floor_plan(), lower, upper, periodic, {}, random.chance(50));
        World from = layout_oracle::make_world(random, tiles, Point::filled(dims, ghost));
        layout_oracle::fill_with_indices(from);
        World to = from, expected = from;
        for (const SectionCopy& s : sections_of(plan)) copy_point_by_point(s, from, expected);
        carry_out(plan, from, to, random.chance(50) ? Way::direct : Way::message);
        ASSERT_EQ(to.data, expected.data) << "case " << i;
    }
}

TEST(MotionPlan, TheAdjointHasEachPairOfElementsTheOtherWay) {
    constexpr std::array kinds{Kind::block_cyclic, Kind::floor_plan, Kind::flat_cyclic,
                               Kind::uneven_ranges, Kind::index_list};
    for (std::int64_t i = 0; i < cases(200); ++i) {
        Random random(seed_of(i));
        const bool uneven = random.chance(20);
        const int dims = uneven ? 3 : static_cast<int>(random.integer(1, 3));
        const Point shape = uneven ? layout_oracle::random_uneven_shape(random, dims)
                                   : layout_oracle::random_shape(random, dims);
        const std::int64_t nprocs = random.integer(1, 4);
        const auto draw = [&] {
            return layout_oracle::random_layout(
                random, kinds[static_cast<std::size_t>(random.integer(0, uneven ? 3 : 4))], shape,
                nprocs);
        };
        const Layout a = draw(), b = draw();
        const MotionPlan plan =
            redistribute(a, a.domain(), b, b.domain(), {}, false, random_flip(random, dims));
        const MotionPlan back = plan.adjoint();
        ASSERT_EQ(element_pairs(back, true), element_pairs(plan, false)) << "case " << i;
        ASSERT_EQ(back.adjoint(), plan);
        ASSERT_EQ(back.reversed().reversed(), back);
        for (std::int64_t rank = 0; rank < nprocs; ++rank)
            for (const PeerPart& peer : back.incoming(rank)) {
                std::int64_t sent = 0;
                for (const PeerPart& p : back.outgoing(peer.rank))
                    if (p.rank == rank) sent = p.part.size();
                ASSERT_EQ(sent, peer.part.size()) << "case " << i;
            }
    }
}

TEST(MotionPlan, DigestsAreSharedByCopiesAndForgottenByChanges) {
    using Digests = std::vector<std::int64_t>;
    const Layout rows = BlockCyclic({12, 10}, "(block, *)", 4);
    const Layout dealt = BlockCyclic({12, 10}, "(cyclic(2), *)", 4);
    MotionPlan plan = redistribute(rows, dealt);
    const MotionPlan copy = plan;
    EXPECT_EQ(&plan::plan_digests(copy), &plan::plan_digests(plan)) << "computed anew";
    const Digests digest = plan::plan_digests(plan);
    for (const std::int64_t part : digest) EXPECT_GE(part, 0);
    EXPECT_EQ(digest, plan::plan_digests(redistribute(rows, dealt)));
    EXPECT_EQ(digest, plan::plan_digests(MotionPlan::from_bytes(plan.to_bytes())));
    plan.add(Redistribution{Region({0, 0}, {1, 1}), Region({3, 3}, {4, 4}), {}});
    EXPECT_NE(digest, plan::plan_digests(plan));
    EXPECT_EQ(digest, plan::plan_digests(copy));
    EXPECT_EQ(plan::plan_digests(plan).size(), 4u);
    plan.replace(1, Redistribution{Region({0, 0}, {1, 1}), Region({3, 3}, {4, 4}), {}, true});
    const Digests partial = plan::plan_digests(plan);
    EXPECT_NE(partial, plan::plan_digests(plan.merged(copy)));
    plan.erase(1);
    EXPECT_EQ(digest, plan::plan_digests(plan));
    EXPECT_NE(digest, plan::plan_digests(plan.reversed()));
    // However the distribution is written.
    const Layout spaced = BlockCyclic({12, 10}, "( BLOCK,* )", 4);
    EXPECT_EQ(spaced, rows);
    EXPECT_EQ(digest, plan::plan_digests(redistribute(spaced, dealt)));
    std::vector<std::thread> threads;
    const MotionPlan fresh = plan.merged(plan);
    std::vector<Digests> found(8);
    for (std::size_t t = 0; t < found.size(); ++t)
        threads.emplace_back([&, t] { found[t] = plan::plan_digests(MotionPlan(fresh)); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(found, std::vector<Digests>(8, plan::plan_digests(fresh)));
}

/// What a destination needs must be held by a source: by brute force, element by element.
TEST(MotionPlan, ElementsThatNobodyHoldsAreNamed) {
    std::int64_t refused = 0;
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 2));
        const Point shape = random.point(dims, 1, 8);
        const Region domain = Region::from_shape(shape);
        std::vector<Region> regions{Region(Point::filled(dims, 0), Point::filled(dims, 1)),
                                    Region(shape - Point::filled(dims, 1), shape)};
        for (std::int64_t n = random.integer(0, 5); n > 0; --n)
            regions.push_back(random.region(dims, -3, 8).intersected(domain));
        const FloorPlan source(regions, Map(regions.size(), 0), 3);
        const Layout destination = layout_oracle::random_layout(
            random, random.chance(50) ? Kind::block_cyclic : Kind::floor_plan, shape, 3);
        const MotionPlan plan = redistribute(source, destination);
        for (std::int64_t rank = 0; rank < 3; ++rank) {
            std::set<std::string> missing;
            for (const std::int64_t block : destination.blocks_of(rank)) {
                const auto sets = destination.axis_sets(block);
                Region::from_shape(destination.block_extents(block)).for_each([&](const Point& p) {
                    Point index = p;
                    for (int d = 0; d < dims; ++d)
                        index[d] = sets[static_cast<std::size_t>(d)].global(p[d]);
                    const bool held =
                        std::any_of(regions.begin(), regions.end(),
                                    [&](const Region& r) { return r.contains(index); });
                    if (!held) missing.insert(index.to_string());
                });
            }
            EXPECT_NO_THROW(redistribute(source, destination, {}, true).incoming(rank));
            try {
                plan.incoming(rank);
                ASSERT_TRUE(missing.empty()) << "case " << i;
            } catch (const Error& e) {
                ++refused;
                ASSERT_EQ(e.code(), ErrorCode::mismatch);
                const std::string text = e.what();
                const std::size_t from = text.find('('), to = text.find(')');
                EXPECT_NE(text.find("process " + std::to_string(rank)), std::string::npos);
                ASSERT_EQ(missing.count(text.substr(from, to - from + 1)), 1u) << text;
            }
        }
    }
    EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace datamover
