// SPDX-License-Identifier: BSD-3-Clause
// Access to the memory of another process of the node (process_vm_readv and process_vm_writev).
#include "process_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "geometry/make_error.hpp"

namespace datamover::memory {
namespace {

/// Linux takes as many pieces at a time, and stops short of 2^31 bytes.
constexpr std::size_t most_pieces = 1024;
constexpr std::size_t most_bytes = std::size_t{1} << 30;

/// Moves the first bytes of a list of pieces to a batch, where they may make its last one longer.
void take(std::span<MemoryPiece>& from, std::size_t bytes, std::vector<iovec>& list,
          std::size_t& count) {
    MemoryPiece& piece = from.front();
    if (count > 0 && static_cast<char*>(list.back().iov_base) + list.back().iov_len == piece.data) {
        list.back().iov_len += bytes;
    } else {
        list.push_back({piece.data, bytes});
        ++count;
    }
    piece = {static_cast<char*>(piece.data) + bytes, piece.bytes - bytes};
    if (piece.bytes == 0) from = from.subspan(1);
}

}  // namespace

bool read_from_process(std::int64_t pid, std::uint64_t address, void* to, std::size_t bytes) {
    const iovec here{to, bytes};
    const iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
    return process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0) ==
           static_cast<ssize_t>(bytes);
}

ProcessCopy::ProcessCopy(std::int64_t pid, Direction direction, std::vector<MemoryPiece> here,
                         std::vector<MemoryPiece> there)
    : pid_(static_cast<pid_t>(pid)), direction_(direction) {
    std::span<MemoryPiece> mine(here), theirs(there);
    while (!mine.empty()) {
        Batch batch{here_.size(), 0, there_.size(), 0, 0};
        while (!mine.empty() && batch.count_here < most_pieces && batch.count_there < most_pieces &&
               batch.bytes < most_bytes) {
            const std::size_t bytes =
                std::min({mine.front().bytes, theirs.front().bytes, most_bytes - batch.bytes});
            take(mine, bytes, here_, batch.count_here);
            take(theirs, bytes, there_, batch.count_there);
            batch.bytes += bytes;
        }
        batches_.push_back(batch);
    }
}

void ProcessCopy::run() const {
    for (const Batch& b : batches_) {
        const auto copy = direction_ == Direction::read ? process_vm_readv : process_vm_writev;
        const ssize_t copied = copy(pid_, here_.data() + b.first_here, b.count_here,
                                    there_.data() + b.first_there, b.count_there, 0);
        if (copied == static_cast<ssize_t>(b.bytes)) continue;
        throw make_error(ErrorCode::io, "copying ", b.bytes,
                         direction_ == Direction::read ? " bytes from" : " bytes to",
                         " the memory of process id ", pid_,
                         copied < 0 ? std::string(" failed: ") + std::strerror(errno)
                                    : " stopped after " + std::to_string(copied));
    }
}

}  // namespace datamover::memory
