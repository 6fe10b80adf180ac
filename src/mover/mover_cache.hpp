// SPDX-License-Identifier: BSD-3-Clause
// How does a call that repeats an earlier one find the mover that was bound then?
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "datamover/mover.hpp"

namespace datamover {

/// What a mover is bound to.
struct MoverArguments {
    MotionPlan plan;
    ArrayPart source, destination;
    MoverOptions options = {};
};

/// The mover for `key`, all that this process knows of the call (also its addresses): one bound at
/// an earlier call, if all processes find it under their keys, else one bound now to what
/// `describe` returns. `describe` runs on all processes or none and may call collectives of `comm`;
/// where it throws on one, all throw. The last movers stay with `comm`, at most 16 of them with at
/// most `max_buffer_bytes` of buffers, the very last whatever its size. Collective; one small
/// reduction where the mover is found.
Mover cached_mover(MPI_Comm comm, const std::vector<std::int64_t>& key,
                   const std::function<MoverArguments()>& describe,
                   std::int64_t max_buffer_bytes = std::int64_t{256} << 20);

}  // namespace datamover
