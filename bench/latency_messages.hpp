// SPDX-License-Identifier: BSD-3-Clause
// Hand-written halo exchanges that use MPI calls alone, in several variants.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <vector>

#include "latency_faces.hpp"

namespace bench {

/// A process's blocks in private memory: what hand-written code has.
struct LocalBlocks {
    std::vector<double> data;
    std::vector<std::int64_t> slot;  ///< per block of the grid: its place here, or -1
    std::int64_t stored_edge = 0;

    LocalBlocks(const BlockGrid& grid, int rank);
    double* block(std::int64_t b) {
        return data.data() +
               slot[static_cast<std::size_t>(b)] * stored_edge * stored_edge * stored_edge;
    }
};

/// Each exchanges all faces once per call. The blocks must outlive what is returned.
using Exchange = std::function<void()>;
using Faces = std::vector<Face>;

/// One persistent request per face, also for faces to the process itself; packed by hand.
Exchange persistent_faces(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks);
/// The same with derived datatypes in place of packing.
Exchange persistent_datatypes(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks);
/// One persistent message per process, packed by hand; own faces copied in the meantime.
Exchange persistent_merged(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks);
/// One persistent message per process, described by one datatype; own faces copied.
Exchange persistent_merged_datatypes(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks);
/// persistent_merged with MPI_Isend and MPI_Irecv.
Exchange isend_merged(MPI_Comm comm, const Faces& faces, LocalBlocks& blocks);

}  // namespace bench
