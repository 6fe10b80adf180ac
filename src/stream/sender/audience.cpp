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

namespace {

/// So long consumers that take nothing are waited for at the end.
constexpr std::chrono::seconds finish_time{5};
/// Steps that a consumer may ask for in advance.
constexpr std::int64_t max_credits = 64;
/// A consumer that reads the answers asks as often as it likes which arrays there are.
constexpr int max_times_asked = 16;

}  // namespace

/// One program that listens: its processes, what it wants, and how far it is.
struct Audience::Consumer : std::enable_shared_from_this<Audience::Consumer> {
    using Type = Frame::Type;

    Consumer(Audience& audience_, std::int64_t nprocs_)
        : audience(audience_),
          nprocs(nprocs_),
          progress(static_cast<std::size_t>(nprocs_)),
          queue(audience.flow_) {}

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
    /// Whether nothing is to be announced of a step: it has all arrays that are wanted.
    bool is_told_by_messages(const Step& step) const {
        return hears_by_messages && announced.size() == wanted->size() &&
               step.arrays.size() == wanted->size();
    }
    bool takes_all() const { return wanted->empty(); }
    bool takes(const SentArray& array) const { return takes_all() || wanted->contains(array.name); }
    /// Whether steps that begin are for it.
    bool gets_steps() const { return stage == Stage::active && !left; }
    /// Whether there is a step that it has not taken, and that does not wait for its sender.
    bool could_take() const {
        const auto& waiting = queue.waiting();
        return !queue.travelling().empty() || (!waiting.empty() && waiting.front().complete);
    }
    /// Tells all processes.
    void say(Frame frame) {
        const std::string bytes = frame.bytes();
        for (const auto& [rank, link] : links) link->say(bytes);
    }
    void tell_array(const SentArray& array) {
        if (told.insert(array.number).second) say({.type = Type::array, .array = array});
    }
    void tell_arrays() {
        asks_for_arrays = false;
        for (const SentArray& array : audience.arrays_) tell_array(array);
        if (const auto first = links.find(0); first != links.end())
            first->second->say({.type = Type::arrays});
    }
    /// Whether it is known that it can take an array, in a step with no more bytes than are kept.
    bool fits(const SentArray& array, std::int64_t sequence) const {
        const auto bytes = step_bytes.find(array.number);
        return bytes != step_bytes.end() &&
               bytes->second <= audience.flow_.queue_bytes - queue.bytes_of(sequence);
    }
    /// Finds out whether it can take an array; one that cannot is refused, which is no concern of
    /// the others.
    bool take_on(const SentArray& array, std::int64_t sequence) {
        try {
            const Layout layout = layout_for(*wanted, array);
            plan_between(array.layout, layout);
            std::int64_t bytes = 0;
            for (std::int64_t rank = 0; rank < nprocs; ++rank)
                bytes = geometry::add(
                    bytes, geometry::multiply(layout.local_elems(rank), array.elem_bytes));
            step_bytes[array.number] = bytes;
            if (!fits(array, sequence))
                throw make_error(ErrorCode::out_of_range, "a step with it needs ",
                                 queue.bytes_of(sequence), " + ", bytes,
                                 " bytes; the stream buffers at most ", audience.flow_.queue_bytes,
                                 " (queue_bytes)");
            return true;
        } catch (const Error& error) {
            leave(make_error(error.code(), "array '", array.name, "': ", error.what()));
        } catch (const std::exception& error) {  // no memory for the plan
            leave(Error(ErrorCode::no_memory, error.what()));
        }
        return false;
    }
    /// Whether the process may say more.
    bool hear(std::int64_t rank, Frame& said) {
        if (audience.has_ended_) return said.type != Type::bye;
        if (!links.contains(rank))
            throw Error(ErrorCode::peer_failed, "the consumer has left the stream");
        if (said.type == Type::bye) {
            hear_of_leaving(rank, said);
        } else if (said.type == Type::done) {
            take_all_before(rank, static_cast<std::uint64_t>(said.place) + 1);
        } else if (said.type == Type::credit) {
            std::int64_t& granted = progress[static_cast<std::size_t>(rank)].granted;
            if (said.steps > max_credits - granted)
                throw make_error(ErrorCode::io, "process ", rank, " granted ", said.steps,
                                 " steps more than ", granted, "; at most ", max_credits,
                                 " are possible");
            granted += said.steps;
            confirm_if_complete();
        } else if (said.type == Type::subscribe && rank == 0 && !wanted) {
            subscribe(said);
            confirm_if_complete();
        } else if (said.type == Type::arrays && rank == 0) {
            if (!links.at(rank)->has_unsent()) times_asked = 0;
            if (++times_asked > max_times_asked)
                throw make_error(ErrorCode::io, "arrays() was requested more than ",
                                 max_times_asked, " times without reading an answer");
            asks_for_arrays = true;
            if (!audience.arrays_.empty()) tell_arrays();
        } else {
            throw Error(ErrorCode::io, "received a frame of an unexpected type");
        }
        tell_who_left();
        pump();
        audience.changed_.notify_all();
        return said.type != Type::bye;
    }
    /// A process says which steps it has taken, and perhaps an error that it had.
    void hear_of_leaving(std::int64_t rank, const Frame& said) {
        const Error why = said.error ? make_error(said.error->code(), "process ", rank,
                                                  " of the consumer failed: ", said.error->what())
                                     : make_error(ErrorCode::peer_failed, "process ", rank,
                                                  " of the consumer left the stream before this "
                                                  "step");
        if (!left || said.place < left->place) left = Departure{said.place, why, !said.error};
        part_with(rank);
    }
    void subscribe(Frame& said) {
        WantedLayouts requested;
        for (WantedArray& one : said.wanted) {
            if (one.layout.nprocs() != nprocs)
                throw make_error(ErrorCode::io, "a requested layout has ", one.layout.nprocs(),
                                 " processes; the consumer has ", nprocs);
            requested.insert_or_assign(std::move(one.name), std::move(one.layout));
        }
        if (requested.empty() && nprocs != 1)
            throw Error(ErrorCode::invalid_argument,
                        "a consumer of several processes must request at least one array");
        wanted = std::move(requested);
        hears_by_messages =
            said.tells_by_messages && audience.flow_.policy == Policy::block && !takes_all();
        if (said.newest) queue = StepQueue({Policy::drop_oldest, 1, audience.flow_.queue_bytes});
    }
    /// Tells the first process that the stream knows what the consumer wants and has a credit of
    /// each of its processes.
    void confirm_if_complete() {
        if (stage != Stage::connected || left || !wanted || least_credit() < 1) return;
        stage = Stage::subscribed;
        links.at(0)->say({.type = Type::subscribed});
    }
    /// Takes note of what a process has taken, as it says over one or two connections.
    void take_all_before(std::int64_t rank, std::uint64_t place) {
        // Messages are sent before all processes have granted their step, and before this process
        // has added it to the queue.
        std::int64_t end = hears_by_messages ? queue.end_place() : queue.next_place();
        for (const auto& [to, decided] : audience.decided_.to)
            if (hears_by_messages && to == key) end = std::max(end, decided + 1);
        if (place > static_cast<std::uint64_t>(end))
            throw make_error(ErrorCode::io, "process ", rank, " took step ", place - 1,
                             ", which was not sent to it");
        std::int64_t& taken = progress[static_cast<std::size_t>(rank)].taken;
        taken = std::max(taken, static_cast<std::int64_t>(place));
        release_taken();
    }
    /// Forgets the steps that all processes have taken.
    void release_taken() {
        const std::int64_t least = std::ranges::min_element(progress, {}, &Progress::taken)->taken;
        if (!queue.taken_before(least)) return;
        took = Clock::now();
        // A consumer that says this here alone, and not to those that keep the steps, has them no
        // longer.
        audience.news_.taken.emplace_back(key, least);
        audience.changed_.notify_all();  // another stream may have the place
    }
    /// Nothing more comes of the step that was sent last.
    void finish_step() {
        queue.complete();
        pump();
    }
    /// Sends what it has credits for.
    void pump() {
        while (!links.empty() && least_credit() > 0) {
            const std::optional<Step> step = queue.next_to_send();
            if (!step) return;
            send(*step);
        }
    }
    void send(const Step& step) {
        // All processes may have taken it before it was granted to all.
        if (is_told_by_messages(step)) return release_taken();
        for (const int array : step.arrays) {
            announced.insert(array);
            tell_array(audience.arrays_[static_cast<std::size_t>(array)]);
        }
        say({.type = Type::step,
             .place = step.place,
             .number = step.number,
             .dropped = queue.dropped(),
             .numbers = {step.arrays.begin(), step.arrays.end()}});
    }
    /// Tells all processes at once that they get no more, and has the consumer forgotten.
    void leave(const Error& error) {
        left = Departure{0, error, false};
        tell_who_left();
    }
    /// Nothing more is said to a process, nor waited for.
    void part_with(std::int64_t rank) {
        links.erase(rank);
        constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
        progress[static_cast<std::size_t>(rank)] = {all, all};
        release_taken();
    }
    /// Where a process has left, those that have taken all that it took get no more. Without
    /// processes it is forgotten.
    void tell_who_left() {
        if (!left) return;
        const ConsumerPtr kept = shared_from_this();
        const std::string failed = Frame{.type = Type::failed, .error = left->why}.bytes();
        for (const auto& [rank, link] : std::map(links)) {
            if (progress[static_cast<std::size_t>(rank)].taken < left->place) continue;
            link->say(failed);
            part_with(rank);
        }
        if (!links.empty() || std::erase(audience.consumers_, kept) == 0) return;
        audience.counts_.steps_dropped += queue.dropped();
        if (stage == Stage::active) {
            audience.news_.gone.push_back(key);
            ++(left->is_orderly ? audience.counts_.consumers_left
                                : audience.counts_.consumers_lost);
        }
        audience.changed_.notify_all();
    }
    /// Tells it that this was all; that this is an error where its processes have perhaps not got
    /// the same steps: of those that wait here, each takes what it has credits for.
    void end() {
        const bool may_differ = left || (nprocs > 1 && !queue.waiting().empty() &&
                                         is_told_by_messages(queue.waiting().front()));
        const std::int64_t steps = queue.next_place();
        queue.drop_all();
        if (may_differ)
            return leave(
                Error(ErrorCode::timeout,
                      "the stream was closed before all processes of the consumer had taken "
                      "the same steps"));
        audience.counts_.steps_dropped += queue.dropped();
        audience.counts_.consumers_left += stage == Stage::active;
        say({.type = Type::end, .steps = steps, .dropped = queue.dropped()});
    }

    Audience& audience;
    const std::int64_t nprocs;
    const std::string key = random_digits(16);
    const Clock::time_point came = Clock::now();
    /// By rank, of the processes that have not left; none: it is forgotten.
    std::map<std::int64_t, LinkPtr> links;
    std::optional<WantedLayouts> wanted;
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
    bool hears_by_messages = false;  ///< of whole steps of arrays that were announced
    /// It is subscribed once it has requested arrays, and all its processes have granted credits:
    /// it was told so, so that the next step that begins is for it. From that step on it is active.
    enum class Stage { connected, subscribed, active };
    Stage stage = Stage::connected;
    std::int64_t first_sequence = 0;  ///< of the first step that is for it, once it is active
    bool asks_for_arrays = false;
    /// The first of its processes that left, by the steps that it took: the others get no more.
    std::optional<Departure> left;
};

Audience::Audience(Flow flow, std::int64_t least, Frame welcome, std::shared_ptr<Places> places)
    : flow_(flow),
      least_(least),
      welcome_(std::move(welcome)),
      places_(std::move(places)),
      lock_(places_->lock),
      changed_(places_->changed) {}

void Audience::add_array(SentArray array) {
    const std::lock_guard lock(lock_);
    arrays_.push_back(std::move(array));
    for (const ConsumerPtr& consumer : consumers_)
        if (consumer->asks_for_arrays) consumer->tell_arrays();
}

Audience::ConsumerPtr Audience::find(const std::string& key) const {
    const auto found = std::ranges::find(consumers_, key, &Consumer::key);
    return found != consumers_.end() ? *found : nullptr;
}

bool Audience::finish_steps_before(std::int64_t sequence, bool is_agreed) {
    const std::lock_guard lock(lock_);
    for (const ConsumerPtr& consumer : consumers_) {
        const StepQueue& queue = consumer->queue;
        if (!consumer->gets_steps() || !queue.is_within_step() ||
            queue.waiting().back().sequence == sequence)
            continue;
        if (!is_agreed) return false;
        consumer->finish_step();
    }
    return true;
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
    if (decision) {
        decided_ = *decision;
        is_carried_out_ = false;
    }
    return decision;
}

std::optional<Decision> Audience::decide_now(const SentArray& array, std::int64_t sequence) {
    // Within a step nobody is let in: the rest of it would be no step.
    if (sequence != sequence_) {
        const auto counts = [](const ConsumerPtr& consumer) {
            return consumer->gets_steps() || consumer->is_ready();
        };
        if (std::ranges::count_if(consumers_, counts) < least_) {
            places_->stop_waiting(this);
            return {};
        }
        least_ = 0;  // they came, and are not waited for again, whatever happens to this call
        // Whoever was let in for a call that turned out to be wrong gets nothing of the step
        // before, with which the program may go on.
        for (const ConsumerPtr& consumer : consumers_) {
            if (!consumer->is_ready()) continue;
            consumer->stage = Consumer::Stage::active;
            consumer->first_sequence = sequence;
            ++counts_.consumers_came;
            news_.joined.push_back({consumer->key, consumer->nprocs, *consumer->wanted});
        }
    }
    std::vector<ConsumerPtr> chosen;
    bool must_wait = false;
    for (const ConsumerPtr& consumer : std::vector(consumers_)) {  // some may leave
        if (!consumer->gets_steps() || !consumer->takes(array)) continue;
        if (sequence < consumer->first_sequence) continue;  // its first step is not sent yet
        if (!consumer->fits(array, sequence) && !consumer->take_on(array, sequence)) continue;
        StepQueue& queue = consumer->queue;
        const std::int64_t bytes = consumer->step_bytes.at(array.number);
        while (queue.room_for(sequence, bytes) == StepQueue::Room::by_dropping)
            news_.dropped.emplace_back(consumer->key, queue.drop_oldest());
        must_wait = must_wait || queue.room_for(sequence, bytes) == StepQueue::Room::wait;
        chosen.push_back(consumer);
    }
    // Whoever waited for a place, and wants none now, would keep it from those behind.
    if (must_wait || chosen.empty()) places_->stop_waiting(this);
    if (must_wait) return {};
    if (!chosen.empty() && !places_->take(*this, sequence != sequence_)) return {};
    Decision decision = std::exchange(news_, {});
    decision.turn = places_->turn_of(*this);
    decision.ended = places_->take_ended();
    for (const ConsumerPtr& consumer : chosen)
        decision.to.emplace_back(consumer->key, consumer->queue.place_of(sequence));
    return decision;
}

void Audience::carry_out(int array, std::int64_t sequence, std::int64_t number) {
    const std::lock_guard lock(lock_);
    sequence_ = sequence;
    is_carried_out_ = true;
    for (const auto& [key, place] : decided_.to) {
        const ConsumerPtr consumer = find(key);
        if (consumer == nullptr) continue;  // the others hear of it with the next one
        if (consumer->queue.is_empty()) consumer->took = Clock::now();
        consumer->queue.add(sequence, number, array, consumer->step_bytes.at(array));
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
    places_->stop_waiting(this);
    const auto tell_again = [](auto& news, const auto& lost) {
        news.insert(news.end(), lost.begin(), lost.end());
    };
    tell_again(news_.joined, decided_.joined);
    tell_again(news_.gone, decided_.gone);
    tell_again(news_.dropped, decided_.dropped);
    tell_again(news_.taken, decided_.taken);
    places_->tell_again(decided_.ended);
    return std::exchange(decided_, {});
}

void Audience::withdraw(const Error& why) {
    const std::lock_guard lock(lock_);
    const Decision lost = taken_back();
    std::set<std::string> keys;
    for (const auto& one : lost.joined) keys.insert(one.key);
    for (const auto& [key, place] : lost.to) keys.insert(key);
    for (const std::string& key : keys)
        if (const ConsumerPtr consumer = find(key)) consumer->leave(why);
    if (!keys.empty() && is_carried_out_)
        --sequence_;  // who comes now is let in where the step is sent again
}

bool Audience::is_taken() const {
    const auto has_nothing = [](const ConsumerPtr& one) { return one->queue.is_empty(); };
    return decided_.to.empty() && std::ranges::all_of(consumers_, has_nothing);
}

bool Audience::is_within_step() const {
    return std::ranges::any_of(consumers_,
                               [](const ConsumerPtr& one) { return one->queue.is_within_step(); });
}

void Audience::end_stalled(Clock::time_point since) {
    for (const ConsumerPtr& consumer : std::vector(consumers_))
        if (consumer->could_take() && consumer->took < since)
            consumer->leave(Error(ErrorCode::timeout,
                                  "the consumer took no step for stall_seconds while another "
                                  "stream waited for its buffers"));
}

void Audience::sent(std::int64_t sequence) {
    const std::lock_guard lock(lock_);
    const Decision done = std::exchange(decided_, {});
    for (const auto& [key, place] : done.to) {
        const ConsumerPtr consumer = find(key);
        if (consumer == nullptr || consumer->queue.waiting().empty()) continue;
        const Step& newest = consumer->queue.waiting().back();
        // Each of its arrays is one that the consumer wants, and none is there twice.
        if (newest.sequence == sequence && (newest.arrays.size() == consumer->wanted->size() ||
                                            consumer->takes_all() || places_->ends_each_array()))
            consumer->queue.complete();
        consumer->pump();
    }
}

void Audience::refuse(const std::string& key, const Error& error) {
    const std::lock_guard lock(lock_);
    if (const ConsumerPtr consumer = find(key)) consumer->leave(error);
}

void Audience::refuse_all(const Error& why) {
    const std::lock_guard lock(lock_);
    for (const ConsumerPtr& consumer : std::vector(consumers_)) consumer->leave(why);
}

void Audience::finish_steps() {
    const std::lock_guard lock(lock_);
    for (const ConsumerPtr& consumer : consumers_) consumer->finish_step();
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
        for (const ConsumerPtr& consumer : std::vector(consumers_)) {
            consumer->tell_arrays();  // all learn of arrays that came later
            consumer->end();
        }
        consumers_.clear();
        links = links_;
    }
    const Clock::time_point deadline = Clock::now() + finish_time;  // for all of them together
    for (const LinkPtr& link : links) link->finish(deadline);
}

StreamCounters Audience::counters() {
    const std::lock_guard lock(lock_);
    StreamCounters counters = counts_;
    for (const ConsumerPtr& consumer : consumers_) {
        if (consumer->stage == Consumer::Stage::active)
            ++(consumer->gets_steps()       ? counters.consumers
               : consumer->left->is_orderly ? counters.consumers_left
                                            : counters.consumers_lost);
        counters.steps_dropped += consumer->queue.dropped();
    }
    return counters;
}

void Audience::serve(std::shared_ptr<const Connection> connection, const Frame& said) {
    const auto link = std::make_shared<ControlLink>(std::move(connection));
    {
        const std::lock_guard lock(lock_);
        links_.insert(link);
    }
    // At the end, what is left is sent.
    const std::shared_ptr<void> finish(nullptr, [&](void*) {
        link->finish();
        const std::lock_guard lock(lock_);
        links_.erase(link);
    });
    const auto [consumer, rank] = join(said, link);
    try {
        while (true) {
            for (Frame& heard : link->wait()) {
                const std::lock_guard lock(lock_);
                if (!consumer->hear(rank, heard)) return;
            }
        }
    } catch (const std::exception& error) {  // if it is none of ours, no memory for what it says
        const auto* const known = dynamic_cast<const Error*>(&error);
        ErrorCode code = known != nullptr ? known->code() : ErrorCode::no_memory;
        if (code == ErrorCode::io) code = ErrorCode::peer_failed;
        const std::lock_guard lock(lock_);
        if (!has_ended_ && consumer->links.contains(rank))
            consumer->leave(make_error(code, "process ", rank, " of the consumer: ", error.what()));
        throw;
    }
}

std::pair<Audience::ConsumerPtr, std::int64_t> Audience::join(const Frame& said,
                                                              const LinkPtr& link) {
    const std::lock_guard lock(lock_);
    if (has_ended_) {
        link->say({.type = Frame::Type::end});
        throw Error(ErrorCode::peer_failed, "the stream has ended");
    }
    ConsumerPtr consumer;
    const std::int64_t rank = said.rank;
    if (said.key.empty() && rank == 0) {
        make_place();
        consumer = consumers_.emplace_back(std::make_shared<Consumer>(*this, said.nprocs));
    } else {
        consumer = find(said.key);
        if (consumer == nullptr || consumer->left)
            throw Error(ErrorCode::io, "the consumer that this process belongs to has left");
        if (rank < 1 || rank >= consumer->nprocs)
            throw make_error(ErrorCode::io, "a connection is of process ", rank,
                             "; the consumer has ", consumer->nprocs);
    }
    if (!consumer->links.emplace(rank, link).second)
        throw make_error(ErrorCode::io, "process ", rank, " of the consumer is already connected");
    Frame welcome = welcome_;
    welcome.key = consumer->key;
    link->say(std::move(welcome));
    // What its other processes were told before this one was here.
    for (const int number : consumer->told)
        link->say({.type = Frame::Type::array, .array = arrays_[static_cast<std::size_t>(number)]});
    changed_.notify_all();
    return {consumer, rank};
}

/// Where there are too many, one that wants nothing makes place for others.
void Audience::make_place() {
    if (consumers_.size() < max_consumers) return;
    const Clock::time_point late =
        Clock::now() - std::chrono::milliseconds(subscribe_milliseconds.load());
    const auto idle = std::ranges::find_if(
        consumers_, [late](const ConsumerPtr& one) { return !one->wanted && one->came < late; });
    if (idle == consumers_.end())
        throw make_error(ErrorCode::io, "the stream already has ", max_consumers.load(),
                         " consumers");
    const auto links = (*idle)->links;
    ConsumerPtr(*idle)->leave(
        Error(ErrorCode::timeout,
              "the consumer requested no arrays for 30 s while others waited to connect"));
    for (const auto& [rank, link] : links) link->end();
}

void Audience::taken_before(const std::string& key, std::int64_t rank, std::uint64_t place) {
    const std::lock_guard lock(lock_);
    const ConsumerPtr consumer = find(key);
    // One that has left said so when it did.
    if (consumer == nullptr || !consumer->links.contains(rank)) return;
    try {
        consumer->take_all_before(rank, place);
    } catch (const Error& error) {
        consumer->leave(Error(ErrorCode::peer_failed, error.what()));
        throw;
    }
    consumer->tell_who_left();
    consumer->pump();
    changed_.notify_all();
}

}  // namespace datamover::stream
