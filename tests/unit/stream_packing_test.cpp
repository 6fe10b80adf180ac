// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a long message: together they equal the message for any partition, and short messages
// are not divided.
#include <cstring>
#include <vector>

#include "layout_oracle.hpp"
#include "stream/sender/outbox.hpp"

namespace datamover::stream {
namespace {

using plan::RelationSide;

/// Few elements are a long message.
constexpr std::int64_t elem_bytes = 1 << 16;
constexpr std::int64_t least_elems = PackingPieces::least_bytes / elem_bytes;

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
        const PackingPieces pieces(part, from, to);
        ASSERT_EQ(pieces.empty(), part.size() <= least_elems);
        if (pieces.empty()) continue;
        ++long_ones;
        const std::vector<std::byte> source = numbered(memory.end_bytes);
        std::vector<std::byte> whole(static_cast<std::size_t>(part.size() * elem_bytes));
        plan::compile(part, from, to).gather(source.data(), whole.data());
        std::vector<std::byte> message(whole.size());
        std::size_t end = 0;
        const SourceMemory from_there{source.data(), {0, memory.end_bytes}};
        for (const auto& piece : pieces.bind(from_there, message.data())) {
            ASSERT_GT(piece.end, end);
            ASSERT_LE(piece.end - end, std::size_t{PackingPieces::most_bytes});
            piece.pack();
            ASSERT_EQ(std::memcmp(&message[end], &whole[end], piece.end - end), 0);
            end = piece.end;
        }
        ASSERT_EQ(end, whole.size());
        ASSERT_EQ(std::memcmp(message.data(), whole.data(), end), 0);  // pieces leave others alone
    }
    EXPECT_GT(long_ones, 1u);
}

}  // namespace
}  // namespace datamover::stream
