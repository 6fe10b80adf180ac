// SPDX-License-Identifier: BSD-3-Clause
// Cost model for moving elements to another process of the node.
#pragma once

#include <cstdint>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Costs, in nanoseconds, by which transport="auto" compares two transports. The built-in rates
/// suit an x86-64 machine whose two cores sometimes share a cache and sometimes do not; `datamover
/// bench model` measures them.
struct TransportRates {
    /// Data that both processes rewrite in each round, such as ghosts, written directly into the
    /// other process's array.
    double shared_message = 400;  ///< per message
    double shared_line = 44;      ///< per line of 64 bytes, including the wait for it
    /// Such data through slots of shared memory, bypassing the caches.
    double staged_message = 1168;
    double staged_line = 38;
    /// Arrays that the other process cannot map, copied by the system.
    double read_run = 768;     ///< per run of contiguous memory
    double read_byte = 0.125;  ///< per byte of it
    /// Such arrays through slots.
    double slot_run = 256;
    double slot_byte = 0.1875;

    double shared_ns(std::int64_t bytes) const;
    double staged_ns(std::int64_t bytes) const;
    double read_ns(std::int64_t bytes, std::int64_t run_bytes) const;
    double slots_ns(std::int64_t bytes, std::int64_t run_bytes) const;

    friend bool operator==(const TransportRates&, const TransportRates&) = default;
};

/// Return the rates that movers of this process use: those that were set, or else those that
/// `datamover bench model` stored for this processor, or else the built-in ones. Local, O(1),
/// except the first call, which may read a small file.
TransportRates transport_rates();
/// Set the rates for movers bound later; a communicator uses those of process 0. Throws
/// invalid_argument if a rate is negative or not a number. Local.
void set_transport_rates(const TransportRates& rates);
/// Set the rates, and store them for later programs on this processor in the file named by
/// DATAMOVER_TUNING_FILE, if it can be written.
void keep_transport_rates(const TransportRates& rates);

}  // namespace datamover
