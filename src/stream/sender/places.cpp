// SPDX-License-Identifier: BSD-3-Clause
// Assignment of places to streams, and their return.
#include "stream/sender/places.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

constexpr std::int64_t max_active = 1 << 16;

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

std::shared_ptr<void> Places::enter(const std::string& name, PlaceHolder* who,
                                    std::function<void()> free) {
    const auto leaves = [this, name, process = ::getpid()](void*) {
        // In a forked process the lock may be a thread's that is not there.
        if (::getpid() == process) leave(name);
    };
    {
        const std::lock_guard held(lock);
        if (find_named(name) != nullptr)
            throw make_error(ErrorCode::invalid_argument,
                             "the manager already has a stream named '", name, "'");
        entries_.push_back({name, who, std::move(free)});
    }
    return {nullptr, leaves};
}

void Places::leave(const std::string& name) {
    const std::lock_guard held(lock);
    stop_waiting(find_named(name)->who);
    std::erase_if(entries_, [&name](const Entry& entry) { return entry.name == name; });
    changed.notify_all();
}

Places::Entry* Places::find(const PlaceHolder& who) {
    const auto found = std::ranges::find(entries_, &who, &Entry::who);
    return found != entries_.end() ? &*found : nullptr;
}

Places::Entry* Places::find_named(const std::string& name) {
    const auto found = std::ranges::find(entries_, name, &Entry::name);
    return found != entries_.end() ? &*found : nullptr;
}

std::int64_t Places::turn_of(const PlaceHolder& who) {
    const Entry* const found = find(who);
    return found != nullptr ? found->turn : -1;
}

std::int64_t Places::active() const {
    return std::ranges::count(entries_, true, &Entry::has_place);
}

void Places::stop_waiting(const PlaceHolder* who) {
    if (std::erase(waiting_, who) != 0) changed.notify_all();
}

bool Places::take(PlaceHolder& who, bool begins_step) {
    Entry* const found = find(who);
    if (found == nullptr) throw Error(ErrorCode::invalid_state, "the stream is closed");
    Entry& mine = *found;
    const bool others_wait = std::ranges::count(waiting_, &who) != std::ssize(waiting_);
    if (!mine.has_place || (begins_step && others_wait)) {
        if (std::ranges::find(waiting_, &who) == waiting_.end()) waiting_.push_back(&who);
        if (waiting_.front() != &who || !make_place(mine)) return false;
        if (!mine.has_place) mine.turn = turns_++;
        mine.has_place = true;
    }
    mine.thread = std::this_thread::get_id();
    stop_waiting(&who);
    return true;
}

/// Whether there is a place: of a stream that holds nothing for a consumer, the longest one first.
bool Places::make_place(const Entry& mine) {
    if (mine.has_place || active() < options_.active) return true;
    if (options_.stall_seconds)
        for (const Entry& entry : entries_)
            if (entry.has_place)
                entry.who->end_stalled(Clock::now() - clock_time(*options_.stall_seconds));
    Entry* oldest = nullptr;
    for (Entry& entry : entries_)
        if (entry.has_place && entry.who->is_taken() &&
            (oldest == nullptr || entry.turn < oldest->turn))
            oldest = &entry;
    if (oldest == nullptr) {
        check_progress(mine);
        return false;
    }
    oldest->has_place = false;
    ended_.emplace_back(oldest->name, oldest->turn);
    return true;
}

/// Who waits for steps that only its own thread could go on with would wait for ever.
void Places::check_progress(const Entry& mine) const {
    std::string names;
    for (const Entry& entry : entries_) {
        if (!entry.has_place) continue;
        if (!entry.who->is_within_step() || entry.thread != std::this_thread::get_id()) return;
        names += (names.empty() ? "'" : ", '") + entry.name + "'";
    }
    throw make_error(ErrorCode::invalid_state, "stream '", mine.name,
                     "' cannot get buffers: at most ", options_.active,
                     " streams (active) have them, and these are within a step: ", names,
                     "; send the rest of their step or call end_step() first");
}

void Places::tell_again(const std::vector<Turn>& ended) {
    ended_.insert(ended_.end(), ended.begin(), ended.end());
}

void Places::begin_turn(const Turn& turn) {
    const std::lock_guard freeing(freeing_);
    const std::lock_guard held(lock);
    if (Entry* const entry = find_named(turn.first)) entry->begun = turn.second;
}

void Places::end_turn(const Turn& turn) {
    const std::lock_guard freeing(freeing_);
    std::function<void()> free;
    {
        const std::lock_guard held(lock);
        const Entry* const entry = find_named(turn.first);
        if (entry != nullptr && entry->begun <= turn.second) free = entry->free;
    }
    if (free) free();  // which waits for whoever may wait for the lock
}

}  // namespace datamover::stream
