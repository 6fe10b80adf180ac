// SPDX-License-Identifier: BSD-3-Clause
// Cache of bound movers for repeated calls.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "datamover/mover.hpp"

namespace datamover {

/// How many movers a communicator keeps, and with how much memory for buffers; the very last is
/// kept whatever its size, unless none is to be. The same on all processes.
struct CacheLimit {
    std::int64_t movers = 16;
    std::int64_t buffer_bytes = std::int64_t{256} << 20;
};
inline constexpr std::int64_t most_cached_movers = 64;

/// Throws out_of_range for more than `most_cached_movers` and for numbers below 0. Local.
void set_cache_limit(const CacheLimit& limit);

/// The mover for `key`, all that this process knows of the call (also its addresses): one bound at
/// an earlier call, if all processes find it under their keys, else what `bind` returns. `bind`
/// runs on all processes or none; it is collective, and where it throws on one, it throws on all.
/// The last movers stay with `comm`, up to the limit. Collective; where all processes find it under
/// their first key that fits, as where calls repeat, a word of each to all.
Mover cached_mover(MPI_Comm comm, const std::vector<std::int64_t>& key,
                   const std::function<Mover()>& bind);

/// Drops the movers that are kept with `comm`, by all processes at the same place. Local.
void drop_cached_movers(MPI_Comm comm);

}  // namespace datamover
