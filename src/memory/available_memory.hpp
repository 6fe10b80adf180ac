// SPDX-License-Identifier: BSD-3-Clause
// Memory that the system has available.
#pragma once

#include <cstdint>

namespace datamover::memory {

/// Bytes that can still be taken, of the system (with what it can swap out) and of this process's
/// control group (version 2); the largest number where neither tells.
std::int64_t available_bytes();

/// Throws no_memory where an allocation of so many bytes is large and more than is left: a system
/// that runs out while pages are touched kills processes.
void require_available(std::int64_t bytes);

}  // namespace datamover::memory
