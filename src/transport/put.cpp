// SPDX-License-Identifier: BSD-3-Clause
// The transport "put": the sender writes to an MPI window. On request.
#include "window_transport.hpp"

namespace datamover::transport {

extern const TransportKind put_kind;
const TransportKind put_kind = window_kind("put", WindowAccess::put, "the sender writes by itself");

}  // namespace datamover::transport
