// SPDX-License-Identifier: BSD-3-Clause
// Processors that this process may run on. A batch system, a container or `taskset` may leave it
// fewer than the machine has.
#pragma once

#include <array>
#include <cstdint>

namespace datamover::mpi {

/// A bit for each processor.
using ProcessorSet = std::array<std::uint64_t, 16>;

/// Local. Where the system does not say: as many as are online.
ProcessorSet usable_processors();
std::int64_t count(const ProcessorSet& processors);

}  // namespace datamover::mpi
