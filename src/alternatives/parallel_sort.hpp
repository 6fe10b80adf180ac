// SPDX-License-Identifier: BSD-3-Clause
// Parallel sort by target in which each process keeps its number of elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "element_runs.hpp"
#include "exchange_in_place.hpp"
#include "mpi/process_group.hpp"

namespace datamover::alternatives {

/// Elements that lie sorted on each process become sorted over all processes that have any, in
/// order of rank, by merging pairs of processes. The elements are exchanged through the start of
/// the scratch, `swapped_elems` at a time (the same on all processes, at most what each has there);
/// returns what lies here afterwards. Collective; O(log^2 P) merges per process where all have as
/// many elements.
/// Source: H. Dachsel, M. Hofmann, G. Rünger, Library Support for Parallel Sorting in Scientific
/// Computations, Euro-Par 2007; the pairs are those of Batcher's merge exchange (D. Knuth, The Art
/// of Computer Programming, volume 3, algorithm 5.2.2 M).
ElementRuns sort_over_processes(const mpi::ProcessGroup& group, std::byte* data,
                                std::int64_t elem_bytes, const ElementRuns& sorted,
                                const Scratch& scratch, std::int64_t swapped_elems, int tag);

}  // namespace datamover::alternatives
