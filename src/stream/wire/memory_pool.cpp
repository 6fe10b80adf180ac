// SPDX-License-Identifier: BSD-3-Clause
// Allocation of memory for messages, and its return to a pool.
#include "stream/wire/memory_pool.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::stream {

namespace {

constexpr std::size_t large_page_bytes = std::size_t{2} << 20;
/// With less, what a last page has too much would be a large part of it.
constexpr std::size_t least_bytes = 2 * large_page_bytes;

std::byte* large_memory(std::size_t bytes) {
    if (bytes > SIZE_MAX - large_page_bytes) return nullptr;
    const std::size_t pages = (bytes + large_page_bytes - 1) / large_page_bytes;
    void* const memory = std::aligned_alloc(large_page_bytes, pages * large_page_bytes);
    // Where the system has none, small pages do.
    if (memory != nullptr) ::madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<std::byte*>(memory);
}

}  // namespace

OwnBytes own_bytes(std::size_t bytes) {
    OwnBytes memory(bytes < least_bytes
                        ? static_cast<std::byte*>(std::malloc(std::max<std::size_t>(bytes, 1)))
                        : large_memory(bytes));
    if (memory == nullptr)
        throw make_error(ErrorCode::no_memory, "out of memory for a message of ", bytes, " bytes");
    return memory;
}

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
