// SPDX-License-Identifier: BSD-3-Clause
// Calls that sending processes compare, their error messages, and the timeout of one round.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "stream/agreed_words.hpp"
#include "stream/connection.hpp"
#include "stream/together.hpp"

namespace datamover::stream {

/// What each process says first, with how many arrays it has sent. A wrong call is known to be one
/// by its process alone, and says only what ends with it.
enum class Call : std::int64_t {
    add = 1,
    decide = 2,
    pack = 3,
    close = 4,
    end_step = 5,
    wrong = 6
};

inline bool says(const Together::Numbers& said, Call call) {
    return said.at(0) == static_cast<std::int64_t>(call);
}

inline bool any_says(const std::vector<Together::Numbers>& everyone, Call call) {
    return std::ranges::any_of(everyone, [call](const auto& said) { return says(said, call); });
}

inline std::int64_t sends_of(const Together::Numbers& said) {
    return said.at(1);
}

/// What a process that makes a wrong call takes no part in any more.
enum class Ends : std::int64_t { nothing = 0, stream = 1, all_streams = 2 };

/// What has ended, by what all processes said.
inline Ends ends_in(const std::vector<Together::Numbers>& everyone) {
    std::int64_t most = 0;
    for (const Together::Numbers& said : everyone)
        if (says(said, Call::wrong)) most = std::max(most, said.at(2));
    return static_cast<Ends>(most);
}

/// The call of a process, with what it said after it, in words.
inline std::string text_of_call(const Together::Numbers& said, WordReader rest) {
    if (says(said, Call::close)) return "close()";
    if (says(said, Call::end_step)) return "end_step()";
    if (says(said, Call::add)) return concat("the first send() of array '", rest.text(), "'");
    if (!says(said, Call::decide)) return "another call";
    const std::string name = rest.text();
    const std::int64_t sequence = rest.number();
    return concat("send() of array '", name, "' in step ", rest.number(), ", number ", sequence,
                  " of the stream");
}

/// Throws mismatch, the same on all processes, if one of them passed another value than process 0.
/// The values are those of all processes, by rank.
inline void require_same(std::string_view what, const std::vector<std::string>& values,
                         std::string_view verb = "passed") {
    const auto other = std::ranges::find_if(values, [&](const auto& v) { return v != values[0]; });
    if (other != values.end())
        throw Error(ErrorCode::mismatch,
                    difference_text(verb, what, 0, values[0], other - values.begin(), *other));
}

inline Together::Numbers words_of_wrong_call(std::int64_t sends, Ends ends) {
    return {static_cast<std::int64_t>(Call::wrong), sends, static_cast<std::int64_t>(ends)};
}

/// So long an error that the others are to hear of waits for them, where they may be in a call of
/// MPI's in which they wait for this process: else nobody would ever see it.
inline constexpr std::chrono::seconds last_words_time{10};

/// Has the others throw `why` from the call that they make, and throws it here; ends the stream for
/// them, or all of its manager. Collective.
[[noreturn]] inline void end_by_failure(Together& together, const Error& why, Ends ends) {
    if (!together.is_alone())
        together.gather_within(words_of_wrong_call(-1, ends), last_words_time);
    together.agree(why);
    throw why;
}

/// How a round of waiting ended on process 0.
inline constexpr std::int64_t goes_on = 0, is_done = 1, was_late = 2, was_interrupted = 3,
                              was_refused = 4;

/// While process 0 waits for a consumer the others hear from it this often.
inline constexpr std::chrono::milliseconds round_time{50};

using Deadline = std::optional<Clock::time_point>;

inline Deadline deadline_after(std::optional<double> seconds) {
    constexpr double most = 1e9;  // beyond it the clock's numbers end
    if (!seconds || *seconds > most) return std::nullopt;
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
}

inline bool is_over(const Deadline& deadline) {
    return deadline && Clock::now() > *deadline;
}

}  // namespace datamover::stream
