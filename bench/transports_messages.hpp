// SPDX-License-Identifier: BSD-3-Clause
// Hand-written transfers of a step, with MPI.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "transports_pattern.hpp"

namespace bench {

/// Where the arrays of a step lie here, by number.
struct StepArrays {
    std::vector<std::byte*> source, destination;
};

/// A way to carry out a step, any number of times; made once.
class HandWritten {
public:
    virtual ~HandWritten() = default;
    virtual void run() = 0;
    /// What it does before and after MPI, by itself; nothing where MPI does it all.
    virtual void pack() {}
    virtual void unpack() {}
};

/// One MPI_Isend per peer and one MPI_Irecv, in four ways: copy loops and contiguous messages (what
/// stays within the process never meets MPI); one derived datatype per peer, sent directly; the
/// same datatypes with MPI_Pack and MPI_Unpack; and, as a bound for all of them, nothing but a
/// contiguous message of the same size.
enum class Way { manual, datatypes, mpi_pack, reference };
std::unique_ptr<HandWritten> messages(MPI_Comm comm, Way way,
                                      const std::vector<Transfer>& transfers,
                                      const StepArrays& arrays);

/// One MPI_Alltoallw with the same datatypes.
std::unique_ptr<HandWritten> one_alltoallw(MPI_Comm comm, const std::vector<Transfer>& transfers,
                                           const StepArrays& arrays);

/// One MPI_Alltoallv between the arrays; null, on all processes, where a message of any is not one
/// run of bytes on both sides. Collective.
std::unique_ptr<HandWritten> one_alltoallv(MPI_Comm comm, const std::vector<Transfer>& transfers,
                                           const StepArrays& arrays);

}  // namespace bench
