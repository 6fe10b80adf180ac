// SPDX-License-Identifier: BSD-3-Clause
// Private memory for messages, and a pool of it: new pages cost more than the work on them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace datamover::stream {

struct FreeBytes {
    void operator()(std::byte* bytes) const { std::free(bytes); }
};
using OwnBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// So many bytes, in large pages where there are many and the system has such: loops over them then
/// miss fewer addresses. Throws no_memory.
OwnBytes own_bytes(std::size_t bytes);

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
