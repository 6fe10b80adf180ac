// SPDX-License-Identifier: BSD-3-Clause
// Index lists that are distributed: every process passes its own list and none holds all.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/export.h"
#include "datamover/index_list.hpp"
#include "datamover/layout.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// Index lists (see IndexList) of which each process gives its own: `mine[k]` is this process's
/// list of the k-th result. A process keeps its own lists and, for each index that it holds in any
/// of them or in one of `partners`, who else holds it. So the results move among one another and to
/// and from partners, element by element at the same index, sections left out or not; other
/// layouts, `indices_of` and plans of other ranks, and saving throw unsupported. Partners have
/// `shape` and one rank for each process.
///
/// The holders of an index are told by the process that keeps its part of a directory, as in
/// PETSc's star forests and Zoltan's distributed directories. Collective. O(n log n) time and O(n)
/// memory for n own indices (those in partners count), O(processes) besides; an index that p
/// processes list costs its place in the directory p^2.
/// Throws, on all processes: out_of_range (an index outside the shape), invalid_argument (one index
/// twice in one list), mismatch (shape, number of lists or partners differ between processes).
std::vector<IndexList> index_lists(MPI_Comm comm, const Point& shape,
                                   std::span<const std::span<const std::int64_t>> mine,
                                   std::span<const Layout> partners = {});

/// Takes part in the call that the other processes make, as one that cannot: all throw `error` (or
/// that of a lower process). Collective.
[[noreturn]] void refuse_index_lists(MPI_Comm comm, const Error& error);

}  // namespace datamover
