// SPDX-License-Identifier: BSD-3-Clause
// Decisions of sending process 0 for the consumers, one for each call of the sending program.
#include "stream/sender/audience.hpp"

#include <algorithm>
#include <exception>

#include "geometry/make_error.hpp"
#include "stream/sender/audience_types.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {
namespace {

/// So long consumers that take nothing are waited for at the end.
constexpr std::chrono::seconds finish_time{5};

}  // namespace

Audience::Audience(Flow flow, std::int64_t least, Record welcome, std::shared_ptr<Places> places,
                   const std::string& name)
    : flow_(flow),
      least_(least),
      welcome_(std::move(welcome)),
      places_(places ? std::move(places) : std::make_shared<Places>(StreamManagerOptions())),
      lock_(places_->lock),
      changed_(places_->changed) {
    const std::lock_guard lock(lock_);
    places_->enter(*this, name);
}

Audience::~Audience() {
    leave_places();
}

void Audience::leave_places() {
    const std::lock_guard lock(lock_);
    places_->leave(*this);
}

void Audience::add_array(SentArray array) {
    Layout layout = layout_of_bytes(array.layout, array.nprocs);
    const std::lock_guard lock(lock_);
    arrays_.push_back({std::move(array), std::move(layout)});
    for (const ConsumerPtr& consumer : consumers())
        if (consumer->asks_for_arrays) tell_arrays(*consumer);
}

std::vector<Audience::ConsumerPtr> Audience::consumers() const {
    std::vector<ConsumerPtr> all;
    for (const auto& [key, consumer] : consumers_) all.push_back(consumer);
    std::ranges::sort(
        all, [](const ConsumerPtr& a, const ConsumerPtr& b) { return a->number < b->number; });
    return all;
}

std::optional<Decision> Audience::decide(int array, std::int64_t sequence, std::int64_t number,
                                         std::chrono::milliseconds time) {
    std::unique_lock lock(lock_);
    const Array& sent =
        arrays_.at(static_cast<std::size_t>(array));  // the caller alone adds others
    std::optional<Decision> decision = try_to_decide(sent, sequence, number);
    if (!decision && time.count() > 0) {
        changed_.wait_for(lock, time);
        decision = try_to_decide(sent, sequence, number);
    }
    return decision;
}

std::optional<Decision> Audience::try_to_decide(const Array& array, std::int64_t sequence,
                                                std::int64_t number) {
    // Within a step nobody is let in: the rest of it would be no step.
    if (sequence != sequence_ && !admit()) {
        places_->stop_waiting(*this);
        return std::nullopt;
    }
    undone_ = {};  // what was decided before has been done
    foreseen_ = {};
    std::vector<std::pair<ConsumerPtr, std::int64_t>> chosen;
    bool must_wait = false;
    for (const ConsumerPtr& consumer : consumers()) {
        if (!consumer->gets_steps()) continue;
        StepQueue& queue = consumer->queue;
        if (!queue.waiting().empty() && queue.waiting().back().sequence != sequence) {
            queue.complete();
            pump(*consumer);
        }
        if (!wants(consumer, array) || !fits(consumer, array)) continue;
        const std::int64_t bytes = consumer->step_bytes[array.sent.number];
        if (!bounds(consumer, array, sequence, bytes)) continue;
        const StepQueue::Answer answer = queue.make_room(sequence, bytes);
        for (const std::int64_t place : answer.dropped)
            news_.dropped.emplace_back(consumer->key, place);
        must_wait = must_wait || answer.room == StepQueue::Room::wait;
        if (answer.room != StepQueue::Room::yes) continue;
        chosen.emplace_back(consumer, bytes);
    }
    // Whoever waited for a place, and wants none now, would keep it from those behind.
    if (must_wait || chosen.empty()) places_->stop_waiting(*this);
    if (must_wait) return std::nullopt;
    if (!chosen.empty() && !places_->take(*this, sequence != sequence_)) return std::nullopt;
    Decision decision = std::exchange(news_, {});
    decision.turn = places_->turn_of(*this);
    decision.ended = places_->take_ended();
    decision.is_told_by_messages = decision.joined.empty();
    for (const auto& [consumer, bytes] : chosen) {
        decision.is_told_by_messages &= consumer->is_told_by_messages();
        if (consumer->queue.is_empty()) consumer->took = Clock::now();
        decision.to.emplace_back(consumer->key,
                                 consumer->queue.add(sequence, number, array.sent.number, bytes));
    }
    sequence_ = sequence;
    undone_ = decision;
    return decision;
}

Audience::Foreseen Audience::foresee(int array, std::int64_t sequence,
                                     std::chrono::milliseconds time) {
    std::unique_lock lock(lock_);
    const Array& sent = arrays_.at(static_cast<std::size_t>(array));
    Foreseen foreseen = look_ahead(sent, sequence);
    if (!foreseen.decision && !foreseen.needs_more && time.count() > 0) {
        changed_.wait_for(lock, time);
        foreseen = look_ahead(sent, sequence);
    }
    foreseen_ = foreseen.decision.value_or(Decision());
    return foreseen;
}

/// The place after the last step that a process of a consumer can have taken. Messages are sent
/// before all processes have granted their step, and before this process has added it to the queue.
std::int64_t Audience::end_of_sent(const Consumer& consumer) const {
    if (!consumer.hears_by_messages) return consumer.queue.next_place();
    std::int64_t end = consumer.queue.end_place();
    for (const auto& [key, place] : foreseen_.to)
        if (key == consumer.key) end = std::max(end, place + 1);
    return end;
}

Audience::Foreseen Audience::look_ahead(const Array& array, std::int64_t sequence) const {
    const Foreseen unknown{std::nullopt, true};
    if (!news_.joined.empty() || (sequence != sequence_ && !admits_nobody())) return unknown;
    Decision decision;
    decision.is_told_by_messages = true;
    bool must_wait = false;
    for (const ConsumerPtr& consumer : consumers()) {
        if (!consumer->gets_steps()) continue;
        const StepQueue& queue = consumer->queue;
        const bool ends_step =
            queue.is_within_step() && queue.waiting().back().sequence != sequence;
        if (ends_step) return unknown;
        if (!consumer->wanted->contains(array.sent.name)) {
            if (consumer->takes_all) return unknown;
            continue;
        }
        const auto bytes = consumer->step_bytes.find(array.sent.number);
        if (bytes == consumer->step_bytes.end() ||
            bytes->second > flow_.queue_bytes - queue.bytes_of(sequence))
            return unknown;
        const StepQueue::Room room = queue.room_for(sequence, bytes->second);
        if (room == StepQueue::Room::by_dropping) return unknown;
        must_wait = must_wait || room == StepQueue::Room::wait;
        decision.is_told_by_messages &= consumer->is_told_by_messages();
        decision.to.emplace_back(consumer->key, queue.place_of(sequence));
    }
    if (must_wait) return {};
    decision.turn = places_->turn_of(*this);
    if (!decision.to.empty() && decision.turn < 0) return unknown;
    decision.gone = news_.gone;
    decision.dropped = news_.dropped;
    return {std::move(decision), false};
}

/// Whether nobody is let in before the next step, nor has to be.
bool Audience::admits_nobody() const {
    std::int64_t active = 0;
    for (const auto& [key, consumer] : consumers_) {
        if (consumer->is_ready()) return false;
        active += consumer->gets_steps();
    }
    return active >= least_;
}

void Audience::carry_out(int array, std::int64_t sequence, std::int64_t number) {
    const std::lock_guard lock(lock_);
    undone_ = std::exchange(foreseen_, {});  // where what follows fails, it is withdrawn
    const auto forget = [](auto& news, std::size_t told) {  // more may have come since
        news.erase(news.begin(), news.begin() + static_cast<std::ptrdiff_t>(told));
    };
    forget(news_.gone, undone_.gone.size());
    forget(news_.dropped, undone_.dropped.size());
    sequence_ = sequence;
    for (const auto& [key, place] : undone_.to) {
        const auto found = consumers_.find(key);
        if (found == consumers_.end()) continue;  // the others hear of it with the next one
        Consumer& consumer = *found->second;
        if (consumer.queue.is_empty()) consumer.took = Clock::now();
        consumer.queue.add(sequence, number, array, consumer.step_bytes.at(array));
    }
}

void Audience::stop_waiting() {
    const std::lock_guard lock(lock_);
    places_->stop_waiting(*this);
}

void Audience::withdraw(const Error& why) {
    const std::lock_guard lock(lock_);
    const Decision lost = std::exchange(undone_, {});
    // Perhaps some processes have heard of these; to hear of them again changes nothing.
    news_.gone.insert(news_.gone.end(), lost.gone.begin(), lost.gone.end());
    news_.dropped.insert(news_.dropped.end(), lost.dropped.begin(), lost.dropped.end());
    places_->tell_again(lost.ended);
    std::set<std::string> keys;
    for (const auto& one : lost.joined) keys.insert(one.key);
    for (const auto& [key, place] : lost.to) keys.insert(key);
    for (const std::string& key : keys)
        if (const auto found = consumers_.find(key); found != consumers_.end())
            leave(ConsumerPtr(found->second), why);
    if (!keys.empty()) --sequence_;  // who comes now is let in where the step is sent again
}

bool Audience::is_taken() const {
    return std::ranges::all_of(consumers_,
                               [](const auto& entry) { return entry.second->queue.is_empty(); });
}

bool Audience::is_within_step() const {
    return std::ranges::any_of(
        consumers_, [](const auto& entry) { return entry.second->queue.is_within_step(); });
}

void Audience::end_stalled(Clock::time_point since) {
    for (const ConsumerPtr& consumer : consumers())
        if (consumer->could_take() && consumer->took < since)
            leave(consumer, Error(ErrorCode::timeout,
                                  "the consumer took no step for stall_seconds while another "
                                  "stream waited for its "
                                  "buffers"));
}

/// Lets in who is ready, between steps; false where too few are there.
bool Audience::admit() {
    std::int64_t active = 0;
    std::vector<ConsumerPtr> ready;
    for (const ConsumerPtr& consumer : consumers()) {
        active += consumer->gets_steps();
        if (consumer->is_ready()) ready.push_back(consumer);
    }
    if (active + static_cast<std::int64_t>(ready.size()) < least_) return false;
    least_ = 0;
    for (const ConsumerPtr& consumer : ready) {
        consumer->is_active = true;
        ++came_;
        news_.joined.push_back(
            {consumer->key, consumer->nprocs, consumer->wanted_words, consumer->takes_all});
    }
    return true;
}

void Audience::tell_arrays(Consumer& consumer) {
    consumer.asks_for_arrays = false;
    for (const Array& array : arrays_) tell_array(consumer, array);
    if (const auto first = consumer.links.find(0); first != consumer.links.end())
        first->second->say(Record().add("type", "arrays").bytes());
}

void Audience::tell_array(Consumer& consumer, const Array& array) {
    if (consumer.told.insert(array.sent.number).second) consumer.say(words_of(array));
}

Record Audience::words_of(const Array& array) {
    return Record()
        .add("type", "array")
        .add("number", array.sent.number)
        .add("name", array.sent.name)
        .add("dtype", array.sent.dtype)
        .add("elem_bytes", array.sent.elem_bytes)
        .add("nprocs", array.sent.nprocs)
        .add("layout", array.sent.layout);
}

bool Audience::wants(const ConsumerPtr& consumer, const Array& array) {
    if (consumer->wanted->contains(array.sent.name)) return true;
    if (!consumer->takes_all) return false;
    try {
        consumer->wanted->emplace(array.sent.name, whole_of(array.layout));
    } catch (const std::exception& error) {  // no concern of the others
        leave(consumer, Error(ErrorCode::no_memory, error.what()));
        return false;
    }
    return true;
}

/// Whether an array can go to a consumer at all; one to whom it cannot is refused.
bool Audience::fits(const ConsumerPtr& consumer, const Array& array) {
    if (consumer->step_bytes.contains(array.sent.number)) return true;
    const Layout& wanted = consumer->wanted->at(array.sent.name);
    try {
        plan_between(array.layout, wanted);
        std::int64_t bytes = 0;
        for (std::int64_t rank = 0; rank < consumer->nprocs; ++rank) {
            std::int64_t more = 0;
            if (__builtin_mul_overflow(wanted.local_elems(rank), array.sent.elem_bytes, &more) ||
                __builtin_add_overflow(bytes, more, &bytes))
                throw Error(ErrorCode::out_of_range, "a step has more than 2^63 bytes");
        }
        consumer->step_bytes[array.sent.number] = bytes;
    } catch (const Error& error) {
        leave(consumer, Error(error.code(), "array '" + array.sent.name + "': " + error.what()));
        return false;
    } catch (const std::exception& error) {  // no memory for the plan: no concern of the others
        leave(consumer, Error(ErrorCode::no_memory, error.what()));
        return false;
    }
    return true;
}

/// Whether a step has no more bytes than are kept; a consumer for which not is refused.
bool Audience::bounds(const ConsumerPtr& consumer, const Array& array, std::int64_t sequence,
                      std::int64_t bytes) {
    const std::int64_t before = consumer->queue.bytes_of(sequence);
    if (bytes <= flow_.queue_bytes - before) return true;
    leave(consumer,
          make_error(ErrorCode::out_of_range, "a step needs ", before, " + ", bytes,
                     " bytes with array '", array.sent.name, "'; the stream buffers at most ",
                     flow_.queue_bytes, " (queue_bytes)"));
    return false;
}

void Audience::sent(const std::vector<std::string>& keys, std::int64_t sequence) {
    const std::lock_guard lock(lock_);
    undone_ = {};
    for (const std::string& key : keys) {
        const auto found = consumers_.find(key);
        if (found == consumers_.end() || found->second->queue.waiting().empty()) continue;
        Consumer& consumer = *found->second;
        const Step& newest = consumer.queue.waiting().back();
        // Each of its arrays is one that the consumer wants, and none is there twice.
        if (newest.sequence == sequence && (newest.arrays.size() == consumer.wanted->size() ||
                                            consumer.takes_all || places_->ends_each_array()))
            consumer.queue.complete();
        pump(consumer);
    }
}

void Audience::refuse(const std::string& key, const Error& error) {
    const std::lock_guard lock(lock_);
    const auto found = consumers_.find(key);
    if (found != consumers_.end()) leave(ConsumerPtr(found->second), error);
}

void Audience::refuse_all(const Error& why) {
    const std::lock_guard lock(lock_);
    for (const ConsumerPtr& consumer : consumers()) leave(consumer, why);
}

void Audience::finish_steps() {
    const std::lock_guard lock(lock_);
    for (const ConsumerPtr& consumer : consumers()) {
        consumer->queue.complete();
        pump(*consumer);
    }
}

bool Audience::wait_until_taken(std::chrono::milliseconds time) {
    std::unique_lock lock(lock_);
    return changed_.wait_for(lock, time, [this] { return is_taken(); });
}

void Audience::end() {
    std::set<LinkPtr> links;
    {
        const std::lock_guard lock(lock_);
        has_ended_ = true;
        for (const ConsumerPtr& consumer : consumers()) {
            tell_arrays(*consumer);  // all learn of arrays that came later
            end(consumer);
        }
        consumers_.clear();
        links = links_;
    }
    const Clock::time_point deadline = Clock::now() + finish_time;  // for all of them together
    for (const LinkPtr& link : links) link->finish(deadline);
}

/// Tells a consumer that this was all; that this is an error where its processes have perhaps not
/// got the same steps: of those that wait here, each takes what it has credits for.
void Audience::end(const ConsumerPtr& consumer) {
    StepQueue& queue = consumer->queue;
    const bool may_differ =
        consumer->left || (consumer->nprocs > 1 && !queue.waiting().empty() &&
                           consumer->is_told_by_messages(queue.waiting().front()));
    const std::int64_t steps = queue.next_place();
    queue.drop_all();
    if (may_differ)
        return leave(consumer, Error(ErrorCode::timeout,
                                     "the stream was closed before all processes of the consumer "
                                     "had taken the same steps"));
    dropped_ += queue.dropped();
    left_ += consumer->is_active;
    consumer->say(Record().add("type", "end").add("dropped", queue.dropped()).add("steps", steps));
}

AudienceCounters Audience::counters() {
    const std::lock_guard lock(lock_);
    AudienceCounters counters{0, came_, left_, lost_, dropped_};
    for (const auto& [key, consumer] : consumers_) {
        if (consumer->is_active)
            ++(consumer->gets_steps()       ? counters.consumers
               : consumer->left->is_orderly ? counters.left
                                            : counters.lost);
        counters.steps_dropped += consumer->queue.dropped();
    }
    return counters;
}

}  // namespace datamover::stream
