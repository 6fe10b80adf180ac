// SPDX-License-Identifier: BSD-3-Clause
// Return of unused memory to a pool.
#include "stream/memory_pool.hpp"

#include <unistd.h>

#include <new>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::stream {

std::shared_ptr<std::byte> MemoryPool::take(std::size_t bytes) {
    OwnBytes memory = kept_->take(bytes);
    try {
        const auto give_back = [bytes, kept = std::weak_ptr(kept_)](std::byte* at) noexcept {
            OwnBytes back(at);
            if (const auto pool = kept.lock()) pool->give_back(std::move(back), bytes);
        };
        return {memory.release(), give_back};
    } catch (const std::bad_alloc&) {  // the memory was given back
        throw Error(ErrorCode::no_memory, "out of memory while receiving a step");
    }
}

MemoryPool::Kept::Kept(std::size_t most) : most_unused(most), process(::getpid()) {}

OwnBytes MemoryPool::Kept::take(std::size_t bytes) {
    {
        const std::lock_guard guard(lock);
        const auto found = unused.find(bytes);
        if (found != unused.end() && !found->second.empty()) {
            OwnBytes memory = std::move(found->second.back());
            found->second.pop_back();
            return memory;
        }
    }
    return own_bytes(bytes);
}

void MemoryPool::Kept::give_back(OwnBytes memory, std::size_t bytes) noexcept {
    // In a forked child the lock may be a thread's that is not there, for ever.
    if (::getpid() != process) return;
    try {
        const std::lock_guard guard(lock);
        auto& same = unused[bytes];
        if (same.size() < most_unused) same.push_back(std::move(memory));
    } catch (const std::bad_alloc&) {  // it goes back to the system
    }
}

}  // namespace datamover::stream
