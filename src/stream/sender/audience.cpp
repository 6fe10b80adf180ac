// SPDX-License-Identifier: BSD-3-Clause
// Decisions of sending process 0 for the consumers, one for each call of the sending program, and
// the control connections of consumers. No input is trusted.
#include "stream/sender/audience.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "stream/wire/token.hpp"

namespace datamover::stream {

/// One program that listens: its processes, what it wants, and how far it is.
struct Audience::Consumer {
    Consumer(std::int64_t number_, std::int64_t nprocs_, const Flow& flow)
        : number(number_),
          nprocs(nprocs_),
          progress(static_cast<std::size_t>(nprocs_)),
          queue(flow.policy, flow.queue_steps, flow.queue_bytes) {}

    /// Whether it is to be let in before the next step.
    bool is_ready() const { return stage == Stage::subscribed && !left; }
    /// Steps that may be sent to all processes.
    std::int64_t least_credit() const {
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (const auto& [granted, taken] : progress) {
            const auto& sent = queue.travelling();
            least = std::min(least, granted - std::distance(sent.lower_bound(taken), sent.end()));
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
    bool takes(const SentArray& array) const { return takes_all || wanted->contains(array.name); }
    /// Whether steps that begin are for it.
    bool gets_steps() const { return stage == Stage::active && !left; }
    /// Whether more may come of a step before this one.
    bool is_within_step_before(std::int64_t sequence) const {
        return gets_steps() && queue.is_within_step() &&
               queue.waiting().back().sequence != sequence;
    }
    /// Whether there is a step that it has not taken, and that does not wait for its sender.
    bool could_take() const {
        const auto& waiting = queue.waiting();
        return !queue.travelling().empty() || (!waiting.empty() && waiting.front().complete);
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
    /// How far a process is.
    struct Progress {
        std::int64_t granted = 0;  ///< steps that it has memory for beyond those that it has taken
        std::int64_t taken = 0;    ///< all steps before this place
    };
    std::vector<Progress> progress;  ///< by rank
    StepQueue queue;
    Clock::time_point took = Clock::now();   ///< something; or something began to wait for it
    std::set<int> announced;                 ///< arrays of steps that were announced
    std::map<int, std::int64_t> step_bytes;  ///< by array
    std::set<int> told;                      ///< arrays that it knows of
    int times_asked = 0;
    bool takes_all = false;          ///< each array is wanted, whole, as a step of its own
    bool hears_by_messages = false;  ///< of whole steps of arrays that were announced
    /// It is subscribed once it has requested arrays, and all its processes have granted credits:
    /// it was told so, so that the next step that begins is for it. From that step on it is active.
    enum class Stage { connected, subscribed, active };
    Stage stage = Stage::connected;
    bool asks_for_arrays = false;
    /// The first of its processes that left, by the steps that it took: the others get no more.
    std::optional<Departure> left;
};

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
    const std::lock_guard lock(lock_);
    arrays_.push_back(std::move(array));
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

bool Audience::is_within_step_before(std::int64_t sequence) {
    const std::lock_guard lock(lock_);
    return std::ranges::any_of(consumers_, [sequence](const auto& entry) {
        return entry.second->is_within_step_before(sequence);
    });
}

void Audience::finish_steps_before(std::int64_t sequence) {
    const std::lock_guard lock(lock_);
    for (const ConsumerPtr& consumer : consumers()) {
        if (!consumer->is_within_step_before(sequence)) continue;
        consumer->queue.complete();
        pump(*consumer);
    }
}

std::optional<Decision> Audience::decide(int array, std::int64_t sequence,
                                         std::chrono::milliseconds time) {
    std::unique_lock lock(lock_);
    // The caller alone adds other arrays.
    const SentArray& sent = arrays_.at(static_cast<std::size_t>(array));
    std::optional<Decision> decision = decide_now(sent, sequence);
    if (!decision && time.count() > 0) {
        changed_.wait_for(lock, time);
        decision = decide_now(sent, sequence);
    }
    if (decision) decided_ = *decision;
    return decision;
}

std::optional<Decision> Audience::decide_now(const SentArray& array, std::int64_t sequence) {
    // Within a step nobody is let in: the rest of it would be no step.
    if (sequence != sequence_) {
        const auto counts = [](const auto& entry) {
            return entry.second->gets_steps() || entry.second->is_ready();
        };
        if (std::ranges::count_if(consumers_, counts) < least_) {
            places_->stop_waiting(*this);
            return {};
        }
        admit();
    }
    std::vector<ConsumerPtr> chosen;
    bool must_wait = false;
    for (const ConsumerPtr& consumer : consumers()) {
        if (!consumer->gets_steps() || !consumer->takes(array)) continue;
        if (!fits(*consumer, array, sequence) && !take_on(consumer, array, sequence)) continue;
        StepQueue& queue = consumer->queue;
        const std::int64_t bytes = consumer->step_bytes.at(array.number);
        while (queue.room_for(sequence, bytes) == StepQueue::Room::by_dropping)
            news_.dropped.emplace_back(consumer->key, queue.drop_oldest());
        must_wait = must_wait || queue.room_for(sequence, bytes) == StepQueue::Room::wait;
        chosen.push_back(consumer);
    }
    // Whoever waited for a place, and wants none now, would keep it from those behind.
    if (must_wait || chosen.empty()) places_->stop_waiting(*this);
    if (must_wait) return {};
    if (!chosen.empty() && !places_->take(*this, sequence != sequence_)) return {};
    Decision decision = std::exchange(news_, {});
    decision.turn = places_->turn_of(*this);
    decision.ended = places_->take_ended();
    decision.is_told_by_messages = decision.joined.empty();
    for (const ConsumerPtr& consumer : chosen) {
        decision.is_told_by_messages &= consumer->is_told_by_messages();
        decision.to.emplace_back(consumer->key, consumer->queue.place_of(sequence));
    }
    return decision;
}

void Audience::carry_out(int array, std::int64_t sequence, std::int64_t number) {
    const std::lock_guard lock(lock_);
    sequence_ = sequence;
    for (const auto& [key, place] : decided_.to) {
        const auto found = consumers_.find(key);
        if (found == consumers_.end()) continue;  // the others hear of it with the next one
        Consumer& consumer = *found->second;
        if (consumer.queue.is_empty()) consumer.took = Clock::now();
        consumer.queue.add(sequence, number, array, consumer.step_bytes.at(array));
    }
}

void Audience::take_back() {
    const std::lock_guard lock(lock_);
    taken_back();
    changed_.notify_all();  // another stream may have the place
}

/// What was decided last, and not done by all. Perhaps some processes have heard of it; to hear of
/// its news again changes nothing.
Decision Audience::taken_back() {
    places_->stop_waiting(*this);
    const auto tell_again = [](auto& news, const auto& lost) {
        news.insert(news.end(), lost.begin(), lost.end());
    };
    tell_again(news_.joined, decided_.joined);
    tell_again(news_.gone, decided_.gone);
    tell_again(news_.dropped, decided_.dropped);
    news_.taken.merge(decided_.taken);  // what was said later counts
    places_->tell_again(decided_.ended);
    return std::exchange(decided_, {});
}

/// The place after the last step that a process of a consumer can have taken. Messages are sent
/// before all processes have granted their step, and before this process has added it to the queue.
std::int64_t Audience::end_of_sent(const Consumer& consumer) const {
    if (!consumer.hears_by_messages) return consumer.queue.next_place();
    std::int64_t end = consumer.queue.end_place();
    for (const auto& [key, place] : decided_.to)
        if (key == consumer.key) end = std::max(end, place + 1);
    return end;
}

void Audience::withdraw(const Error& why) {
    const std::lock_guard lock(lock_);
    const Decision lost = taken_back();
    std::set<std::string> keys;
    for (const auto& one : lost.joined) keys.insert(one.key);
    for (const auto& [key, place] : lost.to) keys.insert(key);
    for (const std::string& key : keys)
        if (const auto found = consumers_.find(key); found != consumers_.end())
            leave(ConsumerPtr(found->second), why);
    if (!keys.empty()) --sequence_;  // who comes now is let in where the step is sent again
}

bool Audience::is_taken() const {
    return decided_.to.empty() && std::ranges::all_of(consumers_, [](const auto& entry) {
               return entry.second->queue.is_empty();
           });
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

/// Lets in who is ready, between steps.
void Audience::admit() {
    least_ = 0;
    for (const ConsumerPtr& consumer : consumers()) {
        if (!consumer->is_ready()) continue;
        consumer->stage = Consumer::Stage::active;
        ++came_;
        news_.joined.push_back(
            {consumer->key, consumer->nprocs, *consumer->wanted, consumer->takes_all});
    }
}

void Audience::tell_arrays(Consumer& consumer) {
    consumer.asks_for_arrays = false;
    for (const SentArray& array : arrays_) tell_array(consumer, array);
    if (const auto first = consumer.links.find(0); first != consumer.links.end())
        first->second->say(Record().add("type", "arrays").bytes());
}

void Audience::tell_array(Consumer& consumer, const SentArray& array) {
    if (consumer.told.insert(array.number).second) consumer.say(array.words());
}

/// Whether it is known that an array can go to a consumer, in a step with no more bytes than are
/// kept.
bool Audience::fits(const Consumer& consumer, const SentArray& array, std::int64_t sequence) const {
    const auto bytes = consumer.step_bytes.find(array.number);
    return bytes != consumer.step_bytes.end() &&
           bytes->second <= flow_.queue_bytes - consumer.queue.bytes_of(sequence);
}

/// Finds out whether an array can go to a consumer; one to whom it cannot is refused, which is no
/// concern of the others.
bool Audience::take_on(const ConsumerPtr& consumer, const SentArray& array, std::int64_t sequence) {
    try {
        std::map<std::string, Layout>& all = *consumer->wanted;
        if (!all.contains(array.name)) all.emplace(array.name, whole_of(array.layout));
        const Layout& wanted = all.at(array.name);
        plan_between(array.layout, wanted);
        std::int64_t bytes = 0;
        for (std::int64_t rank = 0; rank < consumer->nprocs; ++rank)
            bytes = geometry::add(bytes,
                                  geometry::multiply(wanted.local_elems(rank), array.elem_bytes));
        consumer->step_bytes[array.number] = bytes;
        if (!fits(*consumer, array, sequence))
            throw make_error(ErrorCode::out_of_range, "a step with it needs ",
                             consumer->queue.bytes_of(sequence), " + ", bytes,
                             " bytes; the stream buffers at most ", flow_.queue_bytes,
                             " (queue_bytes)");
        return true;
    } catch (const Error& error) {
        leave(consumer, make_error(error.code(), "array '", array.name, "': ", error.what()));
    } catch (const std::exception& error) {  // no memory for the plan
        leave(consumer, Error(ErrorCode::no_memory, error.what()));
    }
    return false;
}

void Audience::sent(const std::vector<std::string>& keys, std::int64_t sequence) {
    const std::lock_guard lock(lock_);
    decided_ = {};
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
    left_ += consumer->stage == Consumer::Stage::active;
    consumer->say(Record().add("type", "end").add("dropped", queue.dropped()).add("steps", steps));
}

void Audience::count(StreamCounters& counters) {
    const std::lock_guard lock(lock_);
    counters.consumers_came = came_;
    counters.consumers_left = left_;
    counters.consumers_lost = lost_;
    counters.steps_dropped = dropped_;
    for (const auto& [key, consumer] : consumers_) {
        if (consumer->stage == Consumer::Stage::active)
            ++(consumer->gets_steps()       ? counters.consumers
               : consumer->left->is_orderly ? counters.consumers_left
                                            : counters.consumers_lost);
        counters.steps_dropped += consumer->queue.dropped();
    }
}

namespace {

/// Steps that a consumer may ask for in advance.
constexpr std::int64_t max_credits = 64;
/// A consumer that reads the answers asks as often as it likes which arrays there are.
constexpr int max_times_asked = 16;

}  // namespace

void Audience::serve(std::shared_ptr<const Connection> connection, const Value& words) {
    const auto link = std::make_shared<ControlLink>(std::move(connection));
    {
        const std::lock_guard lock(lock_);
        links_.insert(link);
    }
    const auto finish = [&] {
        link->finish();
        const std::lock_guard lock(lock_);
        links_.erase(link);
    };
    try {
        const auto [consumer, rank] = join(words, link);
        listen(*link, consumer, rank);
    } catch (...) {
        finish();
        throw;
    }
    finish();
}

void Audience::listen(ControlLink& link, const ConsumerPtr& consumer, std::int64_t rank) {
    const auto lose = [&](ErrorCode code, const char* why) {
        const std::lock_guard lock(lock_);
        if (!has_ended_ && consumer->links.contains(rank))
            leave(consumer, make_error(code == ErrorCode::io ? ErrorCode::peer_failed : code,
                                       "process ", rank, " of the consumer: ", why));
    };
    try {
        while (true) {
            for (const Value& said : link.wait()) {
                const std::lock_guard lock(lock_);
                if (!hear(consumer, rank, said)) return;
            }
        }
    } catch (const Error& error) {
        lose(error.code(), error.what());
        throw;
    } catch (const std::exception& error) {  // no memory for what it says
        lose(ErrorCode::no_memory, error.what());
        throw;
    }
}

std::pair<Audience::ConsumerPtr, std::int64_t> Audience::join(const Value& words,
                                                              const LinkPtr& link) {
    const std::lock_guard lock(lock_);
    if (has_ended_) {
        link->say(Record().add("type", "end").add("dropped", 0).bytes());
        throw Error(ErrorCode::peer_failed, "the stream has ended");
    }
    ConsumerPtr consumer;
    std::int64_t rank = 0;
    if (words.find("key") == nullptr) {
        consumer = newcomer(words, link);
    } else {
        const auto found = consumers_.find(words.name("key"));
        if (found == consumers_.end() || found->second->left)
            throw Error(ErrorCode::io, "the consumer that this process belongs to has left");
        consumer = found->second;
        rank = words.number("rank", 1, consumer->nprocs - 1);
    }
    if (!consumer->links.emplace(rank, link).second)
        throw make_error(ErrorCode::io, "process ", rank, " of the consumer is already connected");
    if (rank > 0) link->say(Record().add("type", "joined").bytes());
    // What its other processes were told before this one was here.
    for (const int number : consumer->told)
        link->say(arrays_[static_cast<std::size_t>(number)].words().bytes());
    changed_.notify_all();
    return {consumer, rank};
}

Audience::ConsumerPtr Audience::newcomer(const Value& words, const LinkPtr& link) {
    const std::int64_t nprocs = words.number("nprocs", 1, max_processes);
    make_place();
    auto consumer = std::make_shared<Consumer>(count_++, nprocs, flow_);
    consumers_.emplace(consumer->key, consumer);
    link->say(Record(welcome_).add("key", consumer->key).bytes());
    return consumer;
}

/// Where there are too many, one that wants nothing makes place for others.
void Audience::make_place() {
    if (consumers_.size() < max_consumers) return;
    const Clock::time_point late =
        Clock::now() - std::chrono::milliseconds(subscribe_milliseconds.load());
    for (const ConsumerPtr& idle : consumers()) {
        if (idle->wanted || idle->came >= late) continue;
        const auto links = idle->links;
        leave(idle,
              Error(ErrorCode::timeout,
                    "the consumer requested no arrays for 30 s while others waited to connect"));
        for (const auto& [rank, link] : links) link->end();
        return;
    }
    throw make_error(ErrorCode::io, "the stream already has ", max_consumers.load(), " consumers");
}

/// Whether the process may say more.
bool Audience::hear(const ConsumerPtr& consumer, std::int64_t rank, const Value& said) {
    const auto is = [&said](std::string_view name) { return said.is("type", name); };
    if (has_ended_) return !is("bye");
    if (!consumer->links.contains(rank))
        throw Error(ErrorCode::peer_failed, "the consumer has left the stream");
    if (is("bye")) {
        hear_of_leaving(*consumer, rank, said);
    } else if (is("done")) {
        take_all_before(*consumer, rank, static_cast<std::uint64_t>(said.number("place")) + 1);
    } else if (is("credit")) {
        std::int64_t& granted = consumer->progress[static_cast<std::size_t>(rank)].granted;
        granted += said.number("steps", 1, max_credits - granted);
        confirm_if_complete(*consumer);
    } else if (is("subscribe") && rank == 0 && !consumer->wanted) {
        subscribe(*consumer, said);
        confirm_if_complete(*consumer);
    } else if (is("arrays") && rank == 0) {
        if (consumer->links.at(rank)->unsent().is_empty()) consumer->times_asked = 0;
        if (++consumer->times_asked > max_times_asked)
            throw make_error(ErrorCode::io, "arrays() was requested more than ", max_times_asked,
                             " times without reading an answer");
        consumer->asks_for_arrays = true;
        if (!arrays_.empty()) tell_arrays(*consumer);
    } else {
        throw Error(ErrorCode::io, "received a frame of an unexpected type");
    }
    tell_who_left(consumer);
    pump(*consumer);
    changed_.notify_all();
    return !is("bye");
}

/// A process says which steps it has taken, and perhaps an error that it had.
void Audience::hear_of_leaving(Consumer& consumer, std::int64_t rank, const Value& said) {
    const std::int64_t place = said.find("place") != nullptr ? said.number("place") : 0;
    const bool is_orderly = said.find("code") == nullptr;
    const Error error = is_orderly ? Error(ErrorCode::peer_failed, "") : said_error(said);
    if (!consumer.left || place < consumer.left->place)
        consumer.left = Departure{
            place,
            make_error(error.code(), "process ", rank, " of the consumer ",
                       is_orderly ? "left the stream before this step" : "failed: ", error.what()),
            is_orderly};
    part_with(consumer, rank);
}

void Audience::subscribe(Consumer& consumer, const Value& said) {
    std::map<std::string, Layout> wanted;
    for (const Value& item : said.list("arrays", max_array_number)) {
        if (item.items().size() != 2)
            throw Error(ErrorCode::io, "the requested arrays must be pairs of a name and a layout");
        wanted.insert_or_assign(item.items()[0].as_name("name"),
                                layout_of_bytes(item.items()[1].text(), consumer.nprocs));
    }
    consumer.takes_all = wanted.empty();
    if (consumer.takes_all && consumer.nprocs != 1)
        throw Error(ErrorCode::invalid_argument,
                    "a consumer of several processes must request at least one array");
    consumer.wanted = std::move(wanted);
    consumer.hears_by_messages =
        said.flag("hears_by_messages") && flow_.policy == Policy::block && !consumer.takes_all;
    if (said.flag("newest")) consumer.queue = StepQueue(Policy::drop_oldest, 1, flow_.queue_bytes);
}

/// Tells the first process that the stream knows what the consumer wants and has a credit of each
/// of its processes.
void Audience::confirm_if_complete(Consumer& consumer) {
    if (consumer.stage != Consumer::Stage::connected || consumer.left || !consumer.wanted ||
        consumer.least_credit() < 1)
        return;
    consumer.stage = Consumer::Stage::subscribed;
    consumer.links.at(0)->say(Record().add("type", "subscribed").bytes());
}

void Audience::taken_before(const std::string& key, std::int64_t rank, std::uint64_t place) {
    const std::lock_guard lock(lock_);
    const auto found = consumers_.find(key);
    if (found == consumers_.end()) return;
    const ConsumerPtr consumer = found->second;
    if (!consumer->links.contains(rank)) return;  // it said so when it left
    try {
        take_all_before(*consumer, rank, place);
    } catch (const Error& error) {
        leave(consumer, Error(ErrorCode::peer_failed, error.what()));
        throw;
    }
    tell_who_left(consumer);
    pump(*consumer);
    changed_.notify_all();
}

/// Takes note of what a process has taken, as it says over one or two connections.
void Audience::take_all_before(Consumer& consumer, std::int64_t rank, std::uint64_t place) {
    if (place > static_cast<std::uint64_t>(end_of_sent(consumer)))
        throw make_error(ErrorCode::io, "process ", rank, " took step ", place - 1,
                         ", which was not sent to it");
    std::int64_t& taken = consumer.progress[static_cast<std::size_t>(rank)].taken;
    taken = std::max(taken, static_cast<std::int64_t>(place));
    release_taken(consumer);
}

/// Forgets the steps that all processes of a consumer have taken.
void Audience::release_taken(Consumer& consumer) {
    const std::int64_t least = consumer.least_taken();
    const auto& travelling = consumer.queue.travelling();
    while (!travelling.empty() && travelling.begin()->first < least) {
        const std::int64_t place = travelling.begin()->first;
        consumer.queue.taken(place);
        consumer.took = Clock::now();
        // A consumer that says this here alone, and not to those that keep the step, has it no
        // longer.
        news_.taken[consumer.key] = place + 1;
        changed_.notify_all();  // another stream may have the place
    }
}

/// Sends a consumer what it has credits for.
void Audience::pump(Consumer& consumer) {
    while (!consumer.links.empty() && consumer.least_credit() > 0) {
        const std::optional<Step> step = consumer.queue.next_to_send();
        if (!step) return;
        send(consumer, *step);
    }
}

void Audience::send(Consumer& consumer, const Step& step) {
    // All processes may have taken it before it was granted to all.
    if (consumer.is_told_by_messages(step)) return release_taken(consumer);
    ValueList arrays;
    for (const int array : step.arrays) {
        consumer.announced.insert(array);
        tell_array(consumer, arrays_[static_cast<std::size_t>(array)]);
        arrays.add(array);
    }
    consumer.say(Record()
                     .add("type", "step")
                     .add("place", step.place)
                     .add("step", step.number)
                     .add("arrays", arrays)
                     .add("dropped", consumer.queue.dropped()));
}

/// Tells all processes of a consumer at once that they get no more, and forgets it.
void Audience::leave(const ConsumerPtr& consumer, const Error& error) {
    consumer->left = Departure{0, error, false};
    tell_who_left(consumer);
}

/// Where a process has left, those that have taken all that it took get no more.
void Audience::tell_who_left(const ConsumerPtr& consumer) {
    if (!consumer->left) return;
    const auto& [place, why, is_orderly] = *consumer->left;
    const std::string failed = Record()
                                   .add("type", "failed")
                                   .add("code", error_code_name(why.code()))
                                   .add("words", why.what())
                                   .bytes();
    const auto links = consumer->links;
    for (const auto& [rank, link] : links) {
        if (consumer->progress[static_cast<std::size_t>(rank)].taken < place) continue;
        link->say(failed);
        part_with(*consumer, rank);
    }
    if (consumer->links.empty()) forget(consumer);
}

/// Nothing more is said to a process, nor waited for.
void Audience::part_with(Consumer& consumer, std::int64_t rank) {
    consumer.links.erase(rank);
    constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
    consumer.progress[static_cast<std::size_t>(rank)] = {all, all};
    release_taken(consumer);
}

void Audience::forget(const ConsumerPtr& consumer) {
    consumers_.erase(consumer->key);
    dropped_ += consumer->queue.dropped();
    if (consumer->stage == Consumer::Stage::active) {
        news_.gone.push_back(consumer->key);
        ++(consumer->left->is_orderly ? left_ : lost_);
    }
    changed_.notify_all();
}

}  // namespace datamover::stream
