// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a long message: few, and no longer than allowed.
#include "plan/part_chunks.hpp"

#include <gtest/gtest.h>

namespace datamover {
namespace {

using plan::pipelined_piece_bytes;

constexpr std::int64_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;

std::int64_t pieces(std::int64_t message_bytes) {
    const std::int64_t piece = pipelined_piece_bytes(message_bytes, mib);
    return (message_bytes + piece - 1) / piece;
}

TEST(PieceLength, SixtyFourKibibytesAsLongAsThereAreFew) {
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, mib, 64 * mib})
        EXPECT_EQ(pipelined_piece_bytes(bytes, mib), 64 * kib) << bytes;
    EXPECT_EQ(pipelined_piece_bytes(64 * mib + 1, mib), 128 * kib);
    EXPECT_EQ(pipelined_piece_bytes(300 * mib, mib), 320 * kib);
}

TEST(PieceLength, OfAGibibyteThereAreAThousand) {
    for (const std::int64_t bytes : {65 * mib, 200 * mib, 999 * mib, gib})
        EXPECT_LE(pieces(bytes), 1024) << bytes;
    // Longer ones go in the longest pieces there may be.
    EXPECT_EQ(pipelined_piece_bytes(gib + 1, mib), mib);
    EXPECT_EQ(pipelined_piece_bytes(64 * gib, mib), mib);
}

TEST(PieceLength, NeverMoreThanALimitLeaves) {
    EXPECT_EQ(pipelined_piece_bytes(gib, 100), 100);
    EXPECT_EQ(pipelined_piece_bytes(gib, 100 * kib), 64 * kib);
    EXPECT_EQ(pipelined_piece_bytes(gib, 200 * kib), 192 * kib);
    EXPECT_EQ(pipelined_piece_bytes(std::int64_t{1} << 62, mib), mib);
}

TEST(PieceLength, OtherLengthsAreStretchedAlike) {
    EXPECT_EQ(pipelined_piece_bytes(256 * mib, mib, 256 * kib), 256 * kib);
    EXPECT_EQ(pipelined_piece_bytes(256 * mib + 1, mib, 256 * kib), 512 * kib);
    EXPECT_EQ(pipelined_piece_bytes(gib, 100 * kib, 256 * kib), 100 * kib);
}

}  // namespace
}  // namespace datamover
