// SPDX-License-Identifier: BSD-3-Clause
// Halos: every ghost that an interior or periodic image holds is filled once, from the right place.

#include "plan/halo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "region_oracle.hpp"

namespace datamover {
namespace {

using region_oracle::Coordinates;
using region_oracle::expect_error;
using region_oracle::lies_in;
using region_oracle::Random;

struct Source {
    std::int64_t block;
    Coordinates point;
    bool operator==(const Source&) const = default;
};
using Filling = std::map<Coordinates, Source>;

bool wraps(const HaloExchange& exchange, int d) {
    return exchange.periodic[static_cast<std::size_t>(d)];
}

// The coordinate in [lo, hi) that x is a periodic copy of, nearest to x and of two the one that is
// reached by shifting downward; none where there is no such coordinate.
std::optional<std::int64_t> held_as(std::int64_t x, std::int64_t lo, std::int64_t hi,
                                    std::int64_t period) {
    if (x >= lo && x < hi) return x;
    if (period == 0) return std::nullopt;
    for (std::int64_t distance = 1; distance < 200; ++distance) {
        for (const std::int64_t y : {x + distance * period, x - distance * period}) {
            if (y >= lo && y < hi) return y;
        }
    }
    return std::nullopt;
}

std::optional<Source> source_of(const FloorPlan& plan, const HaloExchange& exchange,
                                const Coordinates& p) {
    for (std::int64_t block = 0; block < plan.num_blocks(); ++block) {
        const Region region = plan.region(block);
        if (region.empty()) continue;
        Coordinates held;
        for (int d = 0; d < plan.dims(); ++d) {
            const std::int64_t period = wraps(exchange, d) ? exchange.domain.extent(d) : 0;
            const auto y =
                held_as(p[static_cast<std::size_t>(d)], region.lo()[d], region.hi()[d], period);
            if (y) held.push_back(*y);
        }
        if (held.size() == p.size()) return Source{block, held};
    }
    return std::nullopt;
}

// By brute force, point by point.
Filling expected_filling(const FloorPlan& plan, const HaloExchange& exchange, std::int64_t block) {
    Filling filling;
    const Region interior = plan.region(block);
    if (interior.empty()) return filling;
    Coordinates lo, hi;
    for (int d = 0; d < plan.dims(); ++d) {
        lo.push_back(interior.lo()[d] - exchange.lower[d]);
        hi.push_back(interior.hi()[d] + exchange.upper[d]);
    }
    region_oracle::for_each_between(lo, hi, [&](const Coordinates& p) {
        int dims_outside = 0;
        for (int d = 0; d < plan.dims(); ++d) {
            const std::int64_t x = p[static_cast<std::size_t>(d)];
            dims_outside += x < interior.lo()[d] || x >= interior.hi()[d] ? 1 : 0;
        }
        if (dims_outside == 0 || (!exchange.corners && dims_outside > 1)) return;
        if (const auto source = source_of(plan, exchange, p)) filling[p] = *source;
    });
    return filling;
}

std::vector<SectionCopy> sections_into(const FloorPlan& plan, const HaloExchange& exchange,
                                       std::int64_t block) {
    std::vector<SectionCopy> sections;
    plan::GhostBoxes(plan, exchange).into(block, [&](const BlockPair& filled, const BoxShape& box) {
        plan::for_each_section(plan, exchange, filled, box,
                               [&](const SectionCopy& section) { sections.push_back(section); });
    });
    return sections;
}

std::vector<std::int64_t> readers_of(const FloorPlan& plan, const HaloExchange& exchange,
                                     std::int64_t block) {
    return plan::GhostBoxes(plan, exchange).readers_of({&block, 1});
}

Filling filling_of(const std::vector<SectionCopy>& sections, std::int64_t block) {
    Filling filling;
    for (const SectionCopy& section : sections) {
        EXPECT_EQ(section.destination_block, block);
        EXPECT_EQ(section.source_region.shape(), section.destination_region.shape());
        EXPECT_FALSE(section.destination_region.empty());
        EXPECT_TRUE(section.axes.empty());
        const Point back = section.source_region.lo() - section.destination_region.lo();
        section.destination_region.for_each([&](const Point& p) {
            const Source source{section.source_block, (p + back).to_vector()};
            EXPECT_TRUE(filling.emplace(p.to_vector(), source).second)
                << p.to_string() << " is filled twice";
        });
    }
    return filling;
}

std::string describe(const FloorPlan& plan, const HaloExchange& exchange) {
    std::string text = "blocks";
    for (std::int64_t i = 0; i < plan.num_blocks(); ++i) {
        text.append(" ").append(plan.region(i).to_string());
    }
    text.append(", widths ").append(exchange.lower.to_string()).append(" ");
    text.append(exchange.upper.to_string()).append(", domain ");
    text.append(exchange.domain.to_string()).append(", wraps");
    for (const bool wrap : exchange.periodic) text.append(wrap ? " yes" : " no");
    return text.append(exchange.corners ? ", corners" : ", faces");
}

// Checks every block's sections and every block's readers against the brute force.
void check(const FloorPlan& plan, const HaloExchange& exchange, bool readers_are_exact) {
    SCOPED_TRACE(describe(plan, exchange));
    plan::check_halo_exchange(plan.bounding_box(), exchange);
    std::vector<std::set<std::int64_t>> readers(static_cast<std::size_t>(plan.num_blocks()));
    for (std::int64_t block = 0; block < plan.num_blocks(); ++block) {
        const Filling expected = expected_filling(plan, exchange, block);
        const std::vector<SectionCopy> sections = sections_into(plan, exchange, block);
        EXPECT_EQ(filling_of(sections, block), expected) << "block " << block;
        EXPECT_EQ(sections_into(plan, exchange, block), sections) << "the order is not fixed";
        for (const auto& [point, source] : expected) {
            readers[static_cast<std::size_t>(source.block)].insert(block);
        }
    }
    for (std::int64_t block = 0; block < plan.num_blocks(); ++block) {
        const std::vector<std::int64_t> found = readers_of(plan, exchange, block);
        const auto& needed = readers[static_cast<std::size_t>(block)];
        EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
        EXPECT_TRUE(std::includes(found.begin(), found.end(), needed.begin(), needed.end()));
        EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
        if (readers_are_exact) {
            EXPECT_EQ(std::set(found.begin(), found.end()), needed) << "block " << block;
        }
    }
}

std::vector<bool> random_wraps(Random& random, int dims) {
    std::vector<bool> wraps;
    for (int d = 0; d < dims; ++d) wraps.push_back(random.chance(60));
    return wraps;
}

std::int64_t deepest(int dims) {
    return dims == 1 ? 40 : dims == 2 ? 7 : 3;
}

HaloExchange random_exchange(Random& random, const Region& domain) {
    HaloExchange exchange;
    const int dims = domain.dims();
    const std::int64_t depth = random.chance(50) ? 1 : deepest(dims);
    exchange.lower = random.point(dims, 0, depth);
    exchange.upper = random.point(dims, 0, depth);
    exchange.domain = domain;
    exchange.periodic = random_wraps(random, dims);
    exchange.corners = random.chance(60);
    return exchange;
}

TEST(Halo, TilingsMatchBruteForce) {
    Random random(31);
    for (int run = 0; run < 600; ++run) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const std::int64_t side = dims == 1 ? 15 : dims == 2 ? 6 : 4;
        const Point lo = random.point(dims, -5, 5);
        const Region domain(lo, lo + random.point(dims, 1, side));
        std::vector<std::vector<std::int64_t>> splits(static_cast<std::size_t>(dims));
        for (int d = 0; d < dims; ++d) {
            auto& cuts = splits[static_cast<std::size_t>(d)];
            for (std::int64_t i = random.integer(0, 2); i > 0; --i) {
                cuts.push_back(random.integer(domain.lo()[d], domain.hi()[d]));
            }
            std::sort(cuts.begin(), cuts.end());
        }
        const FloorPlan plan = random.chance(50) ? FloorPlan::from_splits(domain, splits, 3)
                                                 : FloorPlan::bisected(domain, {1, 3, 2, 1, 1});
        const HaloExchange exchange = random_exchange(random, domain);
        check(plan, exchange, true);
    }
}

TEST(Halo, OverlappingAndScatteredBlocksMatchBruteForce) {
    Random random(32);
    for (int run = 0; run < 250; ++run) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const std::int64_t side = dims == 1 ? 12 : dims == 2 ? 5 : 3;
        const Region domain = Region::from_shape(random.point(dims, 1, side));
        // Some reach beyond the domain.
        const std::int64_t overhang = random.chance(30) ? 3 : 0;
        std::vector<Region> regions;
        for (std::int64_t i = random.integer(1, 6); i > 0; --i) {
            Region region = random.region(dims, -overhang, side + overhang);
            if (overhang == 0) region = region.intersected(domain);
            regions.push_back(region);
        }
        const FloorPlan plan(regions, Map(regions.size(), 0));
        HaloExchange exchange = random_exchange(random, domain);
        for (int d = 0; d < dims; ++d)
            if (plan.bounding_box().extent(d) > domain.extent(d))
                exchange.periodic[static_cast<std::size_t>(d)] = false;
        check(plan, exchange, false);
    }
}

TEST(Halo, PeriodsOfOneTwoAndThreeBlocksMatchBruteForce) {
    for (int dims = 1; dims <= 3; ++dims) {
        for (std::int64_t blocks = 1; blocks <= 3; ++blocks) {
            for (const std::int64_t width : {1, 2, 5}) {
                for (const bool corners : {false, true}) {
                    const Region domain = Region::from_shape(Point::filled(dims, 2 * blocks))
                                              .shifted(Point::filled(dims, -3));
                    const FloorPlan plan =
                        FloorPlan::uniform(domain, Point::filled(dims, blocks), 2);
                    HaloExchange exchange;
                    exchange.lower = Point::filled(dims, width);
                    exchange.upper = Point::filled(dims, width - 1);
                    exchange.domain = domain;
                    exchange.periodic.assign(static_cast<std::size_t>(dims), true);
                    exchange.corners = corners;
                    check(plan, exchange, true);
                }
            }
        }
    }
}

TEST(Halo, ABlockIsItsOwnNeighbourAcrossTheBoundary) {
    const FloorPlan plan = FloorPlan::uniform(Region({0}, {4}), {1}, 1);
    HaloExchange exchange{{1}, {6}, Region({0}, {4}), {true}, true, false};
    const std::vector<SectionCopy> expected = {{0, Region({3}, {4}), 0, Region({-1}, {0}), {}},
                                               {0, Region({0}, {4}), 0, Region({4}, {8}), {}},
                                               {0, Region({0}, {2}), 0, Region({8}, {10}), {}}};
    EXPECT_EQ(sections_into(plan, exchange, 0), expected);
    EXPECT_EQ(readers_of(plan, exchange, 0), std::vector<std::int64_t>{0});
}

TEST(Halo, ReversedHasTheSameSectionsFromGhostsToInteriors) {
    const FloorPlan plan = FloorPlan::uniform(Region({0, 0}, {6, 6}), {2, 3}, 2);
    HaloExchange exchange{{1, 1}, {1, 1}, Region({0, 0}, {6, 6}), {true, false}, true, false};
    HaloExchange reversed = exchange;
    reversed.reversed = true;
    for (std::int64_t block = 0; block < plan.num_blocks(); ++block) {
        std::vector<SectionCopy> expected = sections_into(plan, exchange, block);
        for (SectionCopy& section : expected) {
            std::swap(section.source_block, section.destination_block);
            std::swap(section.source_region, section.destination_region);
        }
        EXPECT_EQ(sections_into(plan, reversed, block), expected);
        EXPECT_EQ(readers_of(plan, reversed, block), readers_of(plan, exchange, block));
    }
}

TEST(Halo, OfAMillionBlocksHasOneSectionPerNeighbour) {
    const std::int64_t side = 100, tile = 16;
    const Region domain = Region::from_shape(Point::filled(3, side * tile));
    const FloorPlan plan = FloorPlan::tiles(domain, Point::filled(3, tile), 1000);
    HaloExchange exchange{{2, 2, 2}, {2, 2, 2}, domain, {true, true, true}, true, false};
    for (const Point& position : {Point{0, 0, 0}, Point{99, 50, 0}, Point{31, 41, 59}}) {
        const std::int64_t block = (position[0] * side + position[1]) * side + position[2];
        std::map<std::int64_t, SectionCopy> by_source;
        for (const SectionCopy& section : sections_into(plan, exchange, block)) {
            EXPECT_TRUE(by_source.emplace(section.source_block, section).second);
        }
        std::vector<std::int64_t> neighbours;
        Region({-1, -1, -1}, {2, 2, 2}).for_each([&](const Point& step) {
            if (step == Point{0, 0, 0}) return;
            std::int64_t neighbour = 0, points = 1;
            for (int d = 0; d < 3; ++d) {
                neighbour = neighbour * side + (position[d] + step[d] + side) % side;
                points *= step[d] == 0 ? tile : 2;
            }
            neighbours.push_back(neighbour);
            ASSERT_EQ(by_source.count(neighbour), 1u);
            EXPECT_EQ(by_source.at(neighbour).destination_region.size(), points);
        });
        EXPECT_EQ(by_source.size(), 26u);
        std::sort(neighbours.begin(), neighbours.end());
        EXPECT_EQ(readers_of(plan, exchange, block), neighbours);
        exchange.corners = false;
        EXPECT_EQ(sections_into(plan, exchange, block).size(), 6u);
        EXPECT_EQ(readers_of(plan, exchange, block).size(), 6u);
        exchange.corners = true;
    }
}

TEST(Halo, RefusesExchangesThatDoNotFit) {
    const FloorPlan plan = FloorPlan::uniform(Region({0, 0}, {6, 6}), {2, 3}, 2);
    const HaloExchange good{{1, 1}, {1, 1}, Region({0, 0}, {6, 6}), {true, false}, true, false};
    const auto refused = [&](ErrorCode code, auto spoil) {
        HaloExchange exchange = good;
        spoil(exchange);
        expect_error(code, [&] { plan::check_halo_exchange(plan.bounding_box(), exchange); });
    };
    EXPECT_NO_THROW(plan::check_halo_exchange(plan.bounding_box(), good));
    refused(ErrorCode::mismatch, [](HaloExchange& e) { e.lower = {1}; });
    refused(ErrorCode::mismatch, [](HaloExchange& e) { e.upper = {1, 1, 1}; });
    refused(ErrorCode::mismatch, [](HaloExchange& e) { e.domain = Region({0}, {6}); });
    refused(ErrorCode::mismatch, [](HaloExchange& e) { e.periodic = {true}; });
    refused(ErrorCode::invalid_argument, [](HaloExchange& e) { e.lower = {1, -1}; });
    refused(ErrorCode::invalid_argument, [](HaloExchange& e) { e.domain = Region(); });
    refused(ErrorCode::invalid_argument, [](HaloExchange& e) {
        e.domain = Region({0, 0}, {5, 6});  // points 5 apart would be one
    });
    HaloExchange open = good;
    open.domain = Region({0, 0}, {6, 1});  // dimension 1 does not wrap
    EXPECT_NO_THROW(plan::check_halo_exchange(plan.bounding_box(), open));
    expect_error(ErrorCode::out_of_range, [&] { sections_into(plan, good, 6); });
    HaloExchange deep = good;
    deep.lower = {std::numeric_limits<std::int64_t>::max(), 1};
    deep.domain = Region();
    deep.periodic = {};
    expect_error(ErrorCode::out_of_range, [&] { sections_into(plan, deep, 5); });
}

TEST(HaloPlan, HoldsOneExchangeAndAllItsSections) {
    const Region domain({0, 0}, {6, 6});
    const FloorPlan floorplan = FloorPlan::uniform(domain, {2, 3}, 4);
    const MotionPlan plan = halo(floorplan, {1, 2}, {2, 1}, domain, {true, false});
    const HaloExchange exchange{{1, 2}, {2, 1}, domain, {true, false}, true, false};
    ASSERT_EQ(plan.size(), 1);
    EXPECT_EQ(std::get<HaloExchange>(plan[0]), exchange);
    std::vector<SectionCopy> expected, turned;
    for (std::int64_t block = 0; block < floorplan.num_blocks(); ++block) {
        for (const SectionCopy& s : sections_into(floorplan, exchange, block)) {
            expected.push_back(s);
            turned.push_back(
                {s.destination_block, s.destination_region, s.source_block, s.source_region, {}});
        }
    }
    std::vector<SectionCopy> visited, visited_reversed;
    plan.for_each_section([&](const SectionCopy& s) { visited.push_back(s); });
    plan.reversed().for_each_section([&](const SectionCopy& s) { visited_reversed.push_back(s); });
    EXPECT_EQ(visited, expected);
    EXPECT_EQ(visited_reversed, turned);
}

TEST(HaloPlan, WrapsAllDimensionsOfAPeriodicDomainUnlessTold) {
    const Region domain({0, 0}, {6, 6});
    const FloorPlan floorplan = FloorPlan::uniform(domain, {2, 3}, 4);
    const MotionPlan open = halo(floorplan, {1, 1}, {1, 1});
    const MotionPlan closed = halo(floorplan, {1, 1}, {1, 1}, domain, {}, false);
    EXPECT_EQ(std::get<HaloExchange>(open[0]).periodic, (std::vector<bool>{false, false}));
    EXPECT_EQ(std::get<HaloExchange>(closed[0]).periodic, (std::vector<bool>{true, true}));
    EXPECT_FALSE(std::get<HaloExchange>(closed[0]).corners);
}

// Every process expects from every other as many elements as that one sends, all ghosts together.
TEST(HaloPlan, WhatIsSentIsWhatIsExpected) {
    Random random(33);
    for (int run = 0; run < 40; ++run) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const Region domain = Region::from_shape(random.point(dims, 2, 6));
        const FloorPlan floorplan = FloorPlan::tiles(domain, random.point(dims, 1, 3), 3, "cyclic");
        const HaloExchange exchange = random_exchange(random, domain);
        MotionPlan plan{Layout(floorplan), Layout(floorplan)};
        plan.add(exchange);
        std::size_t ghosts = 0;
        for (std::int64_t block = 0; block < floorplan.num_blocks(); ++block) {
            ghosts += expected_filling(floorplan, exchange, block).size();
        }
        for (const MotionPlan& direction : {plan, plan.reversed()}) {
            std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sent, expected;
            std::int64_t total = 0;
            for (std::int64_t rank = 0; rank < 3; ++rank) {
                for (const PeerPart& peer : direction.outgoing(rank)) {
                    sent[{rank, peer.rank}] = peer.part.size();
                    total += peer.part.size();
                }
                for (const PeerPart& peer : direction.incoming(rank)) {
                    expected[{peer.rank, rank}] = peer.part.size();
                }
            }
            EXPECT_EQ(sent, expected);
            EXPECT_EQ(total, static_cast<std::int64_t>(ghosts));
        }
    }
}

TEST(HaloPlan, OfBlockCyclicBoxesIsThatOfTheirRegions) {
    Random random(35);
    for (int run = 0; run < 100; ++run) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const Point shape = random.point(dims, 1, 9);
        std::string words;
        std::vector<std::int64_t> grid;
        for (int d = 0; d < dims; ++d) {
            grid.push_back(random.integer(1, 3));
            const std::int64_t even = (shape[d] + grid.back() - 1) / grid.back();
            const std::int64_t k = random.integer(even, shape[d]);
            const std::string in_brackets = "(" + std::to_string(k) + ")";
            const std::int64_t kind = random.integer(0, 2);
            words += (d > 0 ? ", " : "");
            words += kind == 0   ? "block"
                     : kind == 1 ? "block" + in_brackets
                                 : "cyclic" + in_brackets;
        }
        BlockCyclicOptions options;
        options.grid = grid;
        options.column_major_grid = random.chance(50);
        const BlockCyclic dealt(shape, words, 30, options);
        std::vector<Region> regions;
        Map owners;
        for (std::int64_t block = 0; block < dealt.num_blocks(); ++block) {
            const Point extents = dealt.block_extents(block);
            Point lo = extents;
            for (int d = 0; d < dims && extents.product() > 0; ++d)
                lo[d] = dealt.global_index(block, Point::filled(dims, 0))[d];
            regions.push_back(Region(lo, lo + extents));
            owners.push_back(dealt.owner(block));
        }
        const FloorPlan boxes(regions, owners, 30);
        const Point lower = random.point(dims, 0, 4), upper = random.point(dims, 0, 4);
        const Region domain = random.chance(50) ? Region::from_shape(shape) : Region();
        const MotionPlan plan = halo(dealt, lower, upper, domain);
        const MotionPlan expected = halo(boxes, lower, upper, domain);
        EXPECT_EQ(plan.source(), Layout(dealt));
        for (std::int64_t rank = 0; rank < 30; ++rank) {
            std::vector<SectionCopy> mine, theirs;
            plan.for_each_section([&](const SectionCopy& s) { mine.push_back(s); }, -1, rank);
            expected.for_each_section([&](const SectionCopy& s) { theirs.push_back(s); }, -1, rank);
            ASSERT_EQ(mine, theirs) << words;
            const auto sent = plan.outgoing(rank), expected_sent = expected.outgoing(rank);
            ASSERT_EQ(sent.size(), expected_sent.size());
            for (std::size_t i = 0; i < sent.size(); ++i)
                EXPECT_EQ(sent[i].part.size(), expected_sent[i].part.size());
        }
    }
    expect_error(ErrorCode::unsupported,
                 [&] { halo(BlockCyclic({8, 8}, "(block, cyclic(2))", 4), {1, 1}, {1, 1}); });
    const std::vector<std::int64_t> offsets{0, 1}, indices{0};
    expect_error(ErrorCode::unsupported, [&] { halo(IndexList({8}, offsets, indices), {1}, {1}); });
}

TEST(HaloPlan, RefusesWhatDoesNotFit) {
    const Region domain({0, 0}, {6, 6});
    const FloorPlan plan = FloorPlan::uniform(domain, {2, 3}, 2);
    expect_error(ErrorCode::mismatch, [&] { halo(plan, {1}, {1, 1}); });
    expect_error(ErrorCode::mismatch, [&] { halo(plan, {1, 1}, {1, 1}, Region({0}, {6})); });
    expect_error(ErrorCode::mismatch, [&] { halo(plan, {1, 1}, {1, 1}, domain, {true}); });
    expect_error(ErrorCode::invalid_argument, [&] { halo(plan, {1, -1}, {1, 1}); });
    expect_error(ErrorCode::invalid_argument,
                 [&] { halo(plan, {1, 1}, {1, 1}, Region(), {true, false}); });
}

TEST(HaloPlan, RefusesAPeriodicDomainWithoutPoints) {
    const FloorPlan plan = FloorPlan::uniform(Region({0, 0}, {6, 6}), {2, 3}, 2);
    const Region flat({0, 0}, {6, 0});
    expect_error(ErrorCode::invalid_argument, [&] { halo(plan, {1, 1}, {1, 1}, flat); });
    expect_error(ErrorCode::invalid_argument,
                 [&] { halo(plan, {1, 1}, {1, 1}, flat, {false, true}); });
    expect_error(ErrorCode::invalid_argument, [&] { axis_halo(plan, {1, 1}, {1, 1}, 0, flat); });
    // The domain of blocks without points has none.
    const FloorPlan nothing({Region::empty_region(2)}, {0});
    EXPECT_TRUE(halo(nothing, {1, 1}, {1, 1}, nothing.bounding_box()).incoming(0).empty());
}

}  // namespace
}  // namespace datamover
