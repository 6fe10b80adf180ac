// SPDX-License-Identifier: BSD-3-Clause
// Redistributions: every element arrives where the destination layout requires it, for any layouts,
// axes, sections and flips.
#include <tuple>

#include "datamover/explain.hpp"
#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::carry_out;
using layout_oracle::cases;
using layout_oracle::Coordinates;
using layout_oracle::elements_of;
using layout_oracle::expect_error;
using layout_oracle::Kind;
using layout_oracle::Random;
using layout_oracle::seed_of;
using layout_oracle::untouched;
using layout_oracle::Way;
using layout_oracle::World;

/// A random redistribution between random layouts of given kinds.
struct RedistributionCase {
    RedistributionCase(Random& random, Kind source_kind, Kind destination_kind) {
        const bool uneven =
            source_kind == Kind::uneven_ranges || destination_kind == Kind::uneven_ranges;
        const int dims = uneven ? 3 : static_cast<int>(random.integer(1, 3));
        const std::int64_t nprocs = random.integer(uneven ? 2 : 1, 7);
        const Point shape = uneven ? layout_oracle::random_uneven_shape(random, dims)
                                   : layout_oracle::random_shape(random, dims);
        for (int d = 0; d < dims; ++d) axes.insert(axes.begin() + random.integer(0, d), d);
        Point permuted = shape;
        for (int k = 0; k < dims; ++k) permuted[k] = shape[axis(k)];
        source = layout_oracle::random_layout(random, source_kind, shape, nprocs);
        destination = layout_oracle::random_layout(random, destination_kind, permuted, nprocs);
        from = Region::from_shape(shape);
        to = Region::from_shape(permuted);
        if (random.chance(50)) {
            plan = redistribute(source, destination, axes);
            return;
        }
        Point from_lo = shape, from_hi = shape, to_lo = shape, to_hi = shape;
        for (int k = 0; k < dims; ++k) {
            const std::int64_t extent = random.integer(1, permuted[k]);
            from_lo[axis(k)] = random.integer(0, permuted[k] - extent);
            from_hi[axis(k)] = from_lo[axis(k)] + extent;
            to_lo[k] = random.integer(0, permuted[k] - extent);
            to_hi[k] = to_lo[k] + extent;
        }
        from = Region(from_lo, from_hi);
        to = Region(to_lo, to_hi);
        if (random.chance(50))
            for (int k = 0; k < dims; ++k) flip.push_back(random.chance(60));
        plan = redistribute(source, from, destination, to, axes, false, flip);
    }

    int axis(int k) const { return axes[static_cast<std::size_t>(k)]; }

    /// The flat number of the source element that belongs at a destination index.
    std::int32_t expected_at(const Coordinates& global) const {
        Coordinates origin = global;
        for (int k = 0; k < to.dims(); ++k) {
            const std::int64_t t = global[static_cast<std::size_t>(k)] - to.lo()[k];
            if (t < 0 || t >= to.extent(k)) return untouched;
            const bool flips = !flip.empty() && flip[static_cast<std::size_t>(k)];
            origin[static_cast<std::size_t>(axis(k))] =
                flips ? from.hi()[axis(k)] - 1 - t : from.lo()[axis(k)] + t;
        }
        return static_cast<std::int32_t>(
            layout_oracle::flat_of(origin, source.domain().hi().to_vector()));
    }

    Layout source, destination;
    std::vector<int> axes;
    std::vector<bool> flip;
    Region from, to;
    MotionPlan plan;
};

using Kinds = std::tuple<Kind, Kind>;
class RedistributionBetween : public ::testing::TestWithParam<Kinds> {
protected:
    RedistributionCase draw(Random& random) const {
        return RedistributionCase(random, std::get<0>(GetParam()), std::get<1>(GetParam()));
    }

    static bool is_uneven() {
        const auto [source, destination] = GetParam();
        return source == Kind::uneven_ranges || destination == Kind::uneven_ranges;
    }

    void check(Way way) const {
        for (std::int64_t i = 0; i < cases(is_uneven() ? 50 : 250); ++i) {
            Random random(seed_of(i));
            const RedistributionCase c = draw(random);
            World a = layout_oracle::make_world(random, c.source);
            World b = layout_oracle::make_world(random, c.destination);
            layout_oracle::fill_with_indices(a);
            carry_out(c.plan, a, b, way,
                      random.chance(50) ? plan::MessageOrder::row_major
                                        : plan::MessageOrder::column_major);
            for (const auto& e : elements_of(c.destination))
                ASSERT_EQ(b.at(e.block, e.local), c.expected_at(e.global))
                    << "case " << i << ": " << Point(e.global).to_string() << ", "
                    << c.source.describe() << " to " << c.destination.describe();
        }
    }
};

TEST_P(RedistributionBetween, BringsEveryElementDirectly) {
    check(Way::direct);
}

TEST_P(RedistributionBetween, BringsEveryElementInMessages) {
    check(Way::message);
}

void expect_same_pairs_on_both_sides(const MotionPlan& plan) {
    std::map<std::pair<std::int64_t, std::int64_t>, PairPart> sent;
    for (std::int64_t rank = 0; rank < plan.nprocs(); ++rank)
        for (PeerPart& peer : plan.outgoing(rank)) sent[{rank, peer.rank}] = std::move(peer.part);
    std::size_t received = 0;
    for (std::int64_t rank = 0; rank < plan.nprocs(); ++rank) {
        for (const PeerPart& peer : plan.incoming(rank)) {
            ++received;
            const auto found = sent.find({peer.rank, rank});
            ASSERT_NE(found, sent.end());
            const MemoryLayout from = dense_memory(plan.source(), peer.rank, 4);
            const MemoryLayout to = dense_memory(plan.destination(), rank, 4);
            const datamover::plan::RelationSide source{&plan.source(), &from, 4, peer.rank};
            const datamover::plan::RelationSide destination{&plan.destination(), &to, 4, rank};
            std::vector<std::int64_t> s1, d1, s2, d2;
            datamover::plan::compile(found->second, source, destination).to_pairs(s1, d1);
            datamover::plan::compile(peer.part, source, destination).to_pairs(s2, d2);
            ASSERT_EQ(s1, s2);
            ASSERT_EQ(d1, d2);
        }
    }
    EXPECT_EQ(received, sent.size());
}

TEST_P(RedistributionBetween, BothSidesDeriveTheSamePairs) {
    for (std::int64_t i = 0; i < cases(60); ++i) {
        SCOPED_TRACE(i);
        Random random(seed_of(i));
        const RedistributionCase c = draw(random);
        expect_same_pairs_on_both_sides(c.plan);
        expect_same_pairs_on_both_sides(c.plan.adjoint());
    }
}

TEST_P(RedistributionBetween, ThereAndBackIsTheIdentity) {
    for (std::int64_t i = 0; i < cases(60); ++i) {
        Random random(seed_of(i));
        const RedistributionCase c = draw(random);
        const MotionPlan there = redistribute(c.source, c.source.domain(), c.destination,
                                              c.destination.domain(), c.axes, false, c.flip);
        EXPECT_EQ(MotionPlan::from_bytes(there.to_bytes()), there);
        EXPECT_EQ(there.reversed().reversed(), there);
        World a = layout_oracle::make_world(random, c.source), back = a;
        World b = layout_oracle::make_world(random, c.destination);
        layout_oracle::fill_with_indices(a);
        carry_out(there, a, b, Way::message);
        carry_out(there.reversed(), b, back, Way::direct);
        ASSERT_EQ(back.data, a.data) << "case " << i;
    }
}

/// The pieces of a plan that are worked out whenever they are gone through, and the others.
std::pair<std::int64_t, std::int64_t> ranges_and_others(const MotionPlan& plan) {
    std::pair<std::int64_t, std::int64_t> counts{0, 0};
    for (std::int64_t rank = 0; rank < plan.nprocs(); ++rank)
        for (const PeerPart& peer : plan.incoming(rank))
            for (const Piece& piece : peer.part.pieces)
                ++(std::holds_alternative<RangesPiece>(piece.content) ? counts.first
                                                                      : counts.second);
    return counts;
}

class UnevenRedistributionBetween : public RedistributionBetween {};

TEST_P(UnevenRedistributionBetween, KeepsNoRunsInMostCases) {
    const auto [source, destination] = GetParam();
    const bool both = source == destination;
    std::int64_t plans = 0, with_ranges = 0;
    for (std::int64_t i = 0; i < cases(50); ++i) {
        Random random(seed_of(i));
        const auto [ranges, others] = ranges_and_others(draw(random).plan);
        plans += ranges + others > 0;
        with_ranges += ranges > 0;
    }
    EXPECT_GE(with_ranges, both ? plans / 16 : plans / 4) << "of " << plans;
}

INSTANTIATE_TEST_SUITE_P(Kinds, UnevenRedistributionBetween,
                         ::testing::Values(Kinds{Kind::uneven_ranges, Kind::block_cyclic},
                                           Kinds{Kind::block_cyclic, Kind::uneven_ranges},
                                           Kinds{Kind::uneven_ranges, Kind::floor_plan},
                                           Kinds{Kind::floor_plan, Kind::uneven_ranges},
                                           Kinds{Kind::uneven_ranges, Kind::uneven_ranges}),
                         [](const auto& info) {
                             return kind_name(std::get<0>(info.param)) + "To" +
                                    kind_name(std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(UnevenRanges, RedistributionBetween,
                         ::testing::Values(Kinds{Kind::uneven_ranges, Kind::block_cyclic},
                                           Kinds{Kind::block_cyclic, Kind::uneven_ranges},
                                           Kinds{Kind::uneven_ranges, Kind::floor_plan},
                                           Kinds{Kind::floor_plan, Kind::uneven_ranges},
                                           Kinds{Kind::uneven_ranges, Kind::index_list},
                                           Kinds{Kind::uneven_ranges, Kind::uneven_ranges}),
                         [](const auto& info) {
                             return kind_name(std::get<0>(info.param)) + "To" +
                                    kind_name(std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(AllKinds, RedistributionBetween,
                         ::testing::Combine(::testing::Values(Kind::block_cyclic, Kind::floor_plan,
                                                              Kind::index_list, Kind::flat_cyclic),
                                            ::testing::Values(Kind::block_cyclic, Kind::floor_plan,
                                                              Kind::index_list, Kind::flat_cyclic)),
                         [](const auto& info) {
                             return kind_name(std::get<0>(info.param)) + "To" +
                                    kind_name(std::get<1>(info.param));
                         });

/// A layout whose domain begins and ends anywhere: boxes with holes and overlaps, lists of some
/// elements, or any other layout of a shape of its own.
Layout layout_anywhere(Random& random, Kind kind, int dims, std::int64_t nprocs) {
    const Point shape = random.point(dims, 1, dims == 1 ? 40 : dims == 2 ? 12 : 6);
    if (kind == Kind::floor_plan) {
        std::vector<Region> boxes;
        Map owners;
        const Point origin = random.point(dims, -6, 6);
        for (std::int64_t i = random.integer(0, 5); i >= 0; --i) {
            const Point lo = origin + random.point(dims, 0, 5);
            boxes.emplace_back(lo, lo + random.point(dims, 0, 6));
            owners.push_back(random.integer(0, nprocs - 1));
        }
        return FloorPlan(boxes, owners, nprocs);
    }
    if (kind != Kind::index_list) return layout_oracle::random_layout(random, kind, shape, nprocs);
    std::vector<std::int64_t> offsets{0}, indices;
    const std::int64_t share = random.integer(1, 60);
    for (std::int64_t rank = 0; rank < nprocs; ++rank) {
        for (std::int64_t i = shape.product(); i-- > 0;)
            if (random.chance(static_cast<int>(share))) indices.push_back(i);
        offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    return IndexList(shape, offsets, indices);
}

/// A redistribution without regions, and what it has to do, from a table of the indices held.
struct AnywhereCase {
    AnywhereCase(Random& random, const Kinds& kinds) {
        const int dims = static_cast<int>(random.integer(1, 3));
        const std::int64_t nprocs = random.integer(1, 5);
        for (int d = 0; d < dims; ++d) axes.insert(axes.begin() + random.integer(0, d), d);
        if (random.chance(40)) std::ranges::sort(axes);
        source = layout_anywhere(random, std::get<0>(kinds), dims, nprocs);
        destination = layout_anywhere(random, std::get<1>(kinds), dims, nprocs);
        partial = random.chance(50);
        for (const auto& e : elements_of(source)) held[turned(e.global)] = number(e.global);
        for (const auto& e : elements_of(destination)) {
            needed[e.global] = number(e.global);
            if (!held.contains(e.global)) missing.push_back(e.global);
        }
    }

    /// An index of the source as one of the destination.
    Coordinates turned(const Coordinates& of_source) const {
        Coordinates index;
        for (const int axis : axes) index.push_back(of_source[static_cast<std::size_t>(axis)]);
        return index;
    }
    Coordinates turned_back(const Coordinates& of_destination) const {
        Coordinates index(axes.size());
        for (std::size_t k = 0; k < axes.size(); ++k)
            index[static_cast<std::size_t>(axes[k])] = of_destination[k];
        return index;
    }
    /// Different for all indices that occur.
    static std::int32_t number(const Coordinates& index) {
        std::int32_t n = 0;
        for (const std::int64_t i : index) n = 64 * n + static_cast<std::int32_t>(i) + 16;
        return n;
    }
    MotionPlan plan() const { return redistribute(source, destination, axes, partial); }

    Layout source, destination;
    std::vector<int> axes;
    bool partial = false;
    std::map<Coordinates, std::int32_t> held, needed;  ///< by indices of the destination
    std::vector<Coordinates> missing;
};

void fill_with_numbers(World& world) {
    for (const auto& e : elements_of(world.layout))
        world.at(e.block, e.local) = AnywhereCase::number(e.global);
}

std::int32_t found_in(const std::map<Coordinates, std::int32_t>& numbers, const Coordinates& at) {
    const auto found = numbers.find(at);
    return found == numbers.end() ? untouched : found->second;
}

class SameIndexBetween : public ::testing::TestWithParam<Kinds> {};

TEST_P(SameIndexBetween, EveryIndexThatBothHoldGoesAndNoOther) {
    std::int64_t moving = 0;
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const AnywhereCase c(random, GetParam());
        if (!c.partial && !c.missing.empty()) continue;
        const MotionPlan plan = c.plan();
        World a = layout_oracle::make_world(random, c.source);
        World b = layout_oracle::make_world(random, c.destination);
        fill_with_numbers(a);
        carry_out(plan, a, b, random.chance(50) ? Way::direct : Way::message);
        for (const auto& e : elements_of(c.destination))
            ASSERT_EQ(b.at(e.block, e.local), found_in(c.held, e.global))
                << "case " << i << ": " << Point(e.global).to_string() << ", "
                << c.source.describe() << " to " << c.destination.describe();

        fill_with_numbers(b);
        World back = layout_oracle::make_world(random, c.source);
        carry_out(plan.reversed(), b, back, random.chance(50) ? Way::direct : Way::message);
        for (const auto& e : elements_of(c.source))
            ASSERT_EQ(back.at(e.block, e.local), found_in(c.needed, c.turned(e.global)))
                << "case " << i << ", back: " << Point(e.global).to_string();
        EXPECT_EQ(MotionPlan::from_bytes(plan.to_bytes()), plan);
        const TrafficSummary summary = summarize_traffic(plan);
        const auto sum = [](const auto& v) { return std::accumulate(v.begin(), v.end(), 0L); };
        EXPECT_EQ(sum(summary.sent_elems) + sum(summary.kept_elems),
                  static_cast<std::int64_t>(elements_of(c.destination).size() - c.missing.size()));
        moving += c.missing.size() < elements_of(c.destination).size();
    }
    EXPECT_GE(moving, cases(300) / 20);
}

TEST_P(SameIndexBetween, AnIndexThatNobodyHoldsIsNamedUnlessThePlanIsPartial) {
    std::int64_t refused = 0;
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const AnywhereCase c(random, GetParam());
        if (c.partial || c.missing.empty()) continue;
        ++refused;
        std::string message;
        expect_error(ErrorCode::mismatch, [&] {
            try {
                const MotionPlan plan = c.plan();
                for (std::int64_t rank = 0; rank < plan.nprocs(); ++rank) plan.incoming(rank);
            } catch (const Error& error) {
                message = error.what();
                throw;
            }
        });
        const auto names = [&](const Coordinates& index) {
            return message.find("needs index " + Point(c.turned_back(index)).to_string() +
                                " of the source") != std::string::npos;
        };
        EXPECT_TRUE(std::ranges::any_of(c.missing, names)) << "case " << i << ": " << message;
        EXPECT_NE(message.find("pass partial=True"), std::string::npos) << message;
    }
    EXPECT_GE(refused, cases(300) / 20);
}

INSTANTIATE_TEST_SUITE_P(AllKinds, SameIndexBetween,
                         ::testing::Combine(::testing::Values(Kind::block_cyclic, Kind::floor_plan,
                                                              Kind::index_list, Kind::flat_cyclic),
                                            ::testing::Values(Kind::block_cyclic, Kind::floor_plan,
                                                              Kind::index_list, Kind::flat_cyclic)),
                         [](const auto& info) {
                             return kind_name(std::get<0>(info.param)) + "To" +
                                    kind_name(std::get<1>(info.param));
                         });

TEST(Redistribution, RegionsCorrespondByOffset) {
    const Region old(Point{0, 0}, Point{8, 8}), moved(Point{4, 4}, Point{12, 12});
    const Layout before = FloorPlan({old}, {0}, 1), after = FloorPlan({moved}, {0}, 1);
    const MotionPlan by_offset = redistribute(before, old, after, moved);
    EXPECT_EQ(by_offset.part(0, 0).size(), 64);
    EXPECT_EQ(MotionPlan::from_bytes(by_offset.to_bytes()), by_offset);
    const MotionPlan same_index = redistribute(before, after, {}, true);
    EXPECT_EQ(same_index.part(0, 0).size(), 16);
    EXPECT_FALSE(same_index == by_offset);
}

TEST(Redistribution, FlipsTurnIndicesAround) {
    const Layout line = FloorPlan({Region(Point{0}, Point{6})}, {0}, 1);
    const Region from(Point{0}, Point{4}), to(Point{2}, Point{6});
    const MotionPlan plan = redistribute(line, from, line, to, {}, false, {true});
    Random random(1);
    World a = layout_oracle::make_world(random, line), b = a;
    layout_oracle::fill_with_indices(a);
    carry_out(plan, a, b, Way::direct);
    for (std::int64_t i = 2; i < 6; ++i) EXPECT_EQ(b.at(0, {i}), 5 - i);
    const PairPart part = plan.part(0, 0);  // one negative coefficient, whatever the length
    const auto& product = std::get<ProductPiece>(part.pieces.front().content);
    EXPECT_TRUE(product.axes.front().table->single_run());
    EXPECT_EQ(redistribute(line, from, line, to, {}, false, {false}),
              redistribute(line, from, line, to));
    expect_error(ErrorCode::mismatch,
                 [&] { redistribute(line, from, line, to, {}, false, {true, false}); });
}

TEST(Redistribution, ArraysWithoutElementsMoveNothing) {
    for (const Point& shape : {Point{0}, Point{0, 5}, Point{4, 0, 3}}) {
        std::string words = "block";
        for (int d = 1; d < shape.dims(); ++d) words += ", cyclic(2)";
        const std::vector<Layout> layouts{
            BlockCyclic(shape, words, 3), BlockCyclic(shape, words, 3, {.replicas = 3}),
            FloorPlan({Region::from_shape(shape), Region::from_shape(shape)}, {2, 0}, 3),
            IndexList(shape, std::vector<std::int64_t>{0, 0, 0, 0}, {}), FlatCyclic(shape, 4, 3)};
        for (const Layout& a : layouts)
            for (const Layout& b : layouts) {
                const std::vector<bool> flip(static_cast<std::size_t>(shape.dims()), true);
                MotionPlan plan = redistribute(a, b).merged(
                    redistribute(a, a.domain(), b, b.domain(), {}, false, flip));
                plan = plan.merged(plan.reversed().reversed());
                for (std::int64_t rank = 0; rank < 3; ++rank) {
                    EXPECT_TRUE(plan.outgoing(rank).empty() && plan.incoming(rank).empty());
                    EXPECT_TRUE(plan.adjoint().outgoing(rank).empty());
                    EXPECT_EQ(dense_memory(a, rank, 4).end_bytes, 0);
                }
                EXPECT_EQ(MotionPlan::from_bytes(plan.to_bytes()), plan);
                EXPECT_EQ(summarize_traffic(redistribute(a, b)).sent_elems,
                          (std::vector<std::int64_t>{0, 0, 0}));
                EXPECT_EQ(traffic_matrix(redistribute(a, b), 1).elems.front(), 0);
            }
    }
    const Layout none = BlockCyclic(Point{0}, "(block)", 2), some = BlockCyclic(Point{3}, "(*)", 2);
    expect_error(ErrorCode::mismatch, [&] { redistribute(none, some); });
    EXPECT_TRUE(redistribute(none, some, {}, true).incoming(0).empty());
    EXPECT_TRUE(redistribute(some, none).outgoing(0).empty());
}

TEST(Redistribution, OverlappingInteriorsAreSentByTheLowestBlock) {
    const Region whole(Point{0}, Point{10});
    const Layout twice = FloorPlan({Region(Point{4}, Point{10}), whole}, {1, 0}, 2);
    const Layout once = BlockCyclic(Point{10}, "(*)", 2);
    const MotionPlan plan = redistribute(twice, once);
    EXPECT_EQ(plan.part(1, 0).size(), 6);
    EXPECT_EQ(plan.part(0, 0).size(), 4);
}

TEST(Redistribution, TheNearestReplicaSends) {
    for (std::int64_t i = 0; i < cases(100); ++i) {
        Random random(seed_of(i));
        const std::int64_t nprocs = random.integer(1, 9);
        const auto kind = static_cast<Kind>(random.integer(0, 4));
        const Point shape = kind == Kind::uneven_ranges
                                ? layout_oracle::random_uneven_shape(random, 3)
                                : layout_oracle::random_shape(random, 2);
        const Layout source = layout_oracle::random_block_cyclic(random, shape, nprocs);
        const Layout destination = layout_oracle::random_layout(random, kind, shape, nprocs);
        std::vector<std::int64_t> nodes;
        for (std::int64_t rank = 0; rank < nprocs; ++rank) nodes.push_back(random.integer(0, 2));
        const auto node_of = [&](std::int64_t r) { return nodes[static_cast<std::size_t>(r)]; };

        std::map<Coordinates, std::vector<std::int64_t>> holders;
        for (const auto& e : elements_of(source))
            holders[e.global].push_back(source.owner(e.block));
        std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> expected, sent, received;
        for (const auto& e : elements_of(destination)) {
            const std::int64_t receiver = destination.owner(e.block);
            const auto nearer = [&](std::int64_t a, std::int64_t b) {
                return std::make_tuple(a != receiver, node_of(a) != node_of(receiver), a) <
                       std::make_tuple(b != receiver, node_of(b) != node_of(receiver), b);
            };
            const auto& all = holders[e.global];
            ++expected[{*std::min_element(all.begin(), all.end(), nearer), receiver}];
        }
        const MotionPlan plan = redistribute(source, destination);
        for (std::int64_t rank = 0; rank < nprocs; ++rank) {
            for (const PeerPart& p : plan.outgoing(rank, nodes))
                sent[{rank, p.rank}] = p.part.size();
            for (const PeerPart& p : plan.incoming(rank, nodes))
                received[{p.rank, rank}] = p.part.size();
        }
        EXPECT_EQ(sent, expected) << source.describe() << " to " << destination.describe();
        EXPECT_EQ(received, expected) << source.describe() << " to " << destination.describe();
    }
}

TEST(Redistribution, WhatNobodyHoldsIsNotMovedByAPartialOne) {
    const std::vector<std::int64_t> offsets{0, 2, 3}, indices{7, 1, 4};
    const Layout lists = IndexList(Point{9}, offsets, indices);
    const Layout blocks = BlockCyclic(Point{9}, "(block)", 2);
    std::int64_t moved = 0;
    for (std::int64_t rank = 0; rank < 2; ++rank)
        for (const PeerPart& peer : redistribute(lists, blocks, {}, true).incoming(rank))
            moved += peer.part.size();
    EXPECT_EQ(moved, 3);
    layout_oracle::expect_error(ErrorCode::mismatch,
                                [&] { redistribute(lists, blocks).incoming(0); });
}

TEST(Redistribution, PartOfOneProcessOfAMillion) {
    const std::int64_t nprocs = 1'000'000, rank = 123'456;
    const Layout rows = BlockCyclic(Point{4'000'000, 3'000}, "(block, *)", nprocs);
    const Layout tiles = BlockCyclic(Point{4'000'000, 3'000}, "(cyclic(64), cyclic(64))", nprocs);
    const MotionPlan plan = redistribute(rows, tiles);
    std::map<std::int64_t, std::int64_t> expected;  // elements by receiver
    const std::int64_t first_row = 4 * rank;
    for (std::int64_t i = first_row; i < first_row + 4; ++i)
        for (std::int64_t j = 0; j < 3'000; ++j) ++expected[tiles.block_cyclic()->owner_of({i, j})];
    std::map<std::int64_t, std::int64_t> found;
    for (const PeerPart& peer : plan.outgoing(rank)) {
        found[peer.rank] = peer.part.size();
        EXPECT_EQ(plan.part(rank, peer.rank).size(), peer.part.size());
    }
    EXPECT_EQ(found, expected);
    std::int64_t received = 0;
    for (const PeerPart& peer : plan.incoming(rank)) received += peer.part.size();
    EXPECT_EQ(received, tiles.local_elems(rank));
}

TEST(Redistribution, TablesDoNotGrowWithTheArray) {
    const auto table_bytes = [](std::int64_t n) {
        const Layout a = BlockCyclic(Point{n, n}, "(cyclic(3), cyclic(5))", 4);
        const Layout b = BlockCyclic(Point{n, n}, "(cyclic(7), block)", 4);
        std::int64_t bytes = 0;
        for (const PeerPart& peer : redistribute(a, b).outgoing(0))
            for (const Piece& piece : peer.part.pieces)
                for (const PieceAxis& axis : std::get<ProductPiece>(piece.content).axes)
                    bytes += axis.table->nbytes();
        return bytes;
    };
    EXPECT_LE(table_bytes(1'000'000'000), 2 * table_bytes(1'000));
}

TEST(Redistribution, RefusesWhatDoesNotFit) {
    const Layout a = BlockCyclic(Point{4, 6}, "(block, *)", 2);
    const Layout b = BlockCyclic(Point{6, 4}, "(block, *)", 2);
    const Region whole = Region::from_shape(Point{4, 6});
    using Axes = std::vector<int>;
    expect_error(ErrorCode::mismatch, [&] { redistribute(a, b); });
    expect_error(ErrorCode::mismatch, [&] { redistribute(a, a, Axes{1, 0}); });
    for (const Axes& axes : {Axes{0, 0}, Axes{0, 2}, Axes{-1, 0}, Axes{0}, Axes{0, 1, 2}})
        expect_error(ErrorCode::invalid_argument, [&] { redistribute(a, b, axes); });
    expect_error(ErrorCode::mismatch,
                 [&] { redistribute(a, BlockCyclic(Point{4, 6}, "(block, *)", 3)); });
    expect_error(ErrorCode::mismatch,
                 [&] { redistribute(a, BlockCyclic(Point{24}, "(block)", 2)); });
    expect_error(ErrorCode::out_of_range,
                 [&] { redistribute(a, whole.shifted(Point{1, 0}), a, whole); });
    expect_error(ErrorCode::out_of_range,
                 [&] { redistribute(a, whole, a, whole.shifted(Point{0, -1})); });
    expect_error(ErrorCode::mismatch, [&] {
        redistribute(a, Region(Point{0, 0}, Point{2, 2}), a, Region(Point{0, 0}, Point{2, 3}));
    });
    expect_error(ErrorCode::mismatch,
                 [&] { redistribute(a, Region(Point{0}, Point{2}), a, whole); });
    expect_error(ErrorCode::invalid_argument, [&] { redistribute(Layout{}, a); });
}

TEST(Redistribution, AnEmptySectionMovesNothing) {
    const Layout a = BlockCyclic(Point{4, 6}, "(block, *)", 2);
    const Region none = Region::empty_region(2);
    const MotionPlan plan = redistribute(a, none, a, none);
    EXPECT_TRUE(plan.outgoing(0).empty());
    EXPECT_TRUE(plan.incoming(1).empty());
}

TEST(Redistribution, RefusesRanksThatAreNotThere) {
    const Layout a = BlockCyclic(Point{4, 6}, "(block, *)", 2);
    const MotionPlan plan = redistribute(a, a);
    expect_error(ErrorCode::out_of_range, [&] { plan.outgoing(2); });
    expect_error(ErrorCode::out_of_range, [&] { plan.incoming(-1); });
    expect_error(ErrorCode::out_of_range, [&] { plan.part(0, 2); });
}

}  // namespace
}  // namespace datamover
