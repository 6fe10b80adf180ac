// SPDX-License-Identifier: BSD-3-Clause
// The checking wrapper "poison:": a mover reads and writes only what its plan states.
//
// For tests, in the way of libCEED's memcheck: the mover works on copies of the arrays, twice. What
// the plan does not write must stay as it was, and so must the guards around the copies. Before the
// second time all bytes that the plan does not touch are inverted; the result must be the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bound_operation.hpp"
#include "scratch_arrays.hpp"

namespace datamover {

/// What a name of transports begins with that asks for it.
constexpr std::string_view poison_prefix = "poison:";

/// Copies of a mover's arrays, and what its plan touches there.
class PoisonedArrays {
public:
    PoisonedArrays() = default;
    /// Local. Throws no_memory.
    explicit PoisonedArrays(const std::vector<Moves>& user_phases);

    std::vector<Moves> phases;  ///< between the copies; what is to be bound

    /// Finds what the phases touch, which have been bound. Local.
    void note_touched(std::int64_t rank);
    /// Copies the arrays; `inverted`: what is not touched is.
    void fill(bool inverted);
    void keep_result();
    /// Throw mismatch, with `transport` in the message.
    void check_untouched(const std::string& transport) const;
    void check_result(const std::string& transport) const;
    /// Copies what the plan writes to the user's arrays.
    void hand_over() const;

private:
    /// Of one span of the arrays.
    struct Checked {
        std::vector<char> touched;              ///< per byte: `is_read` and `is_written`
        std::vector<std::byte> before, result;  ///< the first with its guards
    };
    [[noreturn]] void complain(const std::string& what, std::size_t span,
                               std::int64_t at_byte) const;

    ScratchArrays scratch_;
    std::vector<Checked> checked_;
    std::int64_t rank_ = 0;
};

class PoisonedOperation final : public Operation {
public:
    PoisonedOperation(const mpi::ProcessGroup& group, BoundOperation& inner)
        : group_(group), inner_(inner) {}

    /// What `inner` is bound to.
    void take(PoisonedArrays arrays) { arrays_ = std::move(arrays); }

    void announce() override;
    void begin() override { inner_.begin(); }
    Progress progress() override;
    std::vector<std::int64_t> waiting_for() const override { return inner_.waiting_for(); }
    bool sends_messages() const override { return inner_.sends_messages(); }
    bool needs_polls() const override { return inner_.needs_polls(); }
    void keep_memory() noexcept override { inner_.keep_memory(); }

private:
    std::string transports() const;

    const mpi::ProcessGroup& group_;
    BoundOperation& inner_;
    PoisonedArrays arrays_;
    bool second_ = false;  ///< time that the mover works
};

}  // namespace datamover
