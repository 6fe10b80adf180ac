// SPDX-License-Identifier: BSD-3-Clause
// When does a receiver read data out of the sender's memory by MPI? On request.
#include "window_transport.hpp"

namespace datamover::transport {

extern const TransportKind get_kind;
const TransportKind get_kind =
    window_kind("get", WindowAccess::get, "the receiver reads by itself");

}  // namespace datamover::transport
