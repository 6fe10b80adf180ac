// SPDX-License-Identifier: BSD-3-Clause
// Copies with streaming stores, for data that another core reads next.
#pragma once

#include <cstddef>
#include <cstdint>

namespace datamover::memory {

/// Copies around the caches, where the processor can. An ordinary store waits until the other core
/// has given up what it has of the line, one line after the other. Both memories begin a line, and
/// are copied to the end of the last one.
void streamed_copy(std::byte* to, const std::byte* from, std::int64_t bytes) noexcept;

/// After it, stores that others can see come behind all streamed copies.
void end_streaming() noexcept;

}  // namespace datamover::memory
