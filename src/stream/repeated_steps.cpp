// SPDX-License-Identifier: BSD-3-Clause
// Detection of steps that repeat the last one.
#include "stream/repeated_steps.hpp"

#include <algorithm>

namespace datamover::stream {
namespace {

/// So many steps in a row have to be alike: a program that sends few of them, or changes what it
/// sends, has each call agreed on.
constexpr std::int64_t least_alike = 64;
/// Behind a call that all agreed on: an error of one process is raised by the others, and a
/// consumer that comes is let in, this much later.
constexpr std::chrono::microseconds most_time{1000};
constexpr std::int64_t most_steps = 16;
/// Between numbers of steps; so these stay far from the ends of 64 bits.
constexpr std::int64_t most_stride = 1 << 20, last_number = std::int64_t{1} << 62;

}  // namespace

Repeats RepeatedSteps::wanted(const SentCall& call) const {
    const bool are_numbered_alike =
        stride_ >= 0 && stride_ <= most_stride && call.number <= last_number;
    if (alike_ < least_alike || !are_numbered_alike || !begins(call) || !repeats_first(call))
        return {};
    const auto each = (Clock::now() - agreed_) / (call.sequence - agreed_sequence_);
    const std::int64_t fit = each.count() > 0 ? most_time / each : most_steps;
    return {std::min(fit, most_steps), arrays_};
}

void RepeatedSteps::agree(const SentCall& call, const Decision& decision) {
    if (begins(call)) agreed_ = Clock::now(), agreed_sequence_ = call.sequence;
    note(call);
    destinations_.insert_or_assign(call.array, Destinations{call.sequence, {}});
    Decision& repeated = destinations_.at(call.array).decision;
    repeated.to = decision.to;
    repeated.is_told_by_messages = true;  // process 0 lets nothing else be repeated
    repeated.turn = decision.turn;
    last_sequence_ = decision.repeats > 0 ? call.sequence + decision.repeats : -2;
}

std::optional<Decision> RepeatedSteps::repeat(const SentCall& call) {
    if (!is_next(call)) return std::nullopt;
    note(call);
    Destinations& last = destinations_.at(call.array);
    for (auto& [key, place] : last.decision.to) place += call.sequence - last.sequence;
    last.sequence = call.sequence;
    return last.decision;
}

bool RepeatedSteps::is_next(const SentCall& call) const {
    if (call.sequence > last_sequence_) return false;
    if (begins(call)) return repeats_first(call);
    return call.number == number_ && begun_.size() < arrays_.size() &&
           arrays_[begun_.size()] == call.array;
}

/// Whether a call begins the next step as the last one began.
bool RepeatedSteps::repeats_first(const SentCall& call) const {
    return call.sequence == sequence_ + 1 && call.number - number_ == stride_ &&
           begun_ == arrays_ && !arrays_.empty() && arrays_.front() == call.array;
}

/// Counts a call to its step.
void RepeatedSteps::note(const SentCall& call) {
    ++sends_;
    if (begins(call)) {
        const std::int64_t stride = call.number - number_;
        const bool is_alike =
            call.sequence == sequence_ + 1 && begun_ == arrays_ && stride == stride_;
        alike_ = is_alike ? alike_ + 1 : 0;
        arrays_ = std::exchange(begun_, {});
        sequence_ = call.sequence;
        number_ = call.number;
        stride_ = stride;
    }
    begun_.push_back(call.array);
}

std::pair<std::int64_t, std::int64_t> RepeatedSteps::skip() {
    const std::int64_t steps = last_sequence_ - sequence_;
    const std::size_t rest = arrays_.size() - begun_.size();
    sends_ += steps * static_cast<std::int64_t>(arrays_.size()) + static_cast<std::int64_t>(rest);
    number_ += stride_ * steps;
    sequence_ = last_sequence_;
    last_sequence_ = -2;
    alike_ = 0;
    arrays_.clear();
    begun_.clear();
    return {sequence_, number_};
}

}  // namespace datamover::stream
