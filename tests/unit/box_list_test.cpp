// SPDX-License-Identifier: BSD-3-Clause
// Box lists: boxes of many blocks are planned, ordered, compiled and copied as by brute force over
// all elements, for any memory layout.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "layout_oracle.hpp"
#include "plan/part_builder.hpp"
#include "plan/part_chunks.hpp"

namespace datamover {
namespace {

using layout_oracle::cases;
using layout_oracle::Random;
using layout_oracle::seed_of;
using plan::RelationSide;
using Addresses = std::vector<std::int64_t>;

struct Pairs {
    Addresses source, destination;
    bool operator==(const Pairs&) const = default;
};

Pairs pairs_of(const AddressRelation& relation) {
    Pairs pairs;
    relation.to_pairs(pairs.source, pairs.destination);
    return pairs;
}

/// Blocks in random order of dimensions, some backwards, some with gaps; elements stay apart.
MemoryLayout random_memory(Random& random, const Layout& layout, std::int64_t rank,
                           std::int64_t elem_bytes, std::int64_t ghosts) {
    MemoryLayout memory;
    std::int64_t end = 0;
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const Point extents = layout.block_extents(block);
        BlockMemory m{block, end, Point::filled(extents.dims(), 0), Region::from_shape(extents)};
        if (!m.valid.empty()) m.valid = m.valid.grown(Point::filled(extents.dims(), ghosts));
        std::vector<int> order(static_cast<std::size_t>(extents.dims()));
        std::iota(order.begin(), order.end(), 0);
        if (random.chance(60))
            std::swap(order.front(),
                      order[static_cast<std::size_t>(random.integer(0, extents.dims() - 1))]);
        std::int64_t stride = elem_bytes + (random.chance(20) ? random.integer(1, 9) : 0);
        for (const int d : order) {
            const std::int64_t extent = m.valid.extent(d);
            const bool backwards = random.chance(30);
            m.strides_bytes[d] = backwards ? -stride : stride;
            if (extent > 0)
                m.offset_bytes += stride * (backwards ? m.valid.hi()[d] - 1 : -m.valid.lo()[d]);
            stride *= extent + (random.chance(20) ? 1 : 0);
        }
        end += stride;
        memory.blocks.push_back(m);
    }
    memory.end_bytes = end;
    return memory;
}

std::int64_t address(const MemoryLayout& memory, std::int64_t block, const Point& local) {
    const BlockMemory* m = memory.find(block);
    std::int64_t at = m->offset_bytes;
    for (int d = 0; d < local.dims(); ++d) at += local[d] * m->strides_bytes[d];
    return at;
}

/// The sections between two ranks in the order of the message, from one plan per term.
std::vector<SectionCopy> sections_in_order(const MotionPlan& plan, std::int64_t source_rank,
                                           std::int64_t destination_rank) {
    std::vector<SectionCopy> all;
    for (std::int64_t i = 0; i < plan.size(); ++i) {
        MotionPlan alone(plan.source(), plan.destination());
        alone.add(plan[i]);
        std::vector<SectionCopy> sections;
        alone.for_each_section([&](const SectionCopy& s) {
            if (plan.source().owner(s.source_block) == source_rank &&
                plan.destination().owner(s.destination_block) == destination_rank)
                sections.push_back(s);
        });
        std::stable_sort(sections.begin(), sections.end(),
                         [](const SectionCopy& a, const SectionCopy& b) {
                             return std::tie(a.source_block, a.destination_block) <
                                    std::tie(b.source_block, b.destination_block);
                         });
        all.insert(all.end(), sections.begin(), sections.end());
    }
    return all;
}

/// Element by element, the destination's last dimension fastest.
Pairs expected_pairs(const MotionPlan& plan, std::int64_t source_rank,
                     std::int64_t destination_rank, const MemoryLayout& from,
                     const MemoryLayout& to) {
    Pairs pairs;
    const FloorPlan &a = *plan.source().floor_plan(), &b = *plan.destination().floor_plan();
    for (const SectionCopy& s : sections_in_order(plan, source_rank, destination_rank)) {
        s.destination_region.for_each([&](const Point& p) {
            Point q = s.source_region.lo();
            for (int k = 0; k < p.dims(); ++k)
                q[s.axes.empty() ? k : s.axes[static_cast<std::size_t>(k)]] +=
                    p[k] - s.destination_region.lo()[k];
            pairs.source.push_back(
                address(from, s.source_block, q - a.region(s.source_block).lo()));
            pairs.destination.push_back(
                address(to, s.destination_block, p - b.region(s.destination_block).lo()));
        });
    }
    return pairs;
}

std::vector<int> random_axes(Random& random, int dims) {
    std::vector<int> axes(static_cast<std::size_t>(dims));
    std::iota(axes.begin(), axes.end(), 0);
    for (int i = dims - 1; i > 0; --i)
        std::swap(axes[static_cast<std::size_t>(i)],
                  axes[static_cast<std::size_t>(random.integer(0, i))]);
    return axes;
}

/// Copies between random blocks of a plan's layouts, ghosts of up to `ghosts` included; some empty.
void add_copies(Random& random, MotionPlan& plan, std::int64_t ghosts) {
    const FloorPlan &a = *plan.source().floor_plan(), &b = *plan.destination().floor_plan();
    for (std::int64_t n = random.integer(1, 12); n > 0; --n) {
        const std::int64_t from = random.integer(0, a.num_blocks() - 1);
        const std::int64_t to = random.integer(0, b.num_blocks() - 1);
        if (a.region(from).empty() || b.region(to).empty()) continue;
        const Region source = a.region(from).grown(Point::filled(a.dims(), ghosts));
        const Region destination = b.region(to).grown(Point::filled(a.dims(), ghosts));
        const auto axes = random.chance(50) ? random_axes(random, a.dims()) : std::vector<int>{};
        Point lo = source.lo(), to_lo = lo, extent = lo, to_extent = lo;
        for (int k = 0; k < a.dims(); ++k) {
            const int d = axes.empty() ? k : axes[static_cast<std::size_t>(k)];
            const std::int64_t most = std::min(source.extent(d), destination.extent(k));
            extent[d] = to_extent[k] = random.chance(5) ? 0 : random.integer(1, most);
            lo[d] = source.lo()[d] + random.integer(0, source.extent(d) - extent[d]);
            to_lo[k] =
                destination.lo()[k] + random.integer(0, destination.extent(k) - to_extent[k]);
        }
        plan.add_section(from, Region(lo, lo + extent), to, Region(to_lo, to_lo + to_extent), axes);
    }
}

MotionPlan random_plan(Random& random, std::int64_t nprocs, std::int64_t ghosts) {
    const int dims = static_cast<int>(random.integer(1, 4));
    const Point shape = random.point(dims, 1, dims == 1 ? 40 : dims == 2 ? 12 : 6);
    const Layout a = layout_oracle::random_floor_plan(random, shape, nprocs);
    const bool one_layout = random.chance(60);
    const Layout b = one_layout ? a : layout_oracle::random_floor_plan(random, shape, nprocs);
    MotionPlan plan(a, b);
    for (std::int64_t n = random.integer(1, 3); n > 0; --n) {
        if (one_layout && random.chance(50)) {
            HaloExchange halo;
            halo.lower = random.point(dims, 0, ghosts);
            halo.upper = random.point(dims, 0, ghosts);
            halo.domain = Region::from_shape(shape);
            for (int d = 0; d < dims; ++d) halo.periodic.push_back(random.chance(50));
            halo.corners = random.chance(60);
            halo.reversed = random.chance(30);
            plan.add(halo);
        } else if (random.chance(40)) {
            plan.add(Redistribution{Region::from_shape(shape), Region::from_shape(shape), {}});
        } else {
            add_copies(random, plan, ghosts);
        }
    }
    return plan;
}

PairPart from_rank(const std::vector<PeerPart>& parts, std::int64_t rank) {
    for (const PeerPart& p : parts)
        if (p.rank == rank) return p.part;
    return {};
}

constexpr std::int64_t ghosts = 3;

TEST(BoxLists, CompileToTheAddressesOfBruteForceFromEitherSide) {
    for (std::int64_t i = 0; i < cases(250); ++i) {
        Random random(seed_of(i));
        const std::int64_t nprocs = random.integer(1, 3);
        const MotionPlan plan = random_plan(random, nprocs, ghosts);
        const std::int64_t elem = random.integer(1, 64);
        const std::int64_t a = random.integer(0, nprocs - 1), b = random.integer(0, nprocs - 1);
        const MemoryLayout from = random_memory(random, plan.source(), a, elem, ghosts);
        const MemoryLayout to = random_memory(random, plan.destination(), b, elem, ghosts);
        const RelationSide source{&plan.source(), &from, elem, a};
        const RelationSide destination{&plan.destination(), &to, elem, b};
        const RelationSide message{nullptr, nullptr, elem, 0};
        const Pairs expected = expected_pairs(plan, a, b, from, to);
        Addresses places(expected.source.size());
        for (std::size_t k = 0; k < places.size(); ++k)
            places[k] = static_cast<std::int64_t>(k) * elem;

        const PairPart sent = from_rank(plan.outgoing(a), b);
        const PairPart received = from_rank(plan.incoming(b), a);
        ASSERT_EQ(sent.size(), static_cast<std::int64_t>(places.size())) << "case " << i;
        ASSERT_EQ(pairs_of(plan::compile(received, source, destination)), expected) << "case " << i;
        ASSERT_EQ(pairs_of(plan::compile(sent, source, message)), (Pairs{expected.source, places}))
            << "case " << i;
        ASSERT_EQ(pairs_of(plan::compile(received, message, destination)),
                  (Pairs{places, expected.destination}))
            << "case " << i;
    }
}

TEST(BoxLists, KernelsMoveWhatTheirRelationSays) {
    for (std::int64_t i = 0; i < cases(200); ++i) {
        Random random(seed_of(i));
        const MotionPlan plan = random_plan(random, 1, ghosts);
        const std::int64_t elem = random.integer(1, 64);
        const MemoryLayout from = random_memory(random, plan.source(), 0, elem, ghosts);
        const MemoryLayout to = random_memory(random, plan.destination(), 0, elem, ghosts);
        const AddressRelation relation =
            plan::compile(from_rank(plan.incoming(0), 0), {&plan.source(), &from, elem, 0},
                          {&plan.destination(), &to, elem, 0});
        const Pairs pairs = pairs_of(relation);
        const auto bytes = [](const MemoryLayout& memory) {
            return static_cast<std::size_t>(memory.end_bytes);
        };
        std::vector<unsigned char> source(bytes(from)),
            packed(pairs.source.size() * static_cast<std::size_t>(elem));
        for (unsigned char& c : source) c = static_cast<unsigned char>(random.integer(0, 255));
        std::vector<unsigned char> moved(bytes(to), 0xEE), unpacked = moved;
        relation.kernel()(source.data(), moved.data());
        relation.source_half().kernel()(source.data(), packed.data());
        relation.destination_half().kernel()(packed.data(), unpacked.data());
        // An element with several senders may have come from any of them.
        std::map<std::int64_t, std::set<std::string>> allowed;
        const auto element = [&](const std::vector<unsigned char>& data, std::int64_t at) {
            return std::string(data.begin() + at, data.begin() + at + elem);
        };
        for (std::size_t k = 0; k < pairs.source.size(); ++k)
            allowed[pairs.destination[k]].insert(element(source, pairs.source[k]));
        std::vector<bool> written(moved.size(), false);
        for (const auto& [at, values] : allowed) {
            ASSERT_EQ(values.count(element(moved, at)), 1u) << "case " << i;
            ASSERT_EQ(values.count(element(unpacked, at)), 1u) << "case " << i;
            std::fill_n(written.begin() + at, elem, true);
        }
        for (std::size_t k = 0; k < moved.size(); ++k)
            ASSERT_TRUE(written[k] || (moved[k] == 0xEE && unpacked[k] == 0xEE)) << "case " << i;
    }
}

TEST(BoxLists, ChunksAndOtherOrdersHoldTheSamePairs) {
    for (std::int64_t i = 0; i < cases(150); ++i) {
        Random random(seed_of(i));
        const MotionPlan plan = random_plan(random, 2, ghosts);
        const MemoryLayout from = random_memory(random, plan.source(), 1, 8, ghosts);
        const MemoryLayout to = random_memory(random, plan.destination(), 0, 8, ghosts);
        const RelationSide source{&plan.source(), &from, 8, 1};
        const RelationSide destination{&plan.destination(), &to, 8, 0};
        const PairPart part = from_rank(plan.incoming(0), 1);
        const Pairs all = pairs_of(plan::compile(part, source, destination));
        const std::int64_t most = random.integer(1, 30);
        const plan::ChunkedPart chunked = plan::cut_into_chunks(
            part, most, plan::MessageOrder::row_major, plan::ChunkForm::ranges);
        std::multiset<std::pair<std::int64_t, std::int64_t>> expected, cut, ordered;
        for (std::size_t k = 0; k < all.source.size(); ++k)
            expected.insert({all.source[k], all.destination[k]});
        for (const plan::PartChunk& chunk : chunked.chunks) {
            const Pairs some =
                pairs_of(plan::compile(chunked.shapes[chunk.shape], source, destination));
            ASSERT_LE(static_cast<std::int64_t>(some.source.size()), most);
            const std::int64_t s = plan::shift_bytes(chunked, chunk, Side::source, from);
            const std::int64_t d = plan::shift_bytes(chunked, chunk, Side::destination, to);
            for (std::size_t k = 0; k < some.source.size(); ++k)
                cut.insert({some.source[k] + s, some.destination[k] + d});
        }
        EXPECT_EQ(cut, expected) << "case " << i;
        const Pairs other = pairs_of(
            plan::compile(plan::ordered_along(part, from, Side::source), source, destination));
        for (std::size_t k = 0; k < other.source.size(); ++k)
            ordered.insert({other.source[k], other.destination[k]});
        EXPECT_EQ(ordered, expected) << "case " << i;
    }
}

TEST(BoxLists, ManyEqualBoxesTakeAFewWordsEach) {
    const FloorPlan tiles =
        FloorPlan::tiles(Region::from_shape(Point{96, 96, 96}), Point{8, 8, 8}, 1, "block");
    const Layout layout(tiles);
    const Point one = Point::filled(3, 1);
    const PairPart part = halo(tiles, one, one).part(0, 0);
    const auto& list = std::get<BoxList>(part.pieces.front().content);
    EXPECT_EQ(part.pieces.size(), 1u);
    EXPECT_EQ(list.shapes.size(), 26u);
    const MemoryLayout memory = dense_memory(layout, 0, 8, ElementOrder::row_major, one, one);
    const RelationSide side{&layout, &memory, 8, 0};
    const auto sections = static_cast<std::int64_t>(list.boxes.size());
    EXPECT_LE(plan::compile(part, side, side).nbytes(), 24 * sections + 4096);
}

/// Pieces are numbered: the number of a box is where it begins, that of another its source region.
TEST(BoxLists, PartsAreInOrderOfTermAndBlocksAndKeepTheOrderOfEquals) {
    struct Added {
        std::int64_t peer, term, source_block, destination_block, number;
        auto key() const { return std::tuple(peer, term, source_block, destination_block); }
    };
    for (std::int64_t i = 0; i < cases(40); ++i) {
        Random random(seed_of(i));
        const std::int64_t most = random.chance(50) ? 40 : std::int64_t{1} << 40;
        const std::int64_t peers = random.integer(1, 5);
        const int percent_boxes = random.chance(50) ? 100 : 90;
        plan::PartBuilder builder;
        std::vector<Added> added;
        std::int64_t term = 0;
        for (std::int64_t number = 0, n = random.integer(0, 9000); number < n; ++number) {
            if (random.chance(1)) term += random.integer(0, 2);
            const Added one{random.integer(0, peers - 1), term, random.integer(0, most),
                            random.integer(0, most), number};
            const BlockPair blocks{one.source_block, one.destination_block};
            BoxShape box;
            box.dims = 1;
            box.axis[0].source = number;
            box.axis[0].length = random.chance(5) ? 0 : 1;
            const bool is_box = random.chance(percent_boxes);
            if (is_box)
                builder.add(one.peer, term, blocks, box);
            else
                builder.add(one.peer, term, blocks,
                            Piece{ReshapePiece{blocks, Region({number}, {number + 1}), {}}});
            if (!is_box || box.axis[0].length == 1) added.push_back(one);
        }
        std::ranges::stable_sort(added, {}, &Added::key);
        auto expected = added.begin();
        const auto expect_next = [&](std::int64_t peer, const auto& blocks, std::int64_t number) {
            ASSERT_NE(expected, added.end());
            ASSERT_EQ(peer, expected->peer) << "case " << i;
            ASSERT_EQ(blocks.source_block, expected->source_block) << "case " << i;
            ASSERT_EQ(blocks.destination_block, expected->destination_block) << "case " << i;
            ASSERT_EQ(number, expected->number) << "case " << i;
            ++expected;
        };
        for (const PeerPart& part : builder.build())
            for (const Piece& piece : part.part.pieces) {
                if (const auto* list = std::get_if<BoxList>(&piece.content)) {
                    EXPECT_EQ(list->elems, static_cast<std::int64_t>(list->boxes.size()));
                    for (const PlacedBox& box : list->boxes)
                        expect_next(part.rank, box, list->shape_of(box).axis[0].source);
                } else {
                    const auto& other = std::get<ReshapePiece>(piece.content);
                    expect_next(part.rank, other, other.source.lo()[0]);
                }
            }
        EXPECT_EQ(expected, added.end());
    }
}

TEST(BoxLists, AnEditedPlanForgetsWhatItKnewOfItsTerms) {
    const FloorPlan tiles = FloorPlan::uniform(Region(Point{0}, Point{12}), Point{3}, 3);
    MotionPlan plan{Layout(tiles), Layout(tiles)};
    plan.add_section(0, Region(Point{0}, Point{2}), 1, Region(Point{4}, Point{6}));
    EXPECT_EQ(plan.part(0, 1).size(), 2);
    const MotionPlan before = plan;
    plan.add_section(0, Region(Point{0}, Point{3}), 2, Region(Point{8}, Point{11}));
    EXPECT_EQ(plan.part(0, 2).size(), 3);
    EXPECT_EQ(before.part(0, 2).size(), 0);
    EXPECT_EQ(before.merged(plan).part(0, 1).size(), 4);
    EXPECT_EQ(plan.reversed().part(2, 0).size(), 3);
    plan.erase(0);
    EXPECT_EQ(plan.part(0, 1).size(), 0);
    plan.replace(0, SectionCopy{1, Region(Point{4}, Point{5}), 2, Region(Point{8}, Point{9}), {}});
    EXPECT_EQ(plan.part(0, 2).size(), 0);
    EXPECT_EQ(plan.incoming(2).front().rank, 1);
}

TEST(FloorPlans, AreDisjointWhereNoTwoRegionsMeet) {
    for (std::int64_t i = 0; i < cases(300); ++i) {
        Random random(seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 3));
        std::vector<Region> regions;
        for (std::int64_t n = random.integer(1, random.chance(50) ? 4 : 30); n > 0; --n)
            regions.push_back(random.region(dims, 0, dims == 1 ? 60 : 12));
        bool disjoint = true;
        for (std::size_t a = 0; a < regions.size(); ++a)
            for (std::size_t b = 0; b < a; ++b)
                disjoint = disjoint && !regions[a].intersects(regions[b]);
        const FloorPlan plan(regions, Map(regions.size(), 0));
        ASSERT_EQ(plan.disjoint(), disjoint) << "case " << i;
    }
    const Region space = Region::from_shape(Point{40, 40});
    EXPECT_TRUE(FloorPlan::tiles(space, Point{3, 7}, 4).disjoint());
}

}  // namespace
}  // namespace datamover
