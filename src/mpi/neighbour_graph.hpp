// SPDX-License-Identifier: BSD-3-Clause
// Communicators with a neighbor graph.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "process_group.hpp"

namespace datamover::mpi {

/// Ranks that a process receives from, and sends to; each once.
struct Neighbours {
    std::vector<int> sources, destinations;
    bool operator==(const Neighbours&) const = default;
};

/// A communicator of some or all processes of a group, for MPI's operations between them.
class NeighbourGraph {
public:
    /// For operations between neighbours.
    NeighbourGraph(const ProcessGroup& group, const Neighbours& neighbours);
    /// Of the processes that bring the same part, in order of their ranks.
    NeighbourGraph(const ProcessGroup& group, int part);
    ~NeighbourGraph();
    NeighbourGraph(const NeighbourGraph&) = delete;
    NeighbourGraph& operator=(const NeighbourGraph&) = delete;

    MPI_Comm comm() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Those of one group, least recently used first. A few are kept for movers to come: communicators
/// are scarce.
class NeighbourGraphs {
public:
    static constexpr std::size_t most = 16;

private:
    friend std::shared_ptr<const NeighbourGraph> neighbour_graph(const ProcessGroup&,
                                                                 const Neighbours&);
    friend std::shared_ptr<const NeighbourGraph> part_graph(const ProcessGroup&, int);
    struct Entry {
        std::uint64_t digest = 0;  ///< of what all processes bring
        std::shared_ptr<const NeighbourGraph> graph;
    };

    std::shared_ptr<const NeighbourGraph> find(std::uint64_t digest);
    bool make_room(const ProcessGroup& group);

    std::vector<Entry> entries_;
    std::string why_not_;  ///< what was wrong with this MPI's operations
};

/// The communicator for what all processes bring, made and tried at the first use of such a graph.
/// Making it blocks in MPI until all processes have come. Collective. Throws, on all processes,
/// unsupported where MPI brings wrong data to neighbours, or where too many graphs are in use.
std::shared_ptr<const NeighbourGraph> neighbour_graph(const ProcessGroup& group,
                                                      const Neighbours& neighbours);

/// A communicator for each part of the processes: of those that bring the same number, which is the
/// lowest of their ranks. Made at the first use of such parts, which blocks in MPI until all
/// processes have come; null where too many graphs are in use. Collective.
std::shared_ptr<const NeighbourGraph> part_graph(const ProcessGroup& group, int part);

}  // namespace datamover::mpi
