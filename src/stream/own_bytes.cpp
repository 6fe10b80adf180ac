// SPDX-License-Identifier: BSD-3-Clause
// Allocation of private memory for a message that only one process reads.
#include "stream/own_bytes.hpp"

#include <sys/mman.h>

#include <algorithm>

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

}  // namespace datamover::stream
