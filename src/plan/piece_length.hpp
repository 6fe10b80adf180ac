// SPDX-License-Identifier: BSD-3-Clause
// Piece length of a message that is packed and unpacked at the same time.
#pragma once

#include <cstdint>

namespace datamover::plan {

/// Of a message of `message_bytes`: `piece_bytes`, and more for messages so long that this would
/// make more than 1,024 of them, since each piece costs time and memory while a mover is bound.
/// Never more than `most_bytes`. Both sides of a pair know the numbers, and so cut alike.
std::int64_t pipelined_piece_bytes(std::int64_t message_bytes, std::int64_t most_bytes,
                                   std::int64_t piece_bytes = 64 << 10);

}  // namespace datamover::plan
