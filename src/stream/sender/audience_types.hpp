// SPDX-License-Identifier: BSD-3-Clause
// Records that an audience keeps for each array and each consumer.
#pragma once

#include <algorithm>
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
          credits(static_cast<std::size_t>(nprocs_), 0),
          queue(flow.policy, flow.queue_steps, flow.queue_bytes) {}

    /// Whether it is to be let in before the next step.
    bool is_ready() const { return is_subscribed && !is_active && !left; }
    std::int64_t least_credit() const { return *std::ranges::min_element(credits); }
    /// Whether nothing is to be announced of a step with all arrays that it wants.
    bool is_told_by_messages() const {
        return hears_by_messages && announced.size() == wanted->size();
    }
    bool is_told_by_messages(const Step& step) const {
        return is_told_by_messages() && step.arrays.size() == wanted->size();
    }
    /// Whether steps that begin are for it.
    bool gets_steps() const { return is_active && !left; }
    /// Whether a process has taken all steps before a place.
    bool has_taken_before(std::int64_t rank, std::int64_t place) const {
        for (const auto& [on_its_way, ranks] : missing)
            if (on_its_way < place && ranks.contains(rank)) return false;
        for (std::int64_t waiting = queue.next_place(); waiting < place; ++waiting) {
            const auto found = early.find(waiting);
            if (found == early.end() || !found->second.contains(rank)) return false;
        }
        return true;
    }
    /// Whether there is a step that it has not taken, and that does not wait for its sender.
    bool could_take() const {
        const auto& waiting = queue.waiting();
        return !missing.empty() || (!waiting.empty() && waiting.front().complete);
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
    std::vector<std::int64_t> credits;  ///< by rank
    StepQueue queue;
    Clock::time_point took = Clock::now();  ///< something; or something began to wait for it
    std::map<std::int64_t, std::set<std::int64_t>> missing;  ///< who has not taken a place's step
    /// Who has, of steps that wait here for credits of others: their messages do not.
    std::map<std::int64_t, std::set<std::int64_t>> early;
    std::set<int> announced;                 ///< arrays of steps that were announced
    std::map<int, std::int64_t> step_bytes;  ///< by array
    std::set<int> told;                      ///< arrays that it knows of
    int times_asked = 0;
    std::map<std::int64_t, std::int64_t> taken_before;  ///< by rank: behind the last place taken
    bool takes_all = false;  ///< each array is wanted, whole, as a step of its own
    bool says_taken_by_data = false;
    bool has_said_done = false;      ///< over its control connections
    bool hears_by_messages = false;  ///< of whole steps of arrays that were announced
    /// Whether it has requested arrays, and all its processes have granted credits. It was told so,
    /// so that the next step that begins is for it.
    bool is_subscribed = false;
    bool asks_for_arrays = false, is_active = false;
    /// The first of its processes that left, by the steps that it took: the others get no more.
    std::optional<Departure> left;
};

}  // namespace datamover::stream
