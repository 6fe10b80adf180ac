// SPDX-License-Identifier: BSD-3-Clause
// Communicators of parts of a group, such as the rows of a process grid.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "process_group.hpp"

namespace datamover::mpi {

/// The communicator of this process's part. Freed with its last reference.
class PartCommunicator {
public:
    /// Of the processes that pass the same part, in order of their ranks. Collective.
    PartCommunicator(const ProcessGroup& group, int part);
    ~PartCommunicator();
    PartCommunicator(const PartCommunicator&) = delete;
    PartCommunicator& operator=(const PartCommunicator&) = delete;

    MPI_Comm comm() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Those of one group, least recently used first. A few are kept for later movers, because
/// communicators are scarce.
class PartCommunicators {
public:
    static constexpr std::size_t most = 16;

    /// The communicator of the part whose lowest rank is `part`, made at the first use of such
    /// parts, which blocks in MPI until all processes have called; null if too many are in use.
    /// Collective.
    static std::shared_ptr<const PartCommunicator> of(const ProcessGroup& group, int part);

private:
    struct Entry {
        std::uint64_t digest = 0;  ///< of the parts of all processes
        std::shared_ptr<const PartCommunicator> communicator;
    };

    std::shared_ptr<const PartCommunicator> find(std::uint64_t digest);
    bool make_room(const ProcessGroup& group);

    std::vector<Entry> entries_;
};

}  // namespace datamover::mpi
