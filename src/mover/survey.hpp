// SPDX-License-Identifier: BSD-3-Clause
// The reduction over all processes when a mover is bound.
//
// Every process fills a survey; one reduction makes it the same everywhere. What is decided
// afterwards is decided from it, or from what both sides of a pair know: by everybody alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "datamover/advanced/transport_rates.hpp"
#include "datamover/array_part.hpp"
#include "datamover/error.hpp"
#include "datamover/side.hpp"
#include "mpi/process_group.hpp"

namespace datamover {

/// The largest of a number on all processes.
struct MaxOverRanks {
    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();
    std::int64_t value = none;

    void take(std::int64_t mine) { value = mine > value ? mine : value; }
    bool holds() const { return value > 0; }  ///< of flags
};

/// A number that has to be the same on all processes that have one.
struct MustAgree {
    MaxOverRanks number, negated;

    void take(std::int64_t mine) {
        number.take(mine);
        negated.take(-mine);
    }
    bool any() const { return number.value != MaxOverRanks::none; }
    bool same() const { return !any() || number.value == -negated.value; }
};

/// Of one motion: what is true of its arrays on some process, and the types of their elements.
struct MotionReduction {
    PerSide<MustAgree> element;
    PerSide<MaxOverRanks> in_private_memory;
    MaxOverRanks prefers_row_major;
    MaxOverRanks two_arrays;  ///< source and destination are not the same

    void take(Side side, const ArrayPart& part);
    /// Gives a process that holds no elements the type of those that do; where nobody does on this
    /// side, so that nothing moves, that of the other side.
    void settle(Side side, ArrayPart& part) const;
};

/// What one process brings; after reduce(), what all bring.
struct BindingReduction {
    MaxOverRanks failed;         ///< size - rank of a process with an error of its own
    MustAgree passed;            ///< digest of the plans and options
    MustAgree remembered;        ///< digest of the transports found to be the fastest before, or 0
    MaxOverRanks checks;         ///< whether any process asks for the checks that take time
    MaxOverRanks has_limit;      ///< whether any process limits memory
    MaxOverRanks lacks_signals;  ///< whether a process has no shared memory for signals
    MaxOverRanks sent_bytes, received_bytes, exchanged_bytes;  ///< to and from others, and both
    MustAgree
        small_ghost_exchange_bytes;  ///< of messages of a few pages to another process in place
    MaxOverRanks packs;  ///< whether elements of any message lie otherwise in some process's arrays
    MaxOverRanks sent_and_kept_bytes, received_and_kept_bytes;
    MotionReduction first_motion;
    /// Of process 0; those that are not negative have bits that are not.
    std::array<MaxOverRanks, sizeof(TransportRates) / sizeof(double)> rate_bits;

    void take(const TransportRates& rates);
    TransportRates rates() const;
    /// Collective. Throws on all processes the error that one of them has.
    void reduce(const mpi::ProcessGroup& group, const std::optional<Error>& mine);
};

/// Those of a binding's motions behind the first. Collective.
void reduce(const mpi::ProcessGroup& group, std::vector<MotionReduction>& motions);

/// Throws wrong_type on all processes, naming two that hold elements of different types.
/// Collective.
[[noreturn]] void throw_different_types(const mpi::ProcessGroup& group, Side side,
                                        const ArrayPart& part);

}  // namespace datamover
