// SPDX-License-Identifier: BSD-3-Clause
// Sizes in whole cache lines.
#pragma once

#include <cstdint>

namespace datamover::memory {

constexpr std::int64_t line_bytes = 64;

/// Bytes rounded up to whole cache lines.
constexpr std::int64_t whole_lines(std::int64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

}  // namespace datamover::memory
