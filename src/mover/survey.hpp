// SPDX-License-Identifier: BSD-3-Clause
// What does each process bring to a binding, and what do all of them bring together?
//
// Every process fills a survey; one reduction makes it the same everywhere. What is decided
// afterwards is decided from it, or from what both sides of a pair know: by everybody alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "datamover/array_part.hpp"
#include "datamover/error.hpp"
#include "datamover/side.hpp"
#include "datamover/transport_rates.hpp"
#include "mpi/process_group.hpp"

namespace datamover {

/// The largest of a number on all processes.
struct Largest {
    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();
    std::int64_t value = none;

    void take(std::int64_t mine) { value = mine > value ? mine : value; }
    bool holds() const { return value > 0; }  ///< of flags
};

/// A number that has to be the same on all processes that have one.
struct Common {
    Largest number, negated;

    void take(std::int64_t mine) {
        number.take(mine);
        negated.take(-mine);
    }
    bool any() const { return number.value != Largest::none; }
    bool same() const { return !any() || number.value == -negated.value; }
};

/// Of one motion: what is true of its arrays on some process, and the types of their elements.
struct MotionSurvey {
    PerSide<Common> element;
    PerSide<Largest> in_private_memory;
    Largest prefers_row_major;
    Largest two_arrays;  ///< source and destination are not the same

    void take(Side side, const ArrayPart& part);
    /// Gives a process that holds no elements the type of those that do; where nobody does on this
    /// side, so that nothing moves, that of the other side.
    void settle(Side side, ArrayPart& part) const;
};

/// Rates that one process brings; those that are not negative have bits that are not.
struct RatesSurvey {
    static constexpr std::size_t count = sizeof(TransportRates) / sizeof(double);
    Largest bits[count];

    void take(const TransportRates& rates);
    TransportRates agreed() const;
};

/// What one process brings; after reduce(), what all bring.
struct Survey {
    Largest failed;         ///< size - rank of a process with an error of its own
    Common plans, options;  ///< digests
    Common remembered;      ///< digest of the transports found to be the fastest before, or 0
    Common motions;         ///< how many
    Common phases;          ///< how many the mover has
    Largest checks;         ///< whether any process asks for the checks that take time
    Largest needs_nodes;    ///< whether parts depend on who shares a node, which is not known yet
    Largest has_limit;      ///< whether any process limits memory
    Largest lacks_signals;  ///< whether a process has no shared memory for signals
    Largest sent_bytes, received_bytes, exchanged_bytes;  ///< to and from others, and both
    Common rewritten_bytes;  ///< of messages of a few pages to another process in place
    Largest packs;  ///< whether elements of any message lie otherwise in some process's arrays
    Largest sent_and_kept_bytes, received_and_kept_bytes;
    MotionSurvey first_motion;
    RatesSurvey rates;  ///< of process 0

    /// Collective. Throws on all processes the error that one of them has.
    void reduce(const mpi::ProcessGroup& group, const std::optional<Error>& mine);
};

/// Those of a binding's motions behind the first. Collective.
void reduce(const mpi::ProcessGroup& group, std::vector<MotionSurvey>& motions);

/// Throws wrong_type on all processes, naming two that hold elements of different types.
/// Collective.
[[noreturn]] void throw_different_types(const mpi::ProcessGroup& group, Side side,
                                        const ArrayPart& part);

}  // namespace datamover
