// SPDX-License-Identifier: BSD-3-Clause
// Chunks of a part: they contain each element once, are small enough, and are the same on both
// sides.
#include "plan/part_chunks.hpp"

#include <algorithm>
#include <utility>

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using plan::ChunkForm;
using plan::MessageOrder;
using plan::RelationSide;
using Addresses = std::vector<std::int64_t>;

const RelationSide message{nullptr, nullptr, 8, 0};

/// One side's addresses, chunk by chunk.
struct OneSide {
    const Layout& layout;
    const MemoryLayout& memory;
    Side is;

    Addresses whole(const PairPart& part, MessageOrder order) const {
        const RelationSide side{&layout, &memory, 8, 0};
        const AddressRelation r = is == Side::source ? plan::compile(part, side, message, order)
                                                     : plan::compile(part, message, side, order);
        Addresses from, to;
        r.to_pairs(from, to);
        return is == Side::source ? from : to;
    }

    std::vector<Addresses> chunks(const plan::ChunkedPart& cut, MessageOrder order) const {
        std::vector<Addresses> all;
        for (const plan::PartChunk& c : cut.chunks) {
            all.push_back(whole(cut.shapes[c.shape], order));
            const std::int64_t shift = plan::shift_bytes(cut, c, is, memory);
            for (std::int64_t& address : all.back()) address += shift;
        }
        return all;
    }
};

Addresses joined(const std::vector<Addresses>& chunks) {
    Addresses all;
    for (const Addresses& c : chunks) all.insert(all.end(), c.begin(), c.end());
    return all;
}

std::vector<std::pair<std::int64_t, std::int64_t>> sorted_pairs(const Addresses& from,
                                                                const Addresses& to) {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t i = 0; i < from.size(); ++i) pairs.emplace_back(from[i], to[i]);
    std::sort(pairs.begin(), pairs.end());
    return pairs;
}

PairPart incoming(const MotionPlan& plan, std::int64_t source, std::int64_t destination) {
    for (const PeerPart& p : plan.incoming(destination))
        if (p.rank == source) return p.part;
    return {};
}

void expect_chunks_are_the_part(const MotionPlan& plan, std::int64_t source_rank,
                                std::int64_t destination_rank, std::int64_t most,
                                MessageOrder order, ChunkForm form) {
    const MemoryLayout from = dense_memory(plan.source(), source_rank, 8);
    const MemoryLayout to =
        dense_memory(plan.destination(), destination_rank, 8, ElementOrder::column_major);
    const OneSide source{plan.source(), from, Side::source},
        destination{plan.destination(), to, Side::destination};
    const PairPart sent = plan.part(source_rank, destination_rank);
    const PairPart received = incoming(plan, source_rank, destination_rank);
    const auto sent_cut = plan::cut_into_chunks(sent, most, order, form);
    const auto received_cut = plan::cut_into_chunks(received, most, order, form);
    const auto sent_chunks = source.chunks(sent_cut, order);
    const auto received_chunks = destination.chunks(received_cut, order);
    ASSERT_EQ(sent_chunks.size(), received_chunks.size());
    for (std::size_t i = 0; i < sent_chunks.size(); ++i) {
        ASSERT_EQ(sent_chunks[i].size(), received_chunks[i].size());
        ASSERT_LE(static_cast<std::int64_t>(sent_chunks[i].size()), most);
        ASSERT_EQ(static_cast<std::int64_t>(sent_chunks[i].size()),
                  sent_cut.shape_elems[sent_cut.chunks[i].shape]);
        ASSERT_FALSE(sent_chunks[i].empty());
    }
    const Addresses all_sent = joined(sent_chunks), all_received = joined(received_chunks);
    const Addresses whole_sent = source.whole(sent, order);
    const Addresses whole_received = destination.whole(received, order);
    if (form == ChunkForm::ranges) {
        ASSERT_EQ(all_sent, whole_sent);
        ASSERT_EQ(all_received, whole_received);
    }
    ASSERT_EQ(sorted_pairs(all_sent, all_received), sorted_pairs(whole_sent, whole_received));
}

TEST(PartChunks, AnyPartOfAnyPlan) {
    for (std::int64_t i = 0; i < layout_oracle::cases(600); ++i) {
        SCOPED_TRACE(i);
        layout_oracle::Random random(layout_oracle::seed_of(i));
        const int dims = static_cast<int>(random.integer(1, 3));
        const Point shape = layout_oracle::random_shape(random, dims);
        std::vector<int> axes(static_cast<std::size_t>(dims));
        std::iota(axes.begin(), axes.end(), 0);
        if (random.chance(50)) std::reverse(axes.begin(), axes.end());
        Point permuted = shape;
        for (int d = 0; d < dims; ++d) permuted[d] = shape[axes[static_cast<std::size_t>(d)]];
        const std::int64_t nprocs = random.integer(1, 3);
        const auto kind = [&] { return static_cast<layout_oracle::Kind>(random.integer(0, 2)); };
        const Layout a = layout_oracle::random_layout(random, kind(), shape, nprocs);
        const Layout b = layout_oracle::random_layout(random, kind(), permuted, nprocs);
        const auto plan =
            redistribute(a, Region::from_shape(shape), b, Region::from_shape(permuted), axes);
        expect_chunks_are_the_part(
            plan, random.integer(0, nprocs - 1), random.integer(0, nprocs - 1),
            random.integer(1, 20),
            random.chance(50) ? MessageOrder::row_major : MessageOrder::column_major,
            random.chance(50) ? ChunkForm::ranges : ChunkForm::tiles);
        if (HasFatalFailure()) return;
    }
}

TEST(PartChunks, RangesThatHardlyRepeat) {
    for (std::int64_t i = 0; i < layout_oracle::cases(60); ++i) {
        SCOPED_TRACE(i);
        layout_oracle::Random random(layout_oracle::seed_of(i));
        const Point shape = layout_oracle::random_uneven_shape(random, 3);
        const std::int64_t nprocs = random.integer(2, 4);
        const auto kind = static_cast<layout_oracle::Kind>(random.integer(0, 1));
        Layout a = layout_oracle::random_layout(random, kind, shape, nprocs);
        Layout b = layout_oracle::random_uneven_ranges(random, shape, nprocs);
        if (random.chance(50)) std::swap(a, b);
        expect_chunks_are_the_part(
            redistribute(a, b), random.integer(0, nprocs - 1), random.integer(0, nprocs - 1),
            random.integer(1, 40),
            random.chance(50) ? MessageOrder::row_major : MessageOrder::column_major,
            random.chance(50) ? ChunkForm::ranges : ChunkForm::tiles);
        if (HasFatalFailure()) return;
    }
}

TEST(PartChunks, BoxesOfDifferentShapes) {
    for (std::int64_t i = 0; i < layout_oracle::cases(300); ++i) {
        SCOPED_TRACE(i);
        layout_oracle::Random random(layout_oracle::seed_of(i));
        // Two ways to multiply the same factors.
        Point from{1, 1, 1}, to{1, 1};
        for (int k = 0; k < 4; ++k) {
            const std::int64_t factor = random.integer(1, 4);
            from[static_cast<int>(random.integer(0, 2))] *= factor;
            to[static_cast<int>(random.integer(0, 1))] *= factor;
        }
        const Region source(Point{1, 0, 2}, Point{1, 0, 2} + from);
        const Region destination(Point{0, 3}, Point{0, 3} + to);
        const FloorPlan a({source.grown(Point{1, 1, 1})}, {0}, 1);
        const FloorPlan b({destination.grown(Point{1, 1})}, {0}, 1);
        MotionPlan plan{Layout(a), Layout(b)};
        plan.add_section(0, source, 0, destination);
        expect_chunks_are_the_part(plan, 0, 0, random.integer(1, 30), MessageOrder::row_major,
                                   random.chance(50) ? ChunkForm::ranges : ChunkForm::tiles);
        if (HasFatalFailure()) return;
    }
}

TEST(PartChunks, PeriodicPartsHaveFewShapes) {
    const auto layout = [](const std::string& words) {
        return Layout(BlockCyclic(Point{4096, 4096}, words, 2));
    };
    for (const auto& [from, to] :
         {std::pair{"(*, cyclic(3))", "(cyclic(7), *)"}, std::pair{"(*, block)", "(block, *)"},
          std::pair{"(cyclic, *)", "(*, block)"}, std::pair{"(*, cyclic(64))", "(cyclic(128), *)"}})
        for (const ChunkForm form : {ChunkForm::ranges, ChunkForm::tiles}) {
            const PairPart part = redistribute(layout(from), layout(to)).part(0, 1);
            const auto cut = plan::cut_into_chunks(part, 1 << 15, MessageOrder::column_major, form);
            EXPECT_GE(cut.chunks.size(), 128u) << from;
            EXPECT_LE(cut.chunks.size(), 160u) << from;
            EXPECT_LE(cut.shapes.size(), 4u) << from;
        }
}

}  // namespace
}  // namespace datamover
