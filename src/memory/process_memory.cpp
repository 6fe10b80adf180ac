// SPDX-License-Identifier: BSD-3-Clause
// Access to the memory of another process of the node (process_vm_readv and process_vm_writev).
#include "process_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "geometry/make_error.hpp"

namespace datamover::memory {
namespace {

/// Linux takes as many pieces at a time, and stops short of 2^31 bytes.
constexpr std::size_t most_pieces = 1024;
constexpr std::size_t most_bytes = std::size_t{1} << 30;

/// Gives a list of pieces away in portions.
class Portions {
public:
    explicit Portions(const std::vector<MemoryPiece>& pieces) : pieces_(pieces) {}

    std::size_t left() const { return piece_ < pieces_.size() ? pieces_[piece_].bytes - used_ : 0; }
    iovec take(std::size_t bytes) {
        iovec portion{static_cast<char*>(pieces_[piece_].data) + used_, bytes};
        used_ += bytes;
        if (used_ == pieces_[piece_].bytes) {
            ++piece_;
            used_ = 0;
        }
        return portion;
    }

private:
    const std::vector<MemoryPiece>& pieces_;
    std::size_t piece_ = 0, used_ = 0;
};

/// Appends a portion to a batch, or makes the batch's last one longer.
void append(std::vector<iovec>& list, std::size_t& count, const iovec& portion) {
    if (count > 0 &&
        static_cast<char*>(list.back().iov_base) + list.back().iov_len == portion.iov_base) {
        list.back().iov_len += portion.iov_len;
        return;
    }
    list.push_back(portion);
    ++count;
}

}  // namespace

bool read_from_process(std::int64_t pid, std::uint64_t address, void* to, std::size_t bytes) {
    const iovec here{to, bytes};
    const iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
    return process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0) ==
           static_cast<ssize_t>(bytes);
}

ProcessCopy::ProcessCopy(std::int64_t pid, Direction direction,
                         const std::vector<MemoryPiece>& here,
                         const std::vector<MemoryPiece>& there)
    : pid_(static_cast<pid_t>(pid)), direction_(direction) {
    Portions mine(here), theirs(there);
    while (mine.left() > 0) {
        Batch batch{here_.size(), 0, there_.size(), 0, 0};
        while (mine.left() > 0 && batch.count_here < most_pieces &&
               batch.count_there < most_pieces && batch.bytes < most_bytes) {
            const std::size_t bytes =
                std::min({mine.left(), theirs.left(), most_bytes - batch.bytes});
            append(here_, batch.count_here, mine.take(bytes));
            append(there_, batch.count_there, theirs.take(bytes));
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
