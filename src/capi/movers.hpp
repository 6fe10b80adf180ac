// SPDX-License-Identifier: BSD-3-Clause
// C interface of movers: arguments and descriptions converted.
#pragma once

#include "handles.hpp"

namespace datamover::capi {

template <class Value>
auto described(const std::vector<Value>& all) {
    std::vector<decltype(described(all.front()))> lines;
    for (const Value& value : all) lines.push_back(described(value));
    return lines;
}
inline datamover_mover_counters counters_of(const Mover& mover) {
    datamover_mover_counters counters = described(mover.counters());
    counters.extra_bytes = mover.extra_bytes();
    return counters;
}
/// Throws invalid_argument for NULLs.
std::vector<PlannedArrays> planned(const datamover_move* moves, std::int64_t count);

/// Frees a mover after a call that ends it; a mover that the call refuses stays.
inline void freed_after(datamover_mover** mover, const char* name, void (Mover::*end)()) {
    if (given(mover, name)) ((*mover)->value.*end)();
    delete std::exchange(*mover, nullptr);
}

/// The argument `together` of C, and collective calls of a mover, with its communicator.
inline Mover mover_of_set(MPI_Comm comm, const std::vector<PlannedArrays>& moves, bool together,
                          const MoverOptions& options) {
    return together ? Mover(comm, moves, options) : Mover::in_phases(comm, moves, options);
}
inline void rebind(MPI_Comm, Mover& mover, const ArrayPart& source, const ArrayPart& destination) {
    mover.rebind(source, destination);
}
inline void tune(MPI_Comm, Mover& mover, double seconds) {
    mover.tune(seconds);
}

}  // namespace datamover::capi
