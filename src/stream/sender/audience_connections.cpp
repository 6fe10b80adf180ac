// SPDX-License-Identifier: BSD-3-Clause
// Control connections of consumers: reading their requests and sending the replies. No input is
// trusted.
#include <exception>
#include <limits>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "stream/sender/audience.hpp"
#include "stream/sender/audience_types.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {
namespace {

constexpr std::int64_t max_processes = 1 << 16;
constexpr std::size_t max_arrays = 1 << 12;
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
        link->say(words_of(arrays_[static_cast<std::size_t>(number)]).bytes());
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
    const Value* const type = said.find("type");
    const auto is = [type](std::string_view name) { return type != nullptr && type->is(name); };
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
        if (!consumer->links.at(rank)->has_unsent()) consumer->times_asked = 0;
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
    std::vector<std::pair<std::string, std::string>> words;
    for (const Value& item : said.list("arrays", max_arrays)) {
        if (item.items().size() != 2)
            throw Error(ErrorCode::io, "the requested arrays must be pairs of a name and a layout");
        const std::string& name = item.items()[0].as_name("name");
        const std::string& layout = item.items()[1].text();
        wanted.insert_or_assign(name, layout_of_bytes(layout, consumer.nprocs));
        words.emplace_back(name, layout);
    }
    consumer.takes_all = wanted.empty();
    if (consumer.takes_all && consumer.nprocs != 1)
        throw Error(ErrorCode::invalid_argument,
                    "a consumer of several processes must request at least one array");
    consumer.wanted = std::move(wanted);
    consumer.wanted_words = std::move(words);
    consumer.hears_by_messages =
        said.flag("hears_by_messages") && flow_.policy == Policy::block && !consumer.takes_all;
    if (said.flag("newest")) consumer.queue = StepQueue(Policy::drop_oldest, 1, flow_.queue_bytes);
}

/// Tells the first process that the stream knows what the consumer wants and has a credit of each
/// of its processes.
void Audience::confirm_if_complete(Consumer& consumer) {
    if (consumer.is_subscribed || consumer.left || !consumer.wanted || consumer.least_credit() < 1)
        return;
    consumer.is_subscribed = true;
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
    while (!consumer.on_their_way.empty() && consumer.on_their_way.front() < least) {
        const std::int64_t place = consumer.on_their_way.front();
        consumer.on_their_way.pop_front();
        consumer.queue.taken(place);
        consumer.took = Clock::now();
        // A consumer that says this here alone, and not to those that keep the step, has it no
        // longer.
        news_.dropped.emplace_back(consumer.key, place);
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
    consumer.on_their_way.push_back(step.place);
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
    if (consumer->is_active) {
        news_.gone.push_back(consumer->key);
        ++(consumer->left->is_orderly ? left_ : lost_);
    }
    changed_.notify_all();
}

}  // namespace datamover::stream
