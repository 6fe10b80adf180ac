// SPDX-License-Identifier: BSD-3-Clause
// The transport "get": the receiver reads from an MPI window. On request.
#include "window_transport.hpp"

namespace datamover::transport {

extern const TransportKind get_kind;
const TransportKind get_kind =
    window_kind("get", WindowAccess::get, "the receiver reads by itself");

}  // namespace datamover::transport
