// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a message: together they equal the message for any partition, and a short message is
// one.
#include <cstring>
#include <memory>
#include <vector>

#include "layout_oracle.hpp"
#include "stream/sender/outbox.hpp"

namespace datamover::stream {
namespace {

using plan::RelationSide;

/// Few elements are a long message.
constexpr std::int64_t elem_bytes = 1 << 16;
constexpr std::int64_t least_elems = Outgoing::least_bytes / elem_bytes;

std::vector<std::byte> numbered(std::int64_t bytes) {
    std::vector<std::byte> memory(static_cast<std::size_t>(bytes));
    for (std::size_t n = 0; n < memory.size(); n += sizeof n) std::memcpy(&memory[n], &n, sizeof n);
    return memory;
}

TEST(StreamPacking, PiecesMakeUpTheMessage) {
    std::size_t long_ones = 0;
    for (std::int64_t i = 0; i < layout_oracle::cases(10); ++i) {
        layout_oracle::Random random(layout_oracle::seed_of(i));
        Point shape = layout_oracle::random_shape(random, static_cast<int>(random.integer(1, 3)));
        shape[0] *= 20;
        const auto kind = [&] { return static_cast<layout_oracle::Kind>(random.integer(0, 2)); };
        const Layout a = layout_oracle::random_layout(random, kind(), shape, 2);
        const Layout b = layout_oracle::random_layout(random, kind(), shape, 2);
        const MotionPlan plan = redistribute(a, b);
        const auto order =
            random.integer(0, 1) == 0 ? ElementOrder::row_major : ElementOrder::column_major;
        const MemoryLayout memory = dense_memory(a, 0, elem_bytes, order);
        const PairPart part = plan.part(0, random.integer(0, 1));
        const RelationSide from{&plan.source(), &memory, elem_bytes, 0};
        const RelationSide to{&plan.destination(), nullptr, elem_bytes, 0};
        if (part.size() == 0) continue;
        const bool is_long = part.size() > least_elems;
        const Outgoing outgoing(1, part, from, to);
        ASSERT_EQ(outgoing.bytes(), part.size() * elem_bytes);
        long_ones += is_long;
        const std::vector<std::byte> source = numbered(memory.end_bytes);
        std::vector<std::byte> whole(static_cast<std::size_t>(part.size() * elem_bytes));
        plan::compile(part, from, to).gather(source.data(), whole.data());
        const auto message = std::make_shared<const Memory>(whole.size());
        const std::byte* const packed = message->bytes().data();
        std::vector<Outgoing::Piece> pieces;
        outgoing.bind({source.data(), {0, memory.end_bytes}}, message, pieces);
        ASSERT_EQ(pieces.size() > 1, is_long);
        std::size_t end = 0;
        for (const Outgoing::Piece& piece : pieces) {
            ASSERT_EQ(piece.begin, end);
            ASSERT_GT(piece.end, end);
            const auto most = is_long ? Outgoing::most_bytes : Outgoing::least_bytes;
            ASSERT_LE(piece.end - end, static_cast<std::size_t>(most));
            piece.pack();
            ASSERT_EQ(std::memcmp(packed + end, &whole[end], piece.end - end), 0);
            end = piece.end;
        }
        ASSERT_EQ(end, whole.size());
        ASSERT_EQ(std::memcmp(packed, whole.data(), end), 0);  // pieces leave others alone
    }
    EXPECT_GT(long_ones, 1u);
}

}  // namespace
}  // namespace datamover::stream
