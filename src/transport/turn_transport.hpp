// SPDX-License-Identifier: BSD-3-Clause
// Non-blocking collectives in the order of movers' starts, for "collective".
//
// One operation per chunk, of which one at a time is under way: as many as the process with the
// longest message needs, by all processes. Data is packed, unless a chunk lies in memory as it lies
// in the message. MPI matches such operations by their order, which therefore has to be the same
// everywhere: that of the movers' starts (ProcessGroup::take_ticket). They cannot be cancelled:
// what MPI may still look at after a failure is kept.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpi/byte_message.hpp"
#include "order_check.hpp"
#include "transport.hpp"

namespace datamover::transport {

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

class TurnTransport : public Transport {
public:
    ~TurnTransport() override;
    std::int64_t operations() const override;
    void all_have_bound(std::int64_t operations) override;
    void take_ticket() override;
    void start() override;
    Progress progress() override;
    /// A process without a pair waits for all.
    std::vector<std::int64_t> waiting_for() const override;
    void report(std::vector<MoverPair>& lines) const override;
    bool needs_polls() const override { return true; }
    std::int64_t extra_bytes() const override;

protected:
    /// `name` is that of the kind, `call` that of MPI's operation, which takes addresses as
    /// displacements or does not.
    TurnTransport(const BindContext& context, const std::vector<Pair>& pairs, const char* name,
                  const char* call, bool takes_addresses);

    /// Begins the operation of a chunk. Returns MPI's code.
    virtual int begin_operation(const Exchange& exchange, std::size_t chunk,
                                MPI_Request* request) = 0;
    /// Another operation of MPI is used than such transports use in general, by so many processes.
    void use_call(const char* call, std::size_t processes);

    const mpi::ProcessGroup& group() const { return *group_; }
    Exchange& exchange() { return *exchange_; }
    const Exchange& exchange() const { return *exchange_; }

private:
    void begin();

    mpi::ProcessGroupPtr group_;
    const char* name_;
    const char* call_;
    std::string why_call_;  ///< for explain
    int number_;            ///< of the binding, the same on all processes
    std::shared_ptr<Exchange> exchange_;
    std::int64_t operations_ = 0, next_ = 0;
    std::uint64_t turn_ = 0;
    std::optional<OrderCheck> order_;  ///< none where nothing moves
};

}  // namespace datamover::transport
