// SPDX-License-Identifier: BSD-3-Clause
// Private memory for a message that only one process reads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace datamover::stream {

struct FreeBytes {
    void operator()(std::byte* bytes) const { std::free(bytes); }
};
using OwnBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// So many bytes, in large pages where there are many and the system has such: loops over them then
/// miss fewer addresses. Throws no_memory.
OwnBytes own_bytes(std::size_t bytes);

}  // namespace datamover::stream
