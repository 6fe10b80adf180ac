// SPDX-License-Identifier: BSD-3-Clause
// BLACS: its integers, and queries for grids, positions in them and communicators.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "datamover/datamover.h"

namespace datamover {

/// Those of the ScaLAPACK that the program is linked with: 64 bits in datamover_scalapack_ilp64.
#ifdef DATAMOVER_ILP64
using BlacsInt = std::int64_t;
#else
using BlacsInt = int;
#endif

/// A number that does not fit becomes -1, which every argument is refused for on all processes.
inline int narrow(BlacsInt value) {
    return std::in_range<int>(value) ? static_cast<int>(value) : -1;
}

/// The entries of a descriptor as int, while this lives.
class Entries {
public:
    explicit Entries(const BlacsInt* descriptor) {
        if (!descriptor) return;
        for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i] = narrow(descriptor[i]);
        begin_ = entries_.data();
    }
    Entries(const Entries&) = delete;
    Entries& operator=(const Entries&) = delete;
    operator const int*() const { return begin_; }

private:
    std::array<int, 9> entries_{};
    const int* begin_ = nullptr;
};

/// A context's grid, and this process's place in it.
struct Place {
    int nprow = -1, npcol = -1, row = -1, column = -1;

    explicit Place(int context);
    bool in_grid() const { return row >= 0 && column >= 0; }
};

/// A communicator of a context's processes in the same order, the same for all contexts of which
/// that holds, so that what the library keeps with it is found again by a program that makes a
/// context per step. It lives until MPI ends. Collective at the first call for a context, then
/// local. Throws mpi.
MPI_Comm communicator_of(int context);

/// What this process says of a matrix: nothing where it is not in its grid.
datamover_matrix matrix_here(const void* data, int row, int column, const int* descriptor);

}  // namespace datamover
