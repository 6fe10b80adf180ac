// SPDX-License-Identifier: BSD-3-Clause
// Ranges of the flattened array: they are located where they should be, and their plans stay small.
#include "datamover/flat_cyclic.hpp"

#include <limits>
#include <numeric>

#include "layout_oracle.hpp"
#include "plan/process_parts.hpp"

namespace datamover {
namespace {

using layout_oracle::cases;
using layout_oracle::expect_error;
using layout_oracle::Random;
using layout_oracle::seed_of;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST(FlatCyclic, PlacesAndSetsAreThoseOfDealingRangesInTurn) {
    for (std::int64_t i = 0; i < cases(200); ++i) {
        Random random(seed_of(i));
        const Point shape =
            layout_oracle::random_shape(random, static_cast<int>(random.integer(1, 3)));
        const Layout layout =
            layout_oracle::random_flat_cyclic(random, shape, random.integer(1, 7));
        const FlatCyclic& flat = *layout.flat_cyclic();
        Numbers next(static_cast<std::size_t>(flat.num_blocks()), 0);
        for (std::int64_t index = 0; index < flat.elems(); ++index) {
            const std::int64_t block = index / flat.block_elems() % flat.num_blocks();
            const std::int64_t position = next[static_cast<std::size_t>(block)]++;
            const auto place = flat.place_of(index);
            ASSERT_EQ(place.block, block);
            ASSERT_EQ(place.position, position);
            ASSERT_EQ(flat.flat_set(block).local(index), position);
            ASSERT_EQ(flat.flat_set(block).global(position), index);
        }
        for (std::int64_t block = 0; block < flat.num_blocks(); ++block) {
            EXPECT_EQ(flat.flat_set(block).size(), next[static_cast<std::size_t>(block)]);
            EXPECT_EQ(block < flat.num_filled_blocks(), next[static_cast<std::size_t>(block)] > 0);
            EXPECT_EQ(flat.block_of(flat.owner(block)), block);
        }
    }
}

TEST(FlatCyclic, RefusesWhatMakesNoLayout) {
    const auto refused = [](ErrorCode code, const Point& shape, std::int64_t block,
                            std::int64_t nprocs, const Numbers& owners) {
        expect_error(code, [&] { FlatCyclic(shape, block, nprocs, owners); });
    };
    refused(ErrorCode::invalid_argument, Point{4, -1}, 1, 2, {});
    refused(ErrorCode::invalid_argument, Point{-4}, 1, 2, {});
    refused(ErrorCode::invalid_argument, Point{4}, 0, 2, {});
    refused(ErrorCode::invalid_argument, Point{4}, -1, 2, {});
    refused(ErrorCode::invalid_argument, Point{4}, 1, 0, {});
    refused(ErrorCode::invalid_argument, Point{4}, 1, 2, {1, 1});
    refused(ErrorCode::out_of_range, Point{4}, 1, 2, {2});
    refused(ErrorCode::out_of_range, Point{4}, 1, 2, {-1});
    refused(ErrorCode::out_of_range, Point{largest, 2}, 1, 2, {});
    expect_error(ErrorCode::invalid_argument, [] { FlatCyclic::of_bytes(Point{4}, 12, 8, 2); });
    expect_error(ErrorCode::invalid_argument, [] { FlatCyclic::of_bytes(Point{4}, 0, 8, 2); });
    expect_error(ErrorCode::invalid_argument, [] { FlatCyclic::of_bytes(Point{4}, 8, 0, 2); });
    EXPECT_EQ(FlatCyclic::of_bytes(Point{4096}, 8192, 8, 2).block_elems(), 1024);
    const FlatCyclic flat(Point{10}, 3, 5, {4, 0});
    expect_error(ErrorCode::out_of_range, [&] { flat.place_of(10); });
    expect_error(ErrorCode::out_of_range, [&] { flat.place_of(-1); });
    EXPECT_EQ(flat.block_of(3), -1);
}

TEST(FlatCyclic, CountsToTheLargestInteger) {
    // Neither the end of the second range nor two rounds fit 64 bits.
    const std::int64_t block = largest / 2 + 10;
    const FlatCyclic two(Point{largest}, block, 2000);
    EXPECT_EQ(two.num_filled_blocks(), 2);
    EXPECT_EQ(two.flat_set(0).size(), block);
    EXPECT_EQ(two.flat_set(1).size(), largest - block);
    EXPECT_EQ(two.flat_set(1999).size(), 0);
    const FlatCyclic::Place end = two.place_of(largest - 1);
    EXPECT_EQ(end.block, 1);
    EXPECT_EQ(end.position, largest - block - 1);
    const FlatCyclic single(Point{largest}, largest, 1);
    EXPECT_EQ(single.flat_set(0).size(), largest);
    const FlatCyclic ones(Point{largest}, 1, 2147483647);
    std::int64_t sum = ones.flat_set(0).size();
    EXPECT_EQ(ones.flat_set(0).global(sum - 1) % 2147483647, 0);
    // Both sides of a plan count the same.
    const Layout rows = BlockCyclic(Point{largest}, "(block)", 2);
    const MotionPlan plan = redistribute(rows, FlatCyclic(Point{largest}, block, 2));
    EXPECT_EQ(plan.part(0, 0).size(), std::min(block, rows.local_elems(0)));
    sum = 0;
    for (std::int64_t rank = 0; rank < 2; ++rank)
        for (const PeerPart& peer : plan.incoming(rank)) sum += peer.part.size();
    EXPECT_EQ(sum, largest);
}

std::int64_t pieces_of(const std::vector<PeerPart>& parts) {
    std::int64_t n = 0;
    for (const PeerPart& p : parts) n += static_cast<std::int64_t>(p.part.pieces.size());
    return n;
}

std::int64_t elems_of(const std::vector<PeerPart>& parts) {
    std::int64_t n = 0;
    for (const PeerPart& p : parts) n += p.part.size();
    return n;
}

TEST(FlatCyclic, APlanDoesNotGrowWithTheNumberOfRanges) {
    for (const char* distribution : {"(block, block)", "(cyclic(64), cyclic(64))", "(*, block)"})
        for (const std::int64_t block : {64, 1024, 3 << 20}) {
            const auto pieces = [&](std::int64_t n) {
                const Layout tiles = BlockCyclic(Point{n, n}, distribution, 16);
                const MotionPlan plan = redistribute(tiles, FlatCyclic(Point{n, n}, block, 16));
                const auto in = plan.incoming(3), out = plan.outgoing(3);
                EXPECT_EQ(elems_of(in), plan.destination().local_elems(3));
                EXPECT_EQ(elems_of(out), plan.source().local_elems(3));
                return pieces_of(in) + pieces_of(out);
            };
            // 2^14 to 2^50 ranges, and more.
            for (const std::int64_t n : {1 << 12, 1 << 20, 1 << 28})
                EXPECT_LT(pieces(n), 200) << distribution << ", " << block << ", " << n;
        }
}

TEST(FlatCyclic, OneProcessOfAMillionMillionElements) {
    const std::int64_t n = 1'000'000;
    const Layout tiles = BlockCyclic(Point{n, n}, "(cyclic(64), cyclic(64))", 1000);
    for (const std::int64_t block : {1000, 8000, 1'000'000}) {
        const MotionPlan plan = redistribute(tiles, FlatCyclic(Point{n, n}, block, 1000));
        EXPECT_EQ(elems_of(plan.incoming(7)), plan.destination().local_elems(7)) << block;
        EXPECT_EQ(elems_of(plan.outgoing(7)), plan.source().local_elems(7)) << block;
    }
}

/// How many elements with flat indices from lo to hi - 1 are dealt to a block, range by range.
std::int64_t dealt_between(const FlatCyclic& flat, std::int64_t block, std::int64_t lo,
                           std::int64_t hi) {
    std::int64_t n = 0;
    for (std::int64_t i = lo; i < hi;) {
        const std::int64_t course = i / flat.block_elems();
        const std::int64_t end = std::min(hi, (course + 1) * flat.block_elems());
        if (course % flat.num_blocks() == block) n += end - i;
        i = end;
    }
    return n;
}

TEST(FlatCyclic, OneRoundOfAMillionMillionElementsThatNeverRepeat) {
    const std::int64_t rank = 7, nprocs = 1000;
    for (const Point& shape : {Point{1'000'003, 999'983}, Point{10'007, 9'973, 10'009}})
        for (const std::int64_t block : {1'009, 99'991, 10'000'019}) {
            const FlatCyclic flat(shape, block, nprocs);
            const std::string words =
                shape.dims() == 2 ? "(cyclic(61), block)" : "(block, cyclic(61), cyclic(67))";
            const Layout tiles = BlockCyclic(shape, words, nprocs);
            Region round = Region::from_shape(shape);
            const std::int64_t row = shape.product() / shape[0], first = shape[0] / 2;
            const std::int64_t thick = shape.dims() == 2 ? 64 : 1;
            Point lo = round.lo(), hi = round.hi();
            lo[0] = first;
            hi[0] = first + thick;
            round = Region(lo, hi);
            const MotionPlan plan = redistribute(tiles, round, flat, round);
            const auto in = plan.incoming(rank);
            EXPECT_EQ(elems_of(in), dealt_between(flat, rank, first * row, (first + thick) * row))
                << shape.to_string() << ", " << block;
            EXPECT_LE(pieces_of(in), 64 * nprocs) << shape.to_string() << ", " << block;
            for (const PeerPart& peer : in) {
                if (peer.rank % 97 != 0) continue;
                EXPECT_EQ(plan.part(peer.rank, rank).size(), peer.part.size());
            }
        }
}

TEST(FlatCyclic, RangesThatNeverRepeatAreKeptNowhere) {
    // A part has five million runs.
    const Point shape{3'001, 2'011, 61};
    const FlatCyclic flat(shape, 1'009, 2);
    const Layout tiles = BlockCyclic(shape, "(block, *, block)", 2);
    for (const auto& [from, to] : {std::pair{tiles, Layout(flat)}, std::pair{Layout(flat), tiles}})
        for (std::int64_t rank = 0; rank < 2; ++rank) {
            const MotionPlan plan = redistribute(from, to);
            const auto in = plan.incoming(rank), out = plan.outgoing(rank);
            EXPECT_EQ(elems_of(in), to.local_elems(rank));
            EXPECT_EQ(elems_of(out), from.local_elems(rank));
            EXPECT_LE(pieces_of(in), 2);
            EXPECT_LE(pieces_of(out), 2);
        }
}

TEST(FlatCyclic, RangesThatNeverRepeatAtTheEndOfTheLargestArray) {
    const Point shape{2'097'143, 2'097'143, 2'097'151};  // 2^63 less some
    const std::int64_t row = shape[2], elems = shape.product();
    const FlatCyclic flat(shape, 99'991, 3);
    const Region corner(shape - Point{2, 40, shape[2]}, shape);
    const MotionPlan plan =
        redistribute(BlockCyclic(shape, "(*, *, block)", 3), corner, flat, corner);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
        std::int64_t expected = 0;
        for (const std::int64_t end : {elems - row * shape[1], elems})
            expected += dealt_between(flat, rank, end - 40 * row, end);
        const auto in = plan.incoming(rank);
        EXPECT_EQ(elems_of(in), expected);
        EXPECT_EQ(elems_of(plan.outgoing(rank)), rank < 2 ? 80 * 699'051 : 80 * 699'049);
        for (const PeerPart& peer : in) {
            EXPECT_EQ(plan.part(peer.rank, rank).size(), peer.part.size());
            EXPECT_TRUE(std::holds_alternative<RangesPiece>(peer.part.pieces.front().content));
        }
    }
}

TEST(FlatCyclic, SingleElementsDealtToManyProcesses) {
    for (const std::int64_t block : {1, 2, 100'000}) {
        const Point shape{51, 49, 3};
        std::vector<std::int64_t> owners(47);
        std::iota(owners.begin(), owners.end(), 2);
        const Layout flat = FlatCyclic(shape, block, 53, owners);
        const Layout tiles = BlockCyclic(shape, "(cyclic(5), block, cyclic)", 53);
        Random random(1);
        layout_oracle::World a = layout_oracle::make_world(random, tiles), back = a;
        layout_oracle::World b = layout_oracle::make_world(random, flat);
        layout_oracle::fill_with_indices(a);
        const MotionPlan plan = redistribute(tiles, flat);
        layout_oracle::carry_out(plan, a, b, layout_oracle::Way::direct);
        for (const auto& e : layout_oracle::elements_of(flat))
            ASSERT_EQ(b.at(e.block, e.local), layout_oracle::flat_of(e.global, shape.to_vector()));
        layout_oracle::carry_out(plan.reversed(), b, back, layout_oracle::Way::direct);
        EXPECT_EQ(back.data, a.data);
    }
}

TEST(FlatCyclic, NothingMovesBetweenTheSameSectionsOfOneArray) {
    const Layout flat = FlatCyclic(Point{1000, 7}, 9, 2);
    const Region section(Point{100, 0}, Point{900, 7});
    const MotionPlan plan = redistribute(flat, section, flat, section);
    for (const Side side : both_sides) {
        EXPECT_EQ(elems_of(plan::parts_of(plan, 0, side, {})), 2799);
        EXPECT_EQ(elems_of(plan::parts_of(plan, 0, side, {}, true)), 0);
    }
}

/// Each would be gone through once for each of the other side's blocks: products are fewer here.
TEST(FlatCyclic, RangesThatNeverRepeatBetweenManyProcesses) {
    const std::int64_t range = 512, nprocs = 64, repeats_after = range * nprocs;
    const Point shape{12 * repeats_after, repeats_after + 1};
    const Layout flat = FlatCyclic(shape, range, nprocs);
    const Layout columns = BlockCyclic(shape, "(*, block)", nprocs);
    EXPECT_EQ(elems_of(redistribute(flat, columns).outgoing(5)), flat.local_elems(5));
    EXPECT_EQ(elems_of(redistribute(columns, flat).outgoing(5)), columns.local_elems(5));
}

TEST(FlatCyclic, RangesThatNeverRepeatAreRefusedWhereTheyAreTooMany) {
    const Layout rows = BlockCyclic(Point{99'999'989, 99'999'971}, "(block, *)", 4);
    const auto plan_for = [&](std::int64_t block) {
        return redistribute(rows, FlatCyclic(rows.domain().shape(), block, 4));
    };
    // At once, where the lengths alone tell it.
    expect_error(ErrorCode::unsupported, [&] { plan_for(1'299'709).incoming(0); });
    expect_error(ErrorCode::unsupported, [&] { plan_for(1'299'709).outgoing(0); });
    // As many rows as a round of ranges has elements repeat it, whatever their length.
    EXPECT_LE(pieces_of(plan_for(1024).incoming(0)), 4 * 4096 + 4);
}

TEST(FlatCyclic, AMissingElementIsNamed) {
    const Layout holes =
        FloorPlan({Region(Point{0, 0}, Point{4, 3}), Region(Point{2, 3}, Point{4, 5})}, {0, 1}, 2);
    const Layout flat = FlatCyclic(Point{4, 5}, 3, 2);
    const MotionPlan plan = redistribute(holes, flat);
    // Flat indices 3, 4, 8 and 9 are missing; rank 1 holds 3 to 5 and 9 to 11, rank 0 has 8.
    expect_error(ErrorCode::mismatch, [&] { plan.incoming(0); });
    expect_error(ErrorCode::mismatch, [&] { plan.incoming(1); });
    const MotionPlan partial = redistribute(holes, flat, {}, true);
    EXPECT_EQ(elems_of(partial.incoming(0)) + elems_of(partial.incoming(1)), 16);
    // Brought back, what has no place is an error of the process that holds it.
    expect_error(ErrorCode::mismatch, [&] { plan.reversed().outgoing(1); });
}

TEST(FlatCyclic, BlocksMayLieAnywhereInIndexSpace) {
    const Layout flat = FlatCyclic(Point{12, 10}, 7, 3);
    const auto tiles_at = [](const Point& lo) {
        return Layout(FloorPlan::tiles(Region(lo, lo + Point{12, 10}), {5, 4}, 3, "cyclic"));
    };
    const auto pairs_of = [&](const Layout& from, const Layout& to) {
        std::vector<std::int64_t> all;
        const MotionPlan plan = redistribute(from, from.domain(), to, to.domain());
        for (std::int64_t rank = 0; rank < 3; ++rank)
            for (const PeerPart& peer : plan.incoming(rank)) {
                const MemoryLayout a = dense_memory(from, peer.rank, 4);
                const MemoryLayout b = dense_memory(to, rank, 4);
                std::vector<std::int64_t> s, d;
                plan::compile(peer.part, {&from, &a, 4, peer.rank}, {&to, &b, 4, rank})
                    .to_pairs(s, d);
                all.insert(all.end(), s.begin(), s.end());
                all.insert(all.end(), d.begin(), d.end());
                EXPECT_EQ(plan.part(peer.rank, rank).size(), peer.part.size());
            }
        EXPECT_EQ(all.size(), 240U);
        return all;
    };
    const Layout here = tiles_at({0, 0});
    for (const Layout& there :
         {tiles_at({-7, std::int64_t{1} << 60}), tiles_at({1 - largest, 3})}) {
        EXPECT_EQ(pairs_of(there, flat), pairs_of(here, flat));
        EXPECT_EQ(pairs_of(flat, there), pairs_of(flat, here));
    }
}

TEST(FlatCyclic, SavedPlansComeBackEqual) {
    const Layout flat = FlatCyclic(Point{6, 7}, 5, 4, {3, 1, 0});
    const MotionPlan plan = redistribute(BlockCyclic(Point{6, 7}, "(block, cyclic)", 4), flat);
    const MotionPlan again = MotionPlan::from_bytes(plan.to_bytes());
    EXPECT_EQ(again, plan);
    EXPECT_EQ(again.destination().digest(), flat.digest());
    EXPECT_EQ(flat.describe(), "flat ranges of 5 elements of (6, 7) on 3 of 4 processes");
}

TEST(FlatCyclic, SectionsHalosAndPanelsNeedBoxes) {
    const Layout flat = FlatCyclic(Point{6, 7}, 5, 2);
    const MotionPlan plan = redistribute(flat, flat);
    expect_error(ErrorCode::unsupported, [&] { plan.for_each_section([](const SectionCopy&) {}); });
    expect_error(ErrorCode::unsupported, [&] { halo(flat, {1, 1}, {1, 1}); });
    expect_error(ErrorCode::unsupported,
                 [&] { panel_broadcast(flat, Region(Point{0, 0}, Point{1, 7}), 0); });
    MotionPlan sections(flat, flat);
    expect_error(ErrorCode::unsupported, [&] {
        sections.add_section(0, Region(Point{0}, Point{1}), 0, Region(Point{0}, Point{1}));
    });
}

}  // namespace
}  // namespace datamover
