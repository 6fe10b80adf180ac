// SPDX-License-Identifier: BSD-3-Clause
// Sending of a chunk in as many parts as the system accepts.
#include "stream/chunk_on_its_way.hpp"

#include <unistd.h>

#include <algorithm>

namespace datamover::stream {

void ChunkOnItsWay::begin(const ChunkHeader& header, std::span<const std::byte> body, int file) {
    close_file();
    words_ = header.write();
    header_ = words_;
    body_ = body;
    file_ = file;
}

bool ChunkOnItsWay::send_more(const Connection& connection) {
    const std::size_t count = file_ >= 0 ? connection.send_now_with_file(header_, file_)
                                         : connection.send_now(header_, body_);
    if (count != 0) close_file();
    const std::size_t of_header = std::min(count, header_.size());
    header_ = header_.subspan(of_header);
    body_ = body_.subspan(count - of_header);
    return count != 0;
}

void ChunkOnItsWay::close_file() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
}

}  // namespace datamover::stream
