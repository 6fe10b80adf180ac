// SPDX-License-Identifier: BSD-3-Clause
// Records that an audience keeps for each array and each consumer.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stream/sender/audience.hpp"
#include "stream/wire/token.hpp"

namespace datamover::stream {

struct Audience::Array {
    SentArray sent;
    Layout layout;
};

/// One program that listens: its processes, what it wants, and how far it is.
struct Audience::Consumer {
    Consumer(std::int64_t number_, std::int64_t nprocs_, const Flow& flow)
        : number(number_),
          nprocs(nprocs_),
          progress(static_cast<std::size_t>(nprocs_)),
          queue(flow.policy, flow.queue_steps, flow.queue_bytes) {}

    /// Whether it is to be let in before the next step.
    bool is_ready() const { return is_subscribed && !is_active && !left; }
    /// Steps that may be sent to all processes.
    std::int64_t least_credit() const {
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (const auto& [granted, taken] : progress) {
            const auto first = std::ranges::lower_bound(on_their_way, taken);
            least = std::min(least, granted - (on_their_way.end() - first));
        }
        return least;
    }
    /// All processes have taken all steps before this place.
    std::int64_t least_taken() const {
        return std::ranges::min_element(progress, {}, &Progress::taken)->taken;
    }
    /// Whether nothing is to be announced of a step with all arrays that it wants.
    bool is_told_by_messages() const {
        return hears_by_messages && announced.size() == wanted->size();
    }
    bool is_told_by_messages(const Step& step) const {
        return is_told_by_messages() && step.arrays.size() == wanted->size();
    }
    /// Whether steps that begin are for it.
    bool gets_steps() const { return is_active && !left; }
    /// Whether there is a step that it has not taken, and that does not wait for its sender.
    bool could_take() const {
        const auto& waiting = queue.waiting();
        return !on_their_way.empty() || (!waiting.empty() && waiting.front().complete);
    }
    /// Tells all processes.
    void say(const Record& words) {
        for (const auto& [rank, link] : links) link->say(words.bytes());
    }

    const std::int64_t number, nprocs;
    const std::string key = random_digits(16);
    const Clock::time_point came = Clock::now();
    /// By rank, of the processes that have not left; none: it is forgotten.
    std::map<std::int64_t, LinkPtr> links;
    std::optional<std::map<std::string, Layout>> wanted;
    std::vector<std::pair<std::string, std::string>> wanted_words;
    /// How far a process is.
    struct Progress {
        std::int64_t granted = 0;  ///< steps that it has memory for beyond those that it has taken
        std::int64_t taken = 0;    ///< all steps before this place
    };
    std::vector<Progress> progress;  ///< by rank
    StepQueue queue;
    std::deque<std::int64_t> on_their_way;   ///< places of steps that some process has not taken
    Clock::time_point took = Clock::now();   ///< something; or something began to wait for it
    std::set<int> announced;                 ///< arrays of steps that were announced
    std::map<int, std::int64_t> step_bytes;  ///< by array
    std::set<int> told;                      ///< arrays that it knows of
    int times_asked = 0;
    bool takes_all = false;          ///< each array is wanted, whole, as a step of its own
    bool hears_by_messages = false;  ///< of whole steps of arrays that were announced
    /// Whether it has requested arrays, and all its processes have granted credits. It was told so,
    /// so that the next step that begins is for it.
    bool is_subscribed = false;
    bool asks_for_arrays = false, is_active = false;
    /// The first of its processes that left, by the steps that it took: the others get no more.
    std::optional<Departure> left;
};

}  // namespace datamover::stream
