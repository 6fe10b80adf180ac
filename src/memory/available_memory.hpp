// SPDX-License-Identifier: BSD-3-Clause
// How much memory has the system left?
#pragma once

#include <cstdint>

namespace datamover::memory {

/// Bytes that can still be taken without others being thrown out, of the system and of this
/// process's control group (version 2); the largest number where neither tells.
std::int64_t available_bytes();

}  // namespace datamover::memory
