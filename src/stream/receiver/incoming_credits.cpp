// SPDX-License-Identifier: BSD-3-Clause
// Credits of a receiving process: the steps that it has memory for, and the report of those that it
// has taken.
#include <algorithm>
#include <utility>

#include "stream/receiver/incoming_steps.hpp"

namespace datamover::stream {
namespace {

/// Of a step, to make it worth while to say with the next one that both were taken: what is said
/// costs more than such a step.
constexpr std::uint64_t most_unsaid_bytes = 1 << 20;
/// Of all of them, of one sending process: it uses their memory again, best while it is in its
/// caches.
constexpr std::uint64_t most_unsaid_together = 1 << 17;
/// Of a stream that was granted twice as many at least, that sends on without hearing of these.
constexpr std::uint64_t least_unsaid_steps = 2;
/// Steps that are granted where nobody said how many; and where all wanted arrays are known and
/// small: the sending program then waits less often for a step to be taken.
constexpr std::uint64_t ahead_at_first = 2, most_ahead = 16, most_bytes_ahead = 1 << 23;

}  // namespace

void IncomingSteps::want(std::vector<WantedArray> wanted, std::int64_t ahead, StreamHabits habits) {
    wanted_ = std::move(wanted);
    suits_arrays_ = ahead == 0 && habits.goes_ahead;
    ahead_ = ahead == 0 ? ahead_at_first : static_cast<std::uint64_t>(ahead);
    habits_ = habits;
}

void IncomingSteps::want_all(std::int64_t ahead, StreamHabits habits) {
    want({}, ahead == 0 ? static_cast<std::int64_t>(ahead_at_first) : ahead, habits);
    takes_all_ = true;
    for (const auto& [number, known] : known_) want_whole(known);
}

void IncomingSteps::give_credit() {
    say_credit(ahead_);
}

void IncomingSteps::say_credit(std::uint64_t steps) const {
    control_.say(
        Record().add("type", "credit").add("steps", static_cast<std::int64_t>(steps)).bytes());
}

/// Grants more steps of arrays that are small.
void IncomingSteps::look_further_ahead() {
    suits_arrays_ = false;
    std::uint64_t step_bytes = 1;
    for (const auto& [number, array] : begun_)
        for (const auto& [producer, bytes] : array->sizes())
            step_bytes += std::min(bytes, most_bytes_ahead);
    const std::uint64_t steps = std::min(most_ahead, most_bytes_ahead / step_bytes);
    if (steps <= ahead_) return;
    say_credit(steps - std::exchange(ahead_, steps));
    grant();
}

void IncomingSteps::taken(const ArrivedStep& step) {
    std::uint64_t bytes = 0;
    std::map<int, std::uint64_t> of_producer;
    for (const auto& [array, messages] : step.arrays)
        for (const auto& [producer, message] : messages.by_producer) {
            bytes += message->size();
            of_producer[producer] += message->size();
        }
    std::uint64_t most_of_one = 0;
    for (const auto& [producer, count] : of_producer) most_of_one = std::max(most_of_one, count);
    coming_.erase(step.place);
    std::erase(awaited_, step.place);
    taken_ = step.place + 1;
    --steps_open_;
    ++unsaid_;
    unsaid_bytes_ += most_of_one;
    if (bytes > most_unsaid_bytes || !(has_ready() || may_say_later())) say_taken();
}

bool IncomingSteps::may_say_later() const {
    const bool has_many = ahead_ >= 2 * least_unsaid_steps;
    return habits_.goes_ahead && !habits_.is_pressed && has_many && unsaid_ > 0 &&
           2 * unsaid_ < ahead_ && unsaid_bytes_ < most_unsaid_together;
}

void IncomingSteps::say_taken() {
    if (unsaid_ == 0) return;
    unsaid_ = unsaid_bytes_ = 0;
    grant();
    // A grant to the first sending process says it, too; a thread waits for it if it is needed
    // soon.
    const bool is_said_by_grant =
        habits_.tells_by_messages && !habits_.is_pressed && links_.contains(0);
    if (!is_said_by_grant)
        control_.say(Record()
                         .add("type", "done")
                         .add("place", static_cast<std::int64_t>(taken_) - 1)
                         .bytes());
}

void IncomingSteps::grant() {
    for (const auto& [producer, links] : links_)
        for (const auto& link : links)
            if (!link->has_ended()) grant_to(*link);
}

/// Says what may be sent; each step by itself where others may have been dropped.
void IncomingSteps::grant_to(DataReceiver& link) const {
    if (habits_.goes_ahead) {
        link.grant(taken_, taken_ + ahead_, false);
        return;
    }
    for (const std::uint64_t place : awaited_) link.grant(taken_, place + 1, true);
    if (awaited_.empty()) link.grant(taken_, 0, false);
}

}  // namespace datamover::stream
