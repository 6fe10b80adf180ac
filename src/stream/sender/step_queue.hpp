// SPDX-License-Identifier: BSD-3-Clause
// StepQueue: the steps that wait for a consumer, that are being sent to it, and that it does not
// get.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"

namespace datamover::stream {

/// The action if a consumer's queue is full: the sender waits, or the oldest waiting step is
/// dropped.
enum class Policy { block, drop_oldest };

/// Throws invalid_argument for no policy's name.
inline Policy policy_of_name(const std::string& name) {
    if (name == "block") return Policy::block;
    if (name == "drop_oldest") return Policy::drop_oldest;
    throw make_error(ErrorCode::invalid_argument, "policy is \"", name,
                     "\"; it must be \"block\" or \"drop_oldest\"");
}

/// How a stream bounds what waits for a consumer.
struct Flow {
    Policy policy = Policy::block;
    std::int64_t queue_steps = 2;
    std::int64_t queue_bytes = 1 << 30;
};

/// One step for one consumer: the arrays that were sent of it so far.
struct Step {
    std::int64_t sequence = 0;  ///< its place among all steps of the stream
    std::int64_t number = 0;    ///< what the sending program calls it
    std::int64_t place = 0;     ///< among the steps that were ever added to this consumer's queue
    std::vector<int> arrays;
    std::int64_t bytes = 0;
    bool complete = false;
};

/// The steps of one consumer: waiting (bounded, may be dropped), then on their way. Bookkeeping
/// alone: no sockets, no memory of arrays. A step stays in the queue until the consumer has granted
/// a credit for it; then it is on its way and cannot be dropped any more. One step alone always has
/// room.
class StepQueue {
public:
    explicit StepQueue(const Flow& flow) : flow_(flow) {}

    enum class Room { yes, wait, by_dropping };
    /// Whether an array may be added as it is, after a wait, or once `drop_oldest` has
    /// dropped steps.
    Room room_for(std::int64_t sequence, std::int64_t bytes) const {
        // A step that has begun is one of those that wait, and the last to be dropped.
        const bool has_begun = is_newest(sequence);
        if (waiting_.size() <= std::size_t{has_begun}) return Room::yes;
        std::int64_t held = 0;
        for (const Step& step : waiting_) held += step.bytes;
        const bool has_steps =
            !has_begun && static_cast<std::int64_t>(waiting_.size()) >= flow_.queue_steps;
        if (!has_steps && held <= flow_.queue_bytes - bytes) return Room::yes;
        return flow_.policy == Policy::block ? Room::wait : Room::by_dropping;
    }
    /// Drops the oldest step that waits; its place.
    std::int64_t drop_oldest() {
        const std::int64_t place = waiting_.front().place;
        ++dropped_;
        waiting_.pop_front();
        return place;
    }
    /// The place of a step to which an array is added next.
    std::int64_t place_of(std::int64_t sequence) const {
        return is_newest(sequence) ? waiting_.back().place : count_;
    }
    /// Adds an array to its step; the step's place.
    std::int64_t add(std::int64_t sequence, std::int64_t number, int array, std::int64_t bytes) {
        if (!is_newest(sequence)) waiting_.push_back({sequence, number, count_++, {}, 0, false});
        Step& step = waiting_.back();
        step.arrays.push_back(array);
        step.bytes += bytes;
        return step.place;
    }
    /// Nothing more comes of the newest step.
    void complete() {
        if (!waiting_.empty()) waiting_.back().complete = true;
    }
    /// Takes the oldest complete step; it is on its way from now on. None where there is none, or
    /// where as many bytes are on their way as may wait.
    std::optional<Step> next_to_send() {
        if (waiting_.empty() || !waiting_.front().complete) return std::nullopt;
        std::int64_t travelling = 0;
        for (const auto& [place, bytes] : travelling_bytes_) travelling += bytes;
        if (travelling != 0 && travelling > flow_.queue_bytes - waiting_.front().bytes)
            return std::nullopt;
        Step step = std::move(waiting_.front());
        waiting_.pop_front();
        travelling_bytes_.emplace(step.place, step.bytes);
        return step;
    }
    /// All steps before a place have been taken; whether any of them was on its way.
    bool taken_before(std::int64_t place) {
        const auto is_taken = [place](const auto& entry) { return entry.first < place; };
        return std::erase_if(travelling_bytes_, is_taken) != 0;
    }
    /// Counts what waits as dropped.
    void drop_all() {
        dropped_ += static_cast<std::int64_t>(waiting_.size());
        waiting_.clear();
    }

    /// The bytes of the steps on their way, by place.
    const std::map<std::int64_t, std::int64_t>& travelling() const { return travelling_bytes_; }
    bool is_empty() const { return waiting_.empty() && travelling_bytes_.empty(); }
    /// Whether more may come of the newest step.
    bool is_within_step() const { return !waiting_.empty() && !waiting_.back().complete; }
    const std::deque<Step>& waiting() const { return waiting_; }
    /// Of the step that comes on its way next.
    std::int64_t next_place() const { return waiting_.empty() ? count_ : waiting_.front().place; }
    /// After all steps that were ever added.
    std::int64_t end_place() const { return count_; }
    std::int64_t dropped() const { return dropped_; }
    /// The bytes of a step that were added so far.
    std::int64_t bytes_of(std::int64_t sequence) const {
        return is_newest(sequence) ? waiting_.back().bytes : 0;
    }

private:
    /// Where the newest is complete, what comes of the same step is another one for the consumer.
    bool is_newest(std::int64_t sequence) const {
        return is_within_step() && waiting_.back().sequence == sequence;
    }

    Flow flow_;
    std::deque<Step> waiting_;
    std::map<std::int64_t, std::int64_t> travelling_bytes_;  ///< by place
    std::int64_t dropped_ = 0, count_ = 0;
};

}  // namespace datamover::stream
