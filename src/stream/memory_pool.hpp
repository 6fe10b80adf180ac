// SPDX-License-Identifier: BSD-3-Clause
// MemoryPool: reuses memory for received messages, because new pages cost more than the work on
// them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "stream/own_bytes.hpp"

namespace datamover::stream {

/// Memory that comes back when nobody has it any more; by any thread, also after the pool's end. In
/// a child that was forked meanwhile it goes to the system.
class MemoryPool {
public:
    /// Keeps at most so many of each size that nobody uses.
    explicit MemoryPool(std::size_t most_unused = SIZE_MAX)
        : kept_(std::make_shared<Kept>(most_unused)) {}

    /// Throws no_memory.
    std::shared_ptr<std::byte> take(std::size_t bytes);

private:
    struct Kept {
        explicit Kept(std::size_t most);
        OwnBytes take(std::size_t bytes);
        void give_back(OwnBytes memory, std::size_t bytes) noexcept;

        const std::size_t most_unused;
        const pid_t process;
        std::mutex lock;
        std::map<std::size_t, std::vector<OwnBytes>> unused;
    };

    std::shared_ptr<Kept> kept_;
};

}  // namespace datamover::stream
