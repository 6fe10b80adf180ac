// SPDX-License-Identifier: BSD-3-Clause
// Limits of a queue by its policy.
#include "stream/sender/step_queue.hpp"

#include "geometry/make_error.hpp"

namespace datamover::stream {

Policy policy_of_name(const std::string& name) {
    if (name == "block") return Policy::block;
    if (name == "drop_oldest") return Policy::drop_oldest;
    throw make_error(ErrorCode::invalid_argument, "policy is \"", name,
                     "\"; it must be \"block\" or \"drop_oldest\"");
}

std::int64_t StepQueue::drop_oldest() {
    const std::int64_t place = waiting_.front().place;
    ++dropped_;
    waiting_.pop_front();
    return place;
}

StepQueue::Room StepQueue::room_for(std::int64_t sequence, std::int64_t bytes) const {
    // A step that has begun is one of those that wait, and the last to be dropped.
    const bool has_begun = is_newest(sequence);
    if (waiting_.size() <= std::size_t{has_begun}) return Room::yes;
    std::int64_t held = 0;
    for (const Step& step : waiting_) held += step.bytes;
    const bool has_steps = !has_begun && static_cast<std::int64_t>(waiting_.size()) >= max_steps_;
    if (!has_steps && held <= max_bytes_ - bytes) return Room::yes;
    return policy_ == Policy::block ? Room::wait : Room::by_dropping;
}

std::int64_t StepQueue::bytes_of(std::int64_t sequence) const {
    return is_newest(sequence) ? waiting_.back().bytes : 0;
}

std::int64_t StepQueue::add(std::int64_t sequence, std::int64_t number, int array,
                            std::int64_t bytes) {
    if (!is_newest(sequence)) waiting_.push_back({sequence, number, count_++, {}, 0, false});
    Step& step = waiting_.back();
    step.arrays.push_back(array);
    step.bytes += bytes;
    return step.place;
}

void StepQueue::complete() {
    if (!waiting_.empty()) waiting_.back().complete = true;
}

std::optional<Step> StepQueue::next_to_send() {
    if (waiting_.empty() || !waiting_.front().complete) return std::nullopt;
    std::int64_t travelling = 0;
    for (const auto& [place, bytes] : travelling_bytes_) travelling += bytes;
    if (travelling != 0 && travelling > max_bytes_ - waiting_.front().bytes) return std::nullopt;
    Step step = std::move(waiting_.front());
    waiting_.pop_front();
    travelling_bytes_.emplace(step.place, step.bytes);
    return step;
}

void StepQueue::drop_all() {
    dropped_ += static_cast<std::int64_t>(waiting_.size());
    waiting_.clear();
}

}  // namespace datamover::stream
