// SPDX-License-Identifier: BSD-3-Clause
// One-sided transports, for "get" and "put".
#pragma once

#include "transport.hpp"

namespace datamover::transport {

/// Which side of a pair calls MPI: the receiver reads, or the sender writes.
enum class WindowAccess { get, put };

/// The kind of transport that does so. All processes bind it, since MPI makes windows together.
TransportKind window_kind(const char* name, WindowAccess access, const char* reason);

}  // namespace datamover::transport
