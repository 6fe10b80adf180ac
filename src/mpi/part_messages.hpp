// SPDX-License-Identifier: BSD-3-Clause
// Messages of bytes in several parts of memory, and their completion.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "memory/segment_pool.hpp"
#include "process_group.hpp"

namespace datamover::mpi {

/// Bytes that lie together.
struct Part {
    const std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::optional<memory::SharedPlace> place{};  ///< by which the node reaches them
};

/// Messages of an operation that are under way. Where it fails, requests are ended as far as MPI
/// lets them, and the memory of the others is kept for ever.
class Messages {
public:
    Messages(const ProcessGroup& group, int tag) : group_(group), tag_(tag) {}
    ~Messages();
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

    /// Begins one message of all parts, which lie in `memory` where that is not null; its number.
    std::size_t send(std::span<const Part> parts, int rank, std::shared_ptr<const void> memory);
    std::size_t send(const Part& part, int rank, std::shared_ptr<const void> memory) {
        return send({&part, 1}, rank, std::move(memory));
    }
    /// Begins a synchronous one, which MPI does not keep until somebody wants it.
    std::size_t send_synchronously(const Part& part, int rank, std::shared_ptr<const void> memory);
    /// Begins to receive into parts; the number of the message.
    std::size_t receive(std::span<const Part> parts, int rank, std::shared_ptr<const void> memory);
    std::size_t receive(const Part& part, int rank, std::shared_ptr<const void> memory) {
        return receive({&part, 1}, rank, std::move(memory));
    }
    /// The bytes of the next message of a rank, or -1 where none has come.
    std::int64_t probe(int rank) const;

    bool is_complete(std::size_t number);
    bool all_complete();
    /// Waits for all. Throws mpi, peer_failed, timeout.
    void wait();

private:
    struct UnderWay {
        MPI_Request request = MPI_REQUEST_NULL;
        std::shared_ptr<const void> memory;
        bool is_send = false;

        bool has_ended();
    };
    template <class Call>
    std::size_t begin(Call* call, const char* name, std::span<const Part> parts, int rank,
                      std::shared_ptr<const void> memory, bool is_send);

    const ProcessGroup& group_;
    int tag_;
    std::map<std::size_t, UnderWay> under_way_;  ///< by number
    std::size_t count_ = 0;                      ///< of all that were begun
};

}  // namespace datamover::mpi
