// SPDX-License-Identifier: BSD-3-Clause
// Panel broadcasts and moves between levels: every element arrives at its readers, and invalid
// arguments are rejected.
#include <cstdint>
#include <limits>
#include <set>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::carry_out;
using layout_oracle::cases;
using layout_oracle::Coordinates;
using layout_oracle::Element;
using layout_oracle::elements_of;
using layout_oracle::expect_error;
using layout_oracle::flat_of;
using layout_oracle::Kind;
using layout_oracle::Random;
using layout_oracle::seed_of;
using layout_oracle::untouched;
using layout_oracle::Way;
using layout_oracle::World;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

Region random_region(Random& random, const Point& shape) {
    Point lo = shape, hi = shape;
    for (int d = 0; d < shape.dims(); ++d) {
        lo[d] = random.integer(0, shape[d] - 1);
        hi[d] = random.integer(lo[d] + 1, shape[d]);
    }
    return {lo, hi};
}

/// The destination of a plan after both ways of carrying it out, which must agree.
World carried_out(const MotionPlan& plan, Random& random) {
    World from = layout_oracle::make_world(random, plan.source());
    World direct = layout_oracle::make_world(random, plan.destination());
    World message = direct;
    layout_oracle::fill_with_indices(from);
    carry_out(plan, from, direct, Way::direct);
    carry_out(plan, from, message, Way::message, plan::MessageOrder::column_major);
    EXPECT_EQ(direct.data, message.data);
    return direct;
}

TEST(PanelBroadcast, BringsToEveryProcessWhatItsRowOrColumnHolds) {
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 3));
        const Point shape = layout_oracle::random_shape(random, dims);
        const Layout layout =
            layout_oracle::random_block_cyclic(random, shape, random.integer(1, 8));
        const BlockCyclic& array = *layout.block_cyclic();
        const Region region = random_region(random, shape);
        const int along = static_cast<int>(random.integer(0, dims - 1));
        SCOPED_TRACE("case " + std::to_string(i) + ": " + layout.describe() + ", " +
                     region.to_string() + " along " + std::to_string(along));
        const MotionPlan plan = panel_broadcast(layout, region, along);
        World panel = carried_out(plan, random);

        // By rank: the indices that the process's row or column of the grid holds, and where.
        std::vector<std::set<Coordinates>> held(static_cast<std::size_t>(layout.nprocs()));
        for (const Element& e : elements_of(layout)) {
            Point at = array.grid_coordinates(e.block);
            const std::int64_t replica = e.block / array.grid().product();
            for (at[along] = 0; at[along] < array.grid()[along]; ++at[along])
                held[static_cast<std::size_t>(
                         array.owner(replica * array.grid().product() + array.block_at(at)))]
                    .insert(e.global);
        }
        for (const Element& e : elements_of(plan.destination())) {
            Coordinates global = e.global;
            const auto a = static_cast<std::size_t>(along);
            global[a] += region.lo()[along];
            const auto& mine = held[static_cast<std::size_t>(plan.destination().owner(e.block))];
            EXPECT_EQ(mine.count(global), 1u);
            const bool inside = region.contains(Point(std::span<const std::int64_t>(global)));
            EXPECT_EQ(panel.at(e.block, e.local),
                      inside ? flat_of(global, shape.to_vector()) : untouched);
            // In the other dimensions a panel's indices lie where the array's do.
            const layout_oracle::Element in_array = layout_oracle::dealt_element(array, global);
            for (std::size_t d = 0; d < global.size(); ++d)
                EXPECT_TRUE(d == a || e.local[d] == in_array.local[d]);
        }
        std::int64_t panels = 0;
        for (std::int64_t rank = 0; rank < layout.nprocs(); ++rank)
            panels += plan.destination().local_elems(rank);
        std::int64_t expected = 0;
        for (const auto& mine : held)
            for (const Coordinates& global : mine) {
                const std::int64_t x = global[static_cast<std::size_t>(along)];
                expected += x >= region.lo()[along] && x < region.hi()[along] ? 1 : 0;
            }
        EXPECT_EQ(panels, expected);
    }
}

TEST(PanelBroadcast, HasOneLayoutForAllPanelsOfAWidth) {
    BlockCyclicOptions options;
    options.grid = {{2, 3}};
    const Layout tiles = BlockCyclic({100, 90}, "(cyclic(4), cyclic(5))", 7, options);
    const MotionPlan a = panel_broadcast(tiles, Region({0, 0}, {100, 5}), 1);
    const MotionPlan b = panel_broadcast(tiles, Region({37, 83}, {100, 88}), 1);
    EXPECT_TRUE(a.destination() == b.destination());
    EXPECT_FALSE(a == b);
    EXPECT_EQ(MotionPlan::from_bytes(b.to_bytes()), b);
}

TEST(PanelBroadcast, RefusesWhatIsNoPanel) {
    const Layout rows = BlockCyclic({8, 8}, "(block, *)", 2);
    const Region region({0, 0}, {8, 2});
    expect_error(ErrorCode::out_of_range, [&] { panel_broadcast(rows, region, 2); });
    expect_error(ErrorCode::out_of_range, [&] { panel_broadcast(rows, region, -1); });
    expect_error(ErrorCode::out_of_range,
                 [&] { panel_broadcast(rows, Region({0, 7}, {8, 9}), 1); });
    expect_error(ErrorCode::mismatch, [&] { panel_broadcast(rows, Region({0}, {8}), 0); });
    expect_error(ErrorCode::invalid_argument,
                 [&] { panel_broadcast(rows, Region::empty_region(2), 0); });
    expect_error(ErrorCode::unsupported, [&] {
        panel_broadcast(FloorPlan::uniform(Region({0, 0}, {8, 8}), {2, 1}, 2), region, 0);
    });
    expect_error(ErrorCode::unsupported, [&] { panel_broadcast(Layout(), region, 0); });
}

TEST(PanelBroadcast, GoesUpToTheLargestArrays) {
    BlockCyclicOptions options;
    options.grid = {{2, 2}};
    const Layout long_rows = BlockCyclic({2, huge / 2}, "(block, block)", 4, options);
    const Region last({0, huge / 2 - 1}, {2, huge / 2});
    const MotionPlan plan = panel_broadcast(long_rows, last, 1);
    EXPECT_EQ(plan.outgoing(1).size(), 2u);
    EXPECT_EQ(plan.outgoing(0).size(), 0u);
    EXPECT_EQ(plan.incoming(0).front().part.size(), 1);
}

/// Tiles that cover a domain and, with `overlap`, a block that overlaps them and an empty one.
FloorPlan random_blocks(Random& random, const Region& domain, std::int64_t nprocs, bool overlap) {
    Point tile = domain.shape();
    for (int d = 0; d < tile.dims(); ++d) tile[d] = random.integer(1, tile[d]);
    const FloorPlan tiles =
        FloorPlan::tiles(domain, tile, nprocs, random.chance(50) ? "cyclic" : "block");
    std::vector<Region> regions;
    Map owners;
    // Sometimes few processes have all blocks.
    const std::int64_t owning = random.chance(50) ? nprocs : random.integer(1, nprocs);
    for (std::int64_t i = 0; i < tiles.num_blocks(); ++i) {
        regions.push_back(tiles.region(i));
        owners.push_back(tiles.owner(i) % owning);
    }
    if (overlap) {
        regions.push_back(random_region(random, domain.shape()).shifted(domain.lo()));
        owners.push_back(random.integer(0, owning - 1));
        regions.push_back(Region::empty_region(domain.dims()));
        owners.push_back(0);
    }
    return {regions, owners, nprocs};
}

/// The value at a point of a level; those of its periodic images are the same.
std::int32_t value_at(const Coordinates& point, const Region& domain) {
    Coordinates from_lo = point;
    for (std::size_t d = 0; d < point.size(); ++d) from_lo[d] -= domain.lo()[static_cast<int>(d)];
    return static_cast<std::int32_t>(flat_of(from_lo, domain.shape().to_vector()));
}

std::int64_t down(std::int64_t a, std::int64_t b) {
    std::int64_t q = 0;
    while (q * b > a) --q;
    while ((q + 1) * b <= a) ++q;
    return q;
}

struct LevelCase {
    Region coarse_domain, fine_domain;
    Point factor;
    Layout coarse, fine;
    LevelOptions options;
    bool periodic;

    explicit LevelCase(Random& random) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const std::int64_t nprocs = random.integer(1, 5);
        const Point shape = random.point(dims, 1, dims == 3 ? 4 : 7);
        factor = random.point(dims, 1, 4);
        factor[0] = std::max<std::int64_t>(2, factor[0]);
        const Point origin = random.point(dims, -3, 3);
        coarse_domain = Region::from_shape(shape).shifted(origin);
        fine_domain = coarse_domain.refined(factor);
        coarse = random_blocks(random, coarse_domain, nprocs, random.chance(30));
        fine = random_blocks(random, fine_domain, nprocs, random.chance(30));
        options.lower = random.point(dims, 0, 3);
        options.upper = random.point(dims, 0, 3);
        periodic = random.chance(50);
        for (int d = 0; periodic && d < dims; ++d) options.wraps.push_back(random.chance(50));
    }

    std::string describe() const {
        return "coarse " + coarse_domain.to_string() + ", factor " + factor.to_string() +
               ", widths " + options.lower.to_string() + " " + options.upper.to_string();
    }
};

/// Carries out a plan from a level with the values of `domain` and compares every point.
void check_level_plan(Random& random, const MotionPlan& plan, const Region& domain,
                      const LevelOptions& options, Way way) {
    World from = layout_oracle::make_world(random, plan.source());
    World to = layout_oracle::make_world(random, plan.destination());
    for (const Element& e : elements_of(plan.source()))
        from.at(e.block, e.local) = value_at(e.global, domain);
    carry_out(plan, from, to, way);
    for (const Element& e : elements_of(plan.destination())) {
        Coordinates point = e.global;
        bool there = true;
        for (std::size_t d = 0; d < point.size(); ++d) {
            const int k = static_cast<int>(d);
            const std::int64_t lo = domain.lo()[k], n = domain.extent(k);
            if (!options.periodic.empty() && options.wraps[d])
                point[d] -= down(point[d] - lo, n) * n;
            there = there && point[d] >= lo && point[d] < lo + n;
        }
        ASSERT_EQ(to.at(e.block, e.local), there ? value_at(point, domain) : untouched);
    }
}

TEST(Levels, GiveEveryBlockThePointsThatItReads) {
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        LevelCase c(random);
        SCOPED_TRACE("case " + std::to_string(i) + ": " + c.describe());
        const Way way = random.chance(50) ? Way::direct : Way::message;

        c.options.periodic = c.periodic ? c.coarse_domain : Region{};
        const MotionPlan beneath = prolongation(c.coarse, c.fine, c.factor, c.options);
        check_level_plan(random, beneath, c.coarse_domain, c.options, way);
        ASSERT_EQ(beneath.destination().num_blocks(), c.fine.num_blocks());
        for (std::int64_t b = 0; b < c.fine.num_blocks(); ++b) {
            EXPECT_EQ(beneath.destination().owner(b), c.fine.owner(b));
            const Region block = c.fine.floor_plan()->region(b);
            if (block.empty()) continue;
            Point lo = block.lo(), hi = block.hi();
            for (int d = 0; d < lo.dims(); ++d) {
                lo[d] = down(block.lo()[d], c.factor[d]) - c.options.lower[d];
                hi[d] = down(block.hi()[d] - 1, c.factor[d]) + 1 + c.options.upper[d];
            }
            EXPECT_EQ(beneath.destination().floor_plan()->region(b), Region(lo, hi));
        }

        c.options.periodic = c.periodic ? c.fine_domain : Region{};
        const MotionPlan above = restriction(c.fine, c.coarse, c.factor, c.options);
        check_level_plan(random, above, c.fine_domain, c.options, way);
        for (std::int64_t b = 0; b < c.coarse.num_blocks(); ++b) {
            const Region block = c.coarse.floor_plan()->region(b);
            if (block.empty()) continue;
            const Region fine(block.lo() * c.factor - c.options.lower,
                              block.hi() * c.factor + c.options.upper);
            EXPECT_EQ(above.destination().floor_plan()->region(b), fine);
        }
        EXPECT_EQ(MotionPlan::from_bytes(above.to_bytes()), above);
    }
}

TEST(Levels, BringWhatWasWorkedOutBeneathTheFineBlocksToTheCoarseOnes) {
    for (std::int64_t i = 0; i < cases(100); ++i) {
        Random random(seed_of(i));
        const LevelCase c(random);
        SCOPED_TRACE("case " + std::to_string(i) + ": " + c.describe());
        const MotionPlan back = prolongation(c.coarse, c.fine, c.factor).reversed();
        World under = layout_oracle::make_world(random, back.source());
        World coarse = layout_oracle::make_world(random, back.destination());
        for (const Element& e : elements_of(back.source()))
            under.at(e.block, e.local) = value_at(e.global, c.coarse_domain);
        carry_out(back, under, coarse, Way::message);
        for (const Element& e : elements_of(back.destination()))
            ASSERT_EQ(coarse.at(e.block, e.local), value_at(e.global, c.coarse_domain));
    }
}

TEST(Levels, ReadFromAnyBlockCyclicLayout) {
    for (std::int64_t i = 0; i < cases(50); ++i) {
        Random random(seed_of(i));
        const std::int64_t nprocs = random.integer(1, 6);
        const Point shape = layout_oracle::random_shape(random, 2);
        const Layout coarse = layout_oracle::random_block_cyclic(random, shape, nprocs);
        const Region domain = Region::from_shape(shape);
        const Layout fine = random_blocks(random, domain.refined({2, 3}), nprocs, false);
        LevelOptions options;
        options.upper = {1, 2};
        if (random.chance(50)) {
            options.periodic = domain;
            options.wraps = {true, random.chance(50)};
        }
        check_level_plan(random, prolongation(coarse, fine, {2, 3}, options), domain, options,
                         Way::direct);
    }
}

TEST(Levels, TellOfPointsThatAreMissing) {
    const FloorPlan coarse({Region({0}, {2}), Region({5}, {8})}, {0, 0});
    const FloorPlan beside({Region({0}, {4}), Region({10}, {16})}, {0, 0});
    const FloorPlan fine({Region({0}, {16})}, {0});
    expect_error(ErrorCode::mismatch, [&] { prolongation(coarse, fine, {2}); });
    EXPECT_NO_THROW(prolongation(coarse, beside, {2}, {{3}, {3}, {}, {}, false}));
    LevelOptions partial;
    partial.partial = true;
    const MotionPlan plan = prolongation(coarse, fine, {2}, partial);
    EXPECT_EQ(plan.incoming(0).front().part.size(), 5);
    expect_error(ErrorCode::mismatch,
                 [&] { restriction(beside, FloorPlan({Region({0}, {8})}, {0}), {2}); });
    // Beyond the level's bounding box begins the caller's boundary.
    const MotionPlan over =
        prolongation(FloorPlan({Region({1}, {4})}, {0}), FloorPlan({Region({1}, {9})}, {0}), {2});
    EXPECT_EQ(over.destination().floor_plan()->region(0), Region({0}, {5}));
    EXPECT_EQ(over.incoming(0).front().part.size(), 3);
}

TEST(Levels, RefuseWhatMakesNoSense) {
    const FloorPlan coarse = FloorPlan::uniform(Region({0, 0}, {4, 4}), {2, 2}, 2);
    const FloorPlan fine = FloorPlan::uniform(Region({0, 0}, {8, 8}), {2, 2}, 2);
    const auto refused = [&](ErrorCode code, const Point& factor, const LevelOptions& options) {
        expect_error(code, [&] { prolongation(coarse, fine, factor, options); });
        expect_error(code, [&] { restriction(fine, coarse, factor, options); });
    };
    refused(ErrorCode::invalid_argument, {1, 1}, {});
    refused(ErrorCode::invalid_argument, {2, 2}, {{}, {}, Region({0, 0}, {4, 0}), {}, false});
    refused(ErrorCode::invalid_argument, {2, 0}, {});
    refused(ErrorCode::invalid_argument, {-2, 2}, {});
    refused(ErrorCode::mismatch, {2}, {});
    refused(ErrorCode::mismatch, {2, 2}, {{1}, {1, 1}, {}, {}, false});
    refused(ErrorCode::invalid_argument, {2, 2}, {{-1, 0}, {0, 0}, {}, {}, false});
    refused(ErrorCode::invalid_argument, {2, 2}, {{}, {}, Region({0, 0}, {2, 2}), {}, false});
    refused(ErrorCode::mismatch, {2, 2}, {{}, {}, Region({0}, {2}), {}, false});
    refused(ErrorCode::out_of_range, {2, 2}, {{huge, 0}, {huge, 0}, {}, {}, false});
    refused(ErrorCode::out_of_range, {2, 2},
            {{1'000'000'000, 0}, {0, 0}, Region({0, 0}, {8, 8}), {}, false});
    EXPECT_NO_THROW(prolongation(coarse, fine, {2, 1}, {{}, {}, {}, {}, true}));
    expect_error(ErrorCode::out_of_range, [&] { restriction(fine, coarse, {huge, 2}); });
    expect_error(ErrorCode::mismatch,
                 [&] { prolongation(FloorPlan({Region({0}, {4})}, {0}, 2), fine, {2, 2}); });
    expect_error(ErrorCode::mismatch, [&] {
        prolongation(FloorPlan::uniform(Region({0, 0}, {4, 4}), {2, 2}, 3), fine, {2, 2});
    });
    expect_error(ErrorCode::unsupported,
                 [&] { prolongation(coarse, BlockCyclic({8, 8}, "(cyclic, *)", 2), {2, 2}); });
    const std::vector<std::int64_t> offsets{0, 1, 1}, indices{0};
    expect_error(ErrorCode::unsupported,
                 [&] { prolongation(IndexList({4, 4}, offsets, indices), fine, {2, 2}); });
    expect_error(ErrorCode::invalid_argument, [&] { prolongation(Layout(), fine, {2, 2}); });
    expect_error(ErrorCode::invalid_argument, [&] { prolongation(coarse, Layout(), {2, 2}); });
    // Blocks at the ends of what 64 bits hold.
    const FloorPlan last({Region({huge - 4}, {huge})}, {0});
    const FloorPlan beneath({Region({huge / 2 - 2}, {huge / 2 + 1})}, {0});
    EXPECT_EQ(prolongation(beneath, last, {2}).incoming(0).front().part.size(), 3);
    expect_error(ErrorCode::out_of_range, [&] {
        restriction(last, FloorPlan({Region({huge / 2}, {huge / 2 + 2})}, {0}), {2});
    });
}

}  // namespace
}  // namespace datamover
