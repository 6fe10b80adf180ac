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

/// Make index lists (see IndexList) of which each process passes only its own: `mine[k]` is this
/// process's list of the k-th result. Partners have `shape` and one rank per process. Throws, on
/// all processes: out_of_range (an index outside the shape), mismatch (shape, number of lists or
/// partners differ between processes).
///
/// A process keeps its own lists and, for each index that it holds in any of them or in one of
/// `partners`, the other holders. So elements can be moved among the results and to and from
/// partners, at the same index, with or without leaving out sections. Other layouts, `indices_of`
/// and plans of other ranks, and saving throw unsupported.
///
/// The process that keeps the part of a directory with an index provides its holders, as in PETSc's
/// star forests and Zoltan's distributed directories. Collective. O(n log n) time and O(n) memory
/// for n own indices (including those in partners), plus O(processes). An index that p processes
/// list costs p^2 at its directory process.
std::vector<IndexList> index_lists(MPI_Comm comm, const Point& shape,
                                   std::span<const std::span<const std::int64_t>> mine,
                                   std::span<const Layout> partners = {});

/// Take the place of index_lists on a process that cannot call it. All processes throw `error`, or
/// that of a lower rank. Collective.
[[noreturn]] void refuse_index_lists(MPI_Comm comm, const Error& error);

}  // namespace datamover
