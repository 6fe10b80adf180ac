// SPDX-License-Identifier: BSD-3-Clause
// Piece length of a message that is packed and unpacked at the same time.
#include "piece_length.hpp"

#include <algorithm>

namespace datamover::plan {

std::int64_t pipelined_piece_bytes(std::int64_t message_bytes, std::int64_t most_bytes,
                                   std::int64_t piece_bytes) {
    constexpr std::int64_t most_pieces = 1024;
    const std::int64_t all_bytes = piece_bytes * most_pieces;
    const std::int64_t longer = message_bytes / all_bytes + (message_bytes % all_bytes != 0);
    return std::min(
        std::max<std::int64_t>(1, std::min(longer, most_bytes / piece_bytes)) * piece_bytes,
        most_bytes);
}

}  // namespace datamover::plan
