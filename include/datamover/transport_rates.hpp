// SPDX-License-Identifier: BSD-3-Clause
// Cost model for moving elements to another process of the node.
#pragma once

#include <cstdint>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Nanoseconds that transport="auto" weighs two ways by. The built-in ones suit an x86-64 machine
/// whose two cores share a cache at times and at times none; `datamover bench model` measures them.
struct TransportRates {
    /// What both processes rewrite from round to round, as ghosts: straight into the other's array.
    double shared_message = 400;  ///< per message
    double shared_line = 44;      ///< per line of 64 bytes, the waiting for it included
    /// The same through slots of shared memory, around the caches.
    double staged_message = 1168;
    double staged_line = 38;
    /// Arrays that the other process cannot map: copied by the system.
    double read_run = 768;     ///< per run of unbroken memory
    double read_byte = 0.125;  ///< per byte of it
    /// The same through slots.
    double slot_run = 256;
    double slot_byte = 0.1875;

    double shared_ns(std::int64_t bytes) const;
    double staged_ns(std::int64_t bytes) const;
    double read_ns(std::int64_t bytes, std::int64_t run_bytes) const;
    double slots_ns(std::int64_t bytes, std::int64_t run_bytes) const;

    friend bool operator==(const TransportRates&, const TransportRates&) = default;
};

/// The rates that movers of this process are bound by: those that were set, else those that
/// `datamover bench model` kept for this processor, else the built-in ones. Local, O(1), after the
/// first call, which may read a small file.
TransportRates transport_rates();
/// Sets them for the movers bound from now on; of a communicator those of process 0 count. Throws
/// invalid_argument when one is negative or no number. Local.
void set_transport_rates(const TransportRates& rates);
/// The same, and keeps them for later programs on this processor, in the file that
/// DATAMOVER_TUNING_FILE names, where it can be written.
void keep_transport_rates(const TransportRates& rates);

}  // namespace datamover
