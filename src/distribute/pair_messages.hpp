// SPDX-License-Identifier: BSD-3-Clause
// How do the elements of a pair of processes go in one MPI message?
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "distribution_state.hpp"

namespace datamover::distribute {

/// Bytes that lie together.
struct Part {
    const std::byte* data = nullptr;
    std::int64_t bytes = 0;
};

/// Messages that this process has sent and that may still be under way.
class PendingSends {
public:
    explicit PendingSends(State& state) : state_(state) {}
    void send(const std::byte* data, std::int64_t bytes, int rank);
    /// One message of all parts.
    void send(std::span<const Part> parts, int rank);
    /// True when all have gone.
    bool test();
    void wait();

private:
    State& state_;
    std::vector<MPI_Request> requests_;
};

/// Receives exactly so many bytes. Blocks.
void receive_bytes(State& state, std::byte* data, std::int64_t bytes, int rank);

/// Takes a message of elements from `rank`, if one has come, into the columns from element
/// `first_elem` on; returns their number, 0 when none has come.
std::int64_t receive_elements(State& state, const Carriage& carriage, std::int64_t first_elem,
                              int rank);

}  // namespace datamover::distribute
