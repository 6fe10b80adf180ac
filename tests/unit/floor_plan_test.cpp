// SPDX-License-Identifier: BSD-3-Clause
// Floor plans: store, cut and find blocks as a plain search through the table does.

#include "datamover/floor_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "region_oracle.hpp"

namespace datamover {
namespace {

using region_oracle::Coordinates;
using region_oracle::expect_error;
using region_oracle::points_of;
using region_oracle::points_of_disjoint;
using region_oracle::PointSet;
using region_oracle::Random;

constexpr std::int64_t largest_index = std::numeric_limits<std::int64_t>::max();

struct RandomPlan {
    std::vector<Region> regions;
    Map owners;
    std::int64_t nprocs;
    FloorPlan plan() const { return FloorPlan(regions, owners, nprocs); }
};

// Overlapping boxes of very different sizes, some empty, some twice.
RandomPlan random_plan(Random& random, int dims, std::int64_t blocks, std::int64_t reach) {
    RandomPlan result;
    result.nprocs = random.integer(1, 9);
    for (std::int64_t i = 0; i < blocks; ++i) {
        if (i > 0 && random.chance(5)) {
            result.regions.push_back(result.regions[random.integer(0, i - 1)]);
        } else if (random.chance(50)) {
            const Point lo = random.point(dims, -reach, reach - 1);
            result.regions.push_back(Region(lo, lo + random.point(dims, 1, 3)));
        } else {
            result.regions.push_back(random.region(dims, -reach, reach));
        }
        result.owners.push_back(random.integer(0, result.nprocs - 1));
    }
    return result;
}

PointSet all_points(const FloorPlan& plan) {
    PointSet points;
    for (std::int64_t i = 0; i < plan.num_blocks(); ++i) points.merge(points_of(plan.region(i)));
    return points;
}

std::vector<Region> all_regions(const FloorPlan& plan) {
    std::vector<Region> regions;
    for (std::int64_t i = 0; i < plan.num_blocks(); ++i) regions.push_back(plan.region(i));
    return regions;
}

TEST(FloorPlan, KeepsRegionsAndOwners) {
    Random random(21);
    for (int run = 0; run < 50; ++run) {
        const int dims = static_cast<int>(random.integer(1, 8));
        const RandomPlan made = random_plan(random, dims, random.integer(1, 40), 6);
        const FloorPlan plan = made.plan();
        ASSERT_EQ(plan.num_blocks(), static_cast<std::int64_t>(made.regions.size()));
        EXPECT_EQ(plan.dims(), dims);
        EXPECT_EQ(plan.nprocs(), made.nprocs);
        EXPECT_EQ(all_regions(plan), made.regions);
        Region box = Region::empty_region(dims);
        for (const Region& region : made.regions) box = box.bounding(region);
        EXPECT_EQ(plan.bounding_box(), box);
        for (std::int64_t rank = 0; rank < made.nprocs; ++rank) {
            std::vector<std::int64_t> expected;
            for (std::int64_t i = 0; i < plan.num_blocks(); ++i) {
                EXPECT_EQ(plan.owner(i), made.owners[static_cast<std::size_t>(i)]);
                if (plan.owner(i) == rank) expected.push_back(i);
            }
            const auto blocks = plan.blocks_of(rank);
            EXPECT_EQ(std::vector<std::int64_t>(blocks.begin(), blocks.end()), expected);
        }
        const FloorPlan again(dims, plan.lower_corners(), plan.upper_corners(), plan.owners(),
                              plan.nprocs());
        EXPECT_EQ(again, plan);
        EXPECT_FALSE(plan == FloorPlan(made.regions, made.owners, made.nprocs + 1));
    }
}

TEST(FloorPlan, FindsWhatASearchThroughTheTableFinds) {
    Random random(22);
    for (int run = 0; run < 120; ++run) {
        const int dims = static_cast<int>(random.integer(1, 5));
        const std::int64_t reach = random.integer(2, 60);
        const FloorPlan plan = random_plan(random, dims, random.integer(1, 300), reach).plan();
        const std::vector<Region> regions = all_regions(plan);
        for (int query = 0; query < 20; ++query) {
            const Region box = random.region(dims, -reach - 2, reach + 2);
            std::vector<std::int64_t> expected;
            for (std::size_t i = 0; i < regions.size(); ++i) {
                bool meets = !box.empty() && !regions[i].empty();
                for (int d = 0; d < dims; ++d) {
                    meets = meets && std::max(regions[i].lo()[d], box.lo()[d]) <
                                         std::min(regions[i].hi()[d], box.hi()[d]);
                }
                if (meets) expected.push_back(static_cast<std::int64_t>(i));
            }
            EXPECT_EQ(plan.find(box), expected) << box.to_string();
        }
    }
}

TEST(FloorPlan, FindsAmongFarAndHugeBoxes) {
    const std::int64_t far = largest_index / 2;
    const FloorPlan plan({Region({-far}, {-far + 2}), Region({far - 2}, {far}), Region({0}, {far}),
                          Region({-far}, {0}), Region({-1}, {1})},
                         {0, 0, 0, 0, 0});
    EXPECT_EQ(plan.find(Region({-far}, {-far + 1})), (std::vector<std::int64_t>{0, 3}));
    EXPECT_EQ(plan.find(Region({far - 1}, {far})), (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(plan.find(Region({0}, {1})), (std::vector<std::int64_t>{2, 4}));
}

TEST(FloorPlan, ExclusiveRegionsTileTheUnion) {
    Random random(23);
    for (int run = 0; run < 100; ++run) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const FloorPlan plan =
            random_plan(random, dims, random.integer(1, 12), dims == 1 ? 20 : 4).plan();
        PointSet taken;
        for (std::int64_t i = 0; i < plan.num_blocks(); ++i) {
            PointSet expected;
            for (const Coordinates& p : points_of(plan.region(i))) {
                if (taken.insert(p).second) expected.insert(p);
            }
            EXPECT_EQ(points_of_disjoint(plan.exclusive_regions(i)), expected);
        }
        EXPECT_EQ(taken, all_points(plan));
    }
}

TEST(FloorPlan, UniformCutsEvenly) {
    const FloorPlan plan = FloorPlan::uniform(Region({-1, 0}, {9, 3}), {4, 2}, 3);
    EXPECT_EQ(plan.num_blocks(), 8);
    EXPECT_EQ(plan.region(0), Region({-1, 0}, {2, 2}));
    EXPECT_EQ(plan.region(7), Region({7, 2}, {9, 3}));
    EXPECT_EQ(plan.owner(7), 1);
    Random random(23);
    for (int run = 0; run < 200; ++run) {
        const std::int64_t lo = random.integer(-50, 50), n = random.integer(1, 200);
        const std::int64_t blocks = random.integer(1, 80);
        const FloorPlan cut = FloorPlan::uniform(Region({lo}, {lo + n}), {blocks}, 3);
        std::int64_t at = lo, last = n;
        for (std::int64_t i = 0; i < blocks; ++i) {
            const Region block = cut.region(i);
            const std::int64_t size = block.size();
            EXPECT_TRUE(size == 0 || block.lo()[0] == at);
            EXPECT_TRUE(size == n / blocks || size == n / blocks + 1);
            EXPECT_LE(size, last) << "the larger blocks come first";
            last = size;
            at += size;
        }
        EXPECT_EQ(at, lo + n);
    }
}

TEST(FloorPlan, OwnersCanBeOthers) {
    const FloorPlan even = FloorPlan::uniform(Region({0, -2}, {7, 5}), {2, 3}, 4);
    const Map owners{5, 0, 0, 2, 5, 1};
    const FloorPlan dealt = even.with_owners(owners, 9);
    EXPECT_EQ(dealt.nprocs(), 9);
    for (std::int64_t block = 0; block < 6; ++block) {
        EXPECT_EQ(dealt.region(block), even.region(block));
        EXPECT_EQ(dealt.owner(block), owners[static_cast<std::size_t>(block)]);
        EXPECT_EQ(even.owner(block), block % 4);
    }
    EXPECT_EQ(even.with_owners(owners).nprocs(), 6);
    expect_error(ErrorCode::mismatch, [&] { even.with_owners({0, 1}); });
    expect_error(ErrorCode::out_of_range, [&] { even.with_owners(owners, 5); });
}

TEST(FloorPlan, CutsTileTheDomain) {
    Random random(24);
    for (int run = 0; run < 100; ++run) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const Region domain = random.region(dims, -6, 6);
        const std::int64_t nprocs = random.integer(1, 5);
        std::vector<std::vector<std::int64_t>> splits(static_cast<std::size_t>(dims));
        for (int d = 0; d < dims; ++d) {
            auto& cuts = splits[static_cast<std::size_t>(d)];
            for (std::int64_t i = random.integer(0, 3); i > 0; --i) {
                cuts.push_back(random.integer(domain.lo()[d], domain.hi()[d]));
            }
            std::sort(cuts.begin(), cuts.end());
        }
        std::vector<double> weights(static_cast<std::size_t>(random.integer(1, 9)));
        for (double& weight : weights) weight = static_cast<double>(random.integer(1, 5));
        const Point grid = random.point(dims, 1, 4), tile = random.point(dims, 1, 4);
        for (const FloorPlan& plan :
             {FloorPlan::uniform(domain, grid, nprocs), FloorPlan::tiles(domain, tile, nprocs),
              FloorPlan::tiles(domain, tile, nprocs, "cyclic"),
              FloorPlan::from_splits(domain, splits, nprocs),
              FloorPlan::bisected(domain, weights)}) {
            EXPECT_EQ(points_of_disjoint(all_regions(plan)), points_of(domain));
        }
        const FloorPlan tiled = FloorPlan::tiles(domain, tile, nprocs);
        for (std::int64_t i = 0; i < tiled.num_blocks(); ++i) {
            for (int d = 0; d < dims; ++d) EXPECT_LE(tiled.region(i).extent(d), tile[d]);
        }
    }
}

TEST(FloorPlan, TilesAreDealtInSharesOrRoundRobin) {
    for (std::int64_t tiles = 1; tiles < 20; ++tiles) {
        for (std::int64_t nprocs = 1; nprocs < 12; ++nprocs) {
            const Region domain({0}, {tiles * 3});
            const FloorPlan shares = FloorPlan::tiles(domain, {3}, nprocs);
            const FloorPlan cyclic = FloorPlan::tiles(domain, {3}, nprocs, "cyclic");
            EXPECT_TRUE(std::is_sorted(shares.owners().begin(), shares.owners().end()));
            for (std::int64_t rank = 0; rank < nprocs; ++rank) {
                const auto count = static_cast<std::int64_t>(shares.blocks_of(rank).size());
                EXPECT_GE(count, tiles / nprocs);
                EXPECT_LE(count, (tiles + nprocs - 1) / nprocs);
                for (const std::int64_t block : cyclic.blocks_of(rank)) {
                    EXPECT_EQ(block % nprocs, rank);
                }
            }
        }
    }
}

TEST(FloorPlan, BisectionFollowsTheWeights) {
    const FloorPlan line = FloorPlan::bisected(Region({0}, {100}), {10, 20, 30, 40});
    EXPECT_EQ(line.region(0), Region({0}, {10}));
    EXPECT_EQ(line.region(1), Region({10}, {30}));
    EXPECT_EQ(line.region(2), Region({30}, {60}));
    EXPECT_EQ(line.region(3), Region({60}, {100}));
    const FloorPlan equal =
        FloorPlan::bisected(Region::from_shape({64, 64, 64}), std::vector<double>(8, 0.5));
    for (std::int64_t i = 0; i < 8; ++i) {
        EXPECT_EQ(equal.region(i).shape(), (Point{32, 32, 32}));
        EXPECT_EQ(equal.owner(i), i);
    }
    Random random(25);
    std::vector<double> weights(64);
    for (double& weight : weights) weight = static_cast<double>(random.integer(1, 8));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const Region domain = Region::from_shape({4000, 5000});
    const FloorPlan uneven = FloorPlan::bisected(domain, weights);
    for (std::int64_t i = 0; i < 64; ++i) {
        const double wanted =
            static_cast<double>(domain.size()) * weights[static_cast<std::size_t>(i)] / sum;
        EXPECT_NEAR(static_cast<double>(uneven.region(i).size()), wanted, wanted * 0.05);
    }
    const double huge = std::numeric_limits<double>::max();
    const FloorPlan extreme = FloorPlan::bisected(Region({0}, {largest_index}), {huge, huge});
    EXPECT_NEAR(static_cast<double>(extreme.region(0).size()), std::ldexp(1.0, 62), 1);
}

TEST(FloorPlan, WithoutBlocksFindsNothing) {
    const FloorPlan none(3, {}, {}, {}, 4);
    EXPECT_EQ(none.num_blocks(), 0);
    EXPECT_EQ(none.dims(), 3);
    EXPECT_TRUE(none.find(Region::from_shape({9, 9, 9})).empty());
    EXPECT_TRUE(none.blocks_of(3).empty());
    EXPECT_TRUE(none.bounding_box().empty());
    EXPECT_EQ(FloorPlan().num_blocks(), 0);
    EXPECT_EQ(FloorPlan(), FloorPlan());
    const FloorPlan hollow({Region::empty_region(2), Region({3, 3}, {3, 9})}, {0, 1});
    EXPECT_TRUE(hollow.find(Region({-99, -99}, {99, 99})).empty());
    EXPECT_TRUE(hollow.exclusive_regions(1).empty());
    EXPECT_TRUE(hollow.bounding_box().empty());
}

TEST(FloorPlan, RanksMayBeManyMoreThanBlocks) {
    const std::int64_t most = std::numeric_limits<std::int32_t>::max();
    const std::vector<Region> regions{Region({0}, {1}), Region({1}, {2})};
    const FloorPlan plan(regions, {most - 1, 5}, most);
    EXPECT_EQ(plan.blocks_of(5).front(), 1);
    EXPECT_EQ(plan.blocks_of(most - 1).front(), 0);
    EXPECT_TRUE(plan.blocks_of(1).empty());
    expect_error(ErrorCode::invalid_argument, [&] { FloorPlan(regions, {0, 5}, most + 1); });
}

TEST(FloorPlan, RefusesTablesThatDoNotFit) {
    const Region box({0, 0}, {2, 2});
    expect_error(ErrorCode::invalid_argument, [] { FloorPlan({}, {}); });
    expect_error(ErrorCode::invalid_argument, [] { FloorPlan({Region()}, {0}); });
    expect_error(ErrorCode::invalid_argument, [&] { FloorPlan({box}, {0}, 0); });
    expect_error(ErrorCode::mismatch, [&] { FloorPlan({box, Region({0}, {1})}, {0, 0}); });
    expect_error(ErrorCode::mismatch, [&] { FloorPlan({box}, {0, 1}); });
    expect_error(ErrorCode::out_of_range, [&] { FloorPlan({box}, {2}, 2); });
    expect_error(ErrorCode::out_of_range, [&] { FloorPlan({box}, {-1}); });
    const std::vector<std::int64_t> four(4, 0), three(3, 0), two(2, 0), low{-largest_index},
        high{2};
    expect_error(ErrorCode::mismatch, [&] { FloorPlan(2, four, three, two); });
    expect_error(ErrorCode::mismatch, [&] { FloorPlan(2, three, three, two); });
    expect_error(ErrorCode::invalid_argument, [&] { FloorPlan(9, four, four, two); });
    expect_error(ErrorCode::out_of_range,
                 [&] { FloorPlan(1, low, high, std::vector<std::int64_t>{0}); });
    expect_error(ErrorCode::out_of_range, [] {
        FloorPlan({Region({-largest_index}, {1 - largest_index}), Region({1}, {2})}, {0, 0});
    });
}

TEST(FloorPlan, RefusesCutsThatMakeNoSense) {
    const Region domain({0, 0}, {8, 8});
    const auto bad = ErrorCode::invalid_argument;
    expect_error(bad, [&] { FloorPlan::uniform(domain, {0, 1}, 1); });
    expect_error(bad, [&] { FloorPlan::uniform(domain, {1, 1}, 0); });
    expect_error(bad, [&] { FloorPlan::uniform(Region(), Point(), 1); });
    expect_error(ErrorCode::mismatch, [&] { FloorPlan::uniform(domain, {2}, 1); });
    expect_error(bad, [&] { FloorPlan::tiles(domain, {2, -2}, 1); });
    expect_error(bad, [&] { FloorPlan::tiles(domain, {2, 2}, 1, "blocks"); });
    expect_error(bad, [&] { FloorPlan::from_splits(domain, {{5, 4}, {}}, 1); });
    expect_error(ErrorCode::out_of_range, [&] { FloorPlan::from_splits(domain, {{9}, {}}, 1); });
    expect_error(ErrorCode::mismatch, [&] { FloorPlan::from_splits(domain, {{1}}, 1); });
    expect_error(bad, [&] { FloorPlan::bisected(domain, {}); });
    expect_error(bad, [&] { FloorPlan::bisected(domain, {1, 0}); });
    expect_error(bad, [&] { FloorPlan::bisected(domain, {1, std::nan("")}); });
    expect_error(ErrorCode::out_of_range,
                 [&] { FloorPlan::uniform(domain, {largest_index, largest_index}, 1); });
}

TEST(FloorPlan, RefusesBlocksAndRanksThatAreNotThere) {
    const FloorPlan plan = FloorPlan::uniform(Region({0}, {8}), {4}, 2);
    expect_error(ErrorCode::out_of_range, [&] { plan.region(4); });
    expect_error(ErrorCode::out_of_range, [&] { plan.owner(-1); });
    expect_error(ErrorCode::out_of_range, [&] { plan.blocks_of(2); });
    expect_error(ErrorCode::out_of_range, [&] { plan.exclusive_regions(4); });
    expect_error(ErrorCode::mismatch, [&] { plan.find(Region({0, 0}, {1, 1})); });
}

TEST(FloorPlan, IsReadByManyThreadsAtOnce) {
    for (int run = 0; run < 20; ++run) {
        const FloorPlan plan = FloorPlan::tiles(Region({0, 0}, {40, 40}), {2, 2}, 7);
        std::vector<std::vector<std::int64_t>> found(4), owned(4);
        std::vector<std::thread> threads;
        for (std::size_t t = 0; t < found.size(); ++t) {
            threads.emplace_back([&, t] {
                found[t] = plan.find(Region({9, 9}, {14, 31}));
                const auto blocks = plan.blocks_of(3);
                owned[t].assign(blocks.begin(), blocks.end());
            });
        }
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(found[0].size(), 3u * 12u);
        EXPECT_EQ(found, std::vector(4, found[0]));
        EXPECT_EQ(owned, std::vector(4, owned[0]));
    }
}

TEST(FloorPlan, FindsAmongAMillionBlocks) {
    const std::int64_t tile = 7, side = 100;
    const Point corner{-300, 0, 1000};
    const Region domain = Region::from_shape(Point::filled(3, tile * side)).shifted(corner);
    const FloorPlan plan = FloorPlan::tiles(domain, Point::filled(3, tile), 1000);
    ASSERT_EQ(plan.num_blocks(), side * side * side);
    EXPECT_EQ(plan.blocks_of(999).front(), 999'000);
    EXPECT_EQ(plan.blocks_of(999).size(), 1000u);
    Random random(26);
    for (int query = 0; query < 500; ++query) {
        const Point lo = random.point(3, 0, tile * side - 40) + corner;
        const Region box(lo, lo + random.point(3, 1, 40));
        std::vector<std::int64_t> expected;
        Region(box.lo() - corner, box.hi() - corner)
            .coarsened(Point::filled(3, tile))
            .for_each(
                [&](const Point& p) { expected.push_back((p[0] * side + p[1]) * side + p[2]); });
        EXPECT_EQ(plan.find(box), expected);
    }
}

}  // namespace
}  // namespace datamover
