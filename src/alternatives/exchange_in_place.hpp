// SPDX-License-Identifier: BSD-3-Clause
// In-place exchange of sorted elements between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "element_runs.hpp"
#include "mpi/process_group.hpp"

namespace datamover::alternatives {

/// Memory beside the elements, the same number of elements on all processes.
struct Scratch {
    std::byte* data = nullptr;
    std::int64_t elems = 0;
    std::shared_ptr<const void> owner{};

    /// Elements that `exchange_in_place` needs at least.
    static std::int64_t fewest_elems(int nprocs) { return 2 * std::int64_t{nprocs}; }
};

/// Sends elements, which lie sorted by target from the buffer's start on, to their targets; returns
/// what lies there afterwards, in the order of memory. `capacity_elems` is at least what each
/// process has before and after. Works in rounds in which every pair sends the same share of its
/// elements, so that no process ever holds more than before or after, but for a few in the
/// scratch. Collective.
ElementRuns exchange_in_place(const mpi::ProcessGroup& group, std::byte* data,
                              std::int64_t elem_bytes, std::int64_t capacity_elems,
                              const ElementRuns& sorted, const Scratch& scratch);

}  // namespace datamover::alternatives
