// SPDX-License-Identifier: BSD-3-Clause
// Messages: the chunks of pairs by point-to-point MPI, for "p2p" and "datatype".
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "mpi/datatype.hpp"
#include "transport.hpp"

namespace datamover::transport {

/// What a transport by messages is called, and how MPI is told where the elements of a chunk lie.
struct MessageForm {
    const char* name;
    /// The elements of a chunk in the arrays, counted from MPI_BOTTOM, in the order of the message;
    /// null: they are packed. Asked only where elements move unchanged.
    mpi::Datatype (*datatype)(const PairProgram&, std::size_t chunk);
};

std::unique_ptr<Transport> bind_messages(const BindContext& context, const std::vector<Pair>& pairs,
                                         const MessageForm& form);

}  // namespace datamover::transport
