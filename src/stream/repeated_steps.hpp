// SPDX-License-Identifier: BSD-3-Clause
// RepeatedSteps: arrays that sending processes can send without communicating, because the step
// repeats the last one. If steps follow each other within microseconds, waiting for all processes
// in each of them takes longer than the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stream/audience.hpp"
#include "stream/connection.hpp"

namespace datamover::stream {

/// An array of a step, as the sending program sends it.
struct SentCall {
    const std::string& name;
    int array = 0;              ///< its number
    std::int64_t sequence = 0;  ///< of the step, among all steps of the stream
    std::int64_t number = 0;    ///< what the sending program calls the step
};

/// What this process knows of the last steps. All sending processes know the same of what they have
/// agreed on, and derive the same from it. Bookkeeping alone.
class RepeatedSteps {
public:
    /// How many arrays were sent: where it differs between processes, they are at different calls.
    std::int64_t sends() const { return sends_; }
    /// The program does something else with the same processes between its steps: one that is
    /// behind the others would say something of its call to those that are in that.
    void begin_anew() { alike_ = 0; }
    /// What process 0 may let be repeated behind this call: only whole steps that follow many that
    /// were alike, as many as come within a moment.
    Repeats wanted(const SentCall& call) const;
    /// All processes have agreed on a call and its decision; that says how many steps of the same
    /// arrays may follow without a word.
    void agree(const SentCall& call, const Decision& decision);
    /// What is decided on a call that needs no word; nothing where it needs one.
    std::optional<Decision> repeat(const SentCall& call);
    /// Whether other processes may be at other calls.
    bool may_differ() const { return sequence_ <= last_sequence_; }
    /// Takes what may be repeated for sent, on all processes, wherever they are; the sequence and
    /// the number of the last step of it.
    std::pair<std::int64_t, std::int64_t> skip();

private:
    /// Where an array of a step goes.
    struct Destinations {
        std::int64_t sequence = 0;  ///< of that step
        Decision decision;
    };
    bool begins(const SentCall& call) const { return call.sequence != sequence_; }
    bool is_next(const SentCall& call) const;
    bool repeats_first(const SentCall& call) const;
    void note(const SentCall& call);

    std::vector<int> arrays_, begun_;  ///< of the last whole step, and of the one now
    std::map<int, Destinations> destinations_;
    std::int64_t sends_ = 0;
    std::int64_t sequence_ = -1, number_ = 0, stride_ = 1;  ///< of the step now; between numbers
    std::int64_t last_sequence_ = -2;                       ///< up to which no word is needed
    std::int64_t alike_ = 0;                                ///< steps before this one
    std::int64_t agreed_sequence_ = 0;                      ///< of the step that all agreed on last
    Clock::time_point agreed_{};
};

}  // namespace datamover::stream
