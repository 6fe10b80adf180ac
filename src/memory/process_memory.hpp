// SPDX-License-Identifier: BSD-3-Clause
// Access to the memory of another process of the node (process_vm_readv and process_vm_writev).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "datamover/advanced/address_relation.hpp"

namespace datamover::memory {

/// Copies `bytes` bytes from an address of another process; false where that is not permitted (or
/// not possible on this system).
bool read_from_process(std::int64_t pid, std::uint64_t address, void* to, std::size_t bytes);

/// A copy between pieces of memory here and pieces in another process, as lists for the operating
/// system, cut to its limits. Made once, run any number of times.
class ProcessCopy {
public:
    enum class Direction { read, write };

    ProcessCopy() = default;
    /// Both sides must have equally many bytes; addresses `there` are the other process's.
    ProcessCopy(std::int64_t pid, Direction direction, std::vector<MemoryPiece> here,
                std::vector<MemoryPiece> there);
    /// Throws io when the system refuses or stops short.
    void run() const;
    /// On the side that has more of them.
    std::size_t pieces() const { return std::max(here_.size(), there_.size()); }

private:
    struct Batch {
        std::size_t first_here = 0, count_here = 0;
        std::size_t first_there = 0, count_there = 0;
        std::size_t bytes = 0;
    };

    pid_t pid_ = 0;
    Direction direction_ = Direction::read;
    std::vector<iovec> here_, there_;
    std::vector<Batch> batches_;
};

}  // namespace datamover::memory
