// SPDX-License-Identifier: BSD-3-Clause
// Assignment of places to streams, and their return.
#include "stream/sender/places.hpp"

#include <algorithm>
#include <cmath>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::int64_t max_active = 1 << 16;

SteadyClock::time_point before_now(double seconds) {
    constexpr double most = 1e9;  // beyond it the clock's numbers end
    return SteadyClock::now() - std::chrono::duration_cast<SteadyClock::duration>(
                                    std::chrono::duration<double>(std::min(seconds, most)));
}

}  // namespace

Places::Places(const StreamManagerOptions& options) : options_(options) {
    const auto refuse = [](const std::string& words) {
        throw Error(ErrorCode::invalid_argument, words);
    };
    if (options.active < 1 || options.active > max_active)
        refuse(concat("active is ", options.active, "; it must be 1 to ", max_active));
    if (options.unit != "step" && options.unit != "array")
        refuse("unit is \"" + options.unit + "\"; it must be \"step\" or \"array\"");
    if (options.stall_seconds &&
        !(*options.stall_seconds > 0 && std::isfinite(*options.stall_seconds)))
        refuse(concat("stall_seconds is ", *options.stall_seconds, "; it must be above 0 s"));
}

void Places::enter(const PlaceHolder& who, const std::string& name) {
    auto entry = std::make_unique<Entry>();
    entry->who = &who;
    entry->name = name;
    entries_.push_back(std::move(entry));
}

void Places::leave(const PlaceHolder& who) {
    stop_waiting(who);
    std::erase_if(entries_, [&who](const auto& entry) { return entry->who == &who; });
    changed.notify_all();
}

Places::Entry& Places::entry_of(const PlaceHolder& who) {
    for (const auto& entry : entries_)
        if (entry->who == &who) return *entry;
    throw Error(ErrorCode::invalid_state, "the stream is closed");
}

std::int64_t Places::turn_of(const PlaceHolder& who) const {
    for (const auto& entry : entries_)
        if (entry->who == &who) return entry->turn;
    return -1;
}

std::int64_t Places::active() const {
    return std::ranges::count_if(entries_,
                                 [](const auto& entry) { return entry->holder != nullptr; });
}

void Places::stop_waiting(const PlaceHolder& who) {
    if (std::erase(waiting_, &who) != 0) changed.notify_all();
}

bool Places::others_wait(const PlaceHolder& who) const {
    return std::ranges::any_of(waiting_,
                               [&who](const PlaceHolder* other) { return other != &who; });
}

bool Places::take(PlaceHolder& who, bool begins_step) {
    Entry& mine = entry_of(who);
    const bool goes_on = mine.holder != nullptr && (!begins_step || !others_wait(who));
    if (!goes_on) {
        if (std::ranges::find(waiting_, &who) == waiting_.end()) waiting_.push_back(&who);
        if (waiting_.front() != &who || !make_place(mine)) return false;
        if (mine.holder == nullptr) mine.turn = turns_++;
        mine.holder = &who;
    }
    mine.thread = std::this_thread::get_id();
    stop_waiting(who);
    return true;
}

/// Whether there is a place: of a stream that holds nothing for a consumer, the longest one first.
bool Places::make_place(const Entry& mine) {
    if (mine.holder != nullptr || active() < options_.active) return true;
    if (options_.stall_seconds)
        for (const auto& entry : entries_)
            if (entry->holder != nullptr)
                entry->holder->end_stalled(before_now(*options_.stall_seconds));
    Entry* oldest = nullptr;
    for (const auto& entry : entries_)
        if (entry->holder != nullptr && entry->holder->is_taken() &&
            (oldest == nullptr || entry->turn < oldest->turn))
            oldest = entry.get();
    if (oldest == nullptr) {
        check_progress(mine);
        return false;
    }
    oldest->holder = nullptr;
    ended_.emplace_back(oldest->name, oldest->turn);
    return true;
}

/// Who waits for steps that only its own thread could go on with would wait for ever.
void Places::check_progress(const Entry& mine) const {
    std::string names;
    for (const auto& entry : entries_) {
        if (entry->holder == nullptr) continue;
        if (!entry->holder->is_within_step() || entry->thread != std::this_thread::get_id()) return;
        names += (names.empty() ? "'" : ", '") + entry->name + "'";
    }
    throw make_error(ErrorCode::invalid_state, "stream '", mine.name,
                     "' cannot get buffers: at most ", options_.active,
                     " streams (active) have them, and these are within a step: ", names,
                     "; send the rest of their step or call end_step() first");
}

void Places::tell_again(const std::vector<Turn>& ended) {
    ended_.insert(ended_.end(), ended.begin(), ended.end());
}

Places::Listed::Listed(std::shared_ptr<Places> places, const std::string& name,
                       std::function<void()> free)
    : places_(std::move(places)), name_(name) {
    const std::lock_guard held(places_->memory_lock_);
    if (!places_->memory_.emplace(name, Memory{std::move(free), -1}).second)
        throw make_error(ErrorCode::invalid_argument, "the manager already has a stream named '",
                         name, "'");
}

Places::Listed::~Listed() {
    const std::lock_guard held(places_->memory_lock_);
    places_->memory_.erase(name_);
}

void Places::begin_turn(const Turn& turn) {
    const std::lock_guard held(memory_lock_);
    const auto found = memory_.find(turn.first);
    if (found != memory_.end()) found->second.turn = turn.second;
}

void Places::end_turn(const Turn& turn) {
    const std::lock_guard held(memory_lock_);
    const auto found = memory_.find(turn.first);
    if (found != memory_.end() && found->second.turn <= turn.second) found->second.free();
}

}  // namespace datamover::stream
