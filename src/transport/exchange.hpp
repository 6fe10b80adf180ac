// SPDX-License-Identifier: BSD-3-Clause
// Exchanges of "collective": what a process sends and receives in one operation of MPI, and the
// check that all processes use their turns for the same movers.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi/byte_message.hpp"
#include "mpi/process_group.hpp"
#include "transport.hpp"

namespace datamover::transport {

/// Checks that processes of different nodes use their turns for the same movers. Each sends the
/// number of the binding that it begins to the process after it, in a ring of all, if that one is
/// on another node. Those of one node compare on their boards (FailureBoard::claim_ticket). So
/// every two that follow each other are compared, and not all can be equal if two of them differ.
class OrderCheck {
public:
    /// Of the binding `number`, the same on all processes. Local.
    OrderCheck(mpi::ProcessGroupPtr group, int number);
    ~OrderCheck();
    OrderCheck(const OrderCheck&) = delete;
    OrderCheck& operator=(const OrderCheck&) = delete;

    /// A turn begins, in the order of the group's turns. The last one's check has ended.
    void begin();
    /// Whether the check of the turn has ended. Throws mismatch where the process before uses it
    /// for another binding.
    bool is_done();

private:
    struct Numbers {
        std::int64_t own = 0, theirs = 0;
    };
    struct Message {
        bool is_there = false, is_under_way = false;
        std::size_t request = 0;
    };
    bool has_ended(Message& message);

    mpi::ProcessGroupPtr group_;
    int before_;                        ///< the process before this one
    std::shared_ptr<Numbers> numbers_;  ///< what MPI may still look at
    mpi::PersistentRequests requests_;
    Message sent_, received_;
};

/// One direction of one pair.
struct ExchangedPair {
    std::int64_t peer = 0;
    bool sends = false;
    PairProgram program;
    memory::AllocationPtr buffer;  ///< none where the arrays themselves are exchanged
    /// Where the bytes of a chunk lie; none where MPI is told addresses.
    std::vector<mpi::Datatype> types;
    std::vector<std::size_t> type_index;  ///< per chunk, of those
    std::size_t place = 0;                ///< among those to whom, or from whom, an operation goes

    const std::byte* bytes_of(std::size_t chunk) const {
        return buffer ? buffer->data : program.in_place(chunk);
    }
};

/// What MPI may look at until an operation has ended.
struct Exchange {
    /// What goes to, or comes from, each place. Where MPI's call takes addresses as displacements
    /// from MPI_BOTTOM, these are bytes: MPICH takes 2.5 to 4 times as long over a type of its own
    /// for each (measured with 2 MiB). Else one of a type that counts from MPI_BOTTOM, with nothing
    /// to add.
    struct Half {
        std::vector<int> counts, zeros;
        std::vector<MPI_Count> long_counts;
        std::vector<MPI_Aint> displacements;
        std::vector<MPI_Datatype> types;

        void resize(std::size_t places);
        void set(const ExchangedPair& pair, std::size_t chunk);
        void* address(std::size_t place) const;
    };

    /// Where all messages of an operation come into one buffer: its parts, by process.
    struct Gathered {
        memory::AllocationPtr memory;
        std::vector<int> counts_bytes, starts_bytes;
    };

    Half sent, received;
    Gathered gathered;
    std::vector<ExchangedPair> pairs;
    MPI_Request request = MPI_REQUEST_NULL;
};

/// The exchange of a chunk with a process, packed or in place. `takes_addresses`: MPI's operation
/// takes addresses as displacements.
ExchangedPair exchanged(const BindContext& context, const Pair& pair, bool takes_addresses);

}  // namespace datamover::transport
