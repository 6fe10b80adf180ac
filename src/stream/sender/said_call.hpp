// SPDX-License-Identifier: BSD-3-Clause
// SaidCall: what a sending process tells the others of the call that it makes, in one exchange.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stream/sender/audience.hpp"
#include "stream/wire/together.hpp"

namespace datamover::stream {

/// A wrong call is known to be one by its process alone, and tells only what ends with it.
enum class Call : std::int64_t {
    add = 1,
    decide = 2,
    pack = 3,
    close = 4,
    end_step = 5,
    wrong = 6
};

/// What a process that makes a wrong call takes no part in any more.
enum class Ends : std::int64_t { nothing = 0, stream = 1, all_streams = 2 };

/// How a round of waiting ended on process 0.
enum class Round : std::int64_t { goes_on = 0, done = 1, late = 2, interrupted = 3, refused = 4 };

/// For which consumer packing failed on a process since its last call, and why.
struct PackingFailure {
    std::string key;
    Error why{ErrorCode::peer_failed, ""};
};

struct SaidCall {
    Call call = Call::wrong;
    Ends ends = Ends::nothing;  ///< of a wrong call
    std::int64_t stream = 0;    ///< the identity of the stream that it is a call of
    bool was_broken_off = false;
    std::vector<PackingFailure> failures;
    std::string name;  ///< of the array
    // Of an array that is added.
    std::int64_t layout_sum = 0, elem_bytes = 0;
    std::string layout, dtype;
    // Of an array that is sent.
    std::int64_t sequence = 0, number = 0;
    /// Of process 0, while it waits for consumers.
    Round round = Round::goes_on;
    std::optional<Decision> decision;
    Error refusal{ErrorCode::peer_failed, ""};

    /// Writes all of it, or reads it. Throws mismatch as Words.
    void pass(Words& words);
    /// Whether another process makes the same call.
    bool is_same(const SaidCall& other) const;
    /// The call in words.
    std::string text() const;
};

inline bool any_is(const std::vector<SaidCall>& everyone, Call call) {
    return std::ranges::any_of(everyone, [call](const auto& said) { return said.call == call; });
}

/// What has ended, by what all processes said.
Ends ends_in(const std::vector<SaidCall>& everyone);

/// Throws mismatch, the same on all processes, if their calls differ.
void require_same_calls(const std::vector<SaidCall>& everyone);

/// The words of all processes as calls.
std::vector<SaidCall> calls_of(const std::vector<Together::Numbers>& everyone);

/// Gathers the calls of all processes. Collective.
std::vector<SaidCall> gather_calls(Together& together, SaidCall mine);

/// Has the others throw `why` from the call that they make, and throws it here; ends the stream for
/// them, or all of its manager. Waits for them for 10 s at most. Collective.
[[noreturn]] void end_by_failure(Together& together, const Error& why, Ends ends);

}  // namespace datamover::stream
