// SPDX-License-Identifier: BSD-3-Clause
// Consumers: connecting to a stream, agreeing on the requested arrays, turns between the program
// and its thread, and leaving the stream.
#include "stream/receiver/consumer.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <set>
#include <utility>

#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "stream/wire/token.hpp"

namespace datamover::stream {
namespace {

constexpr std::int64_t max_ahead = 64;
/// Of names and layouts: with what stands between them they fit into a frame.
constexpr std::size_t most_told_bytes = max_request_bytes / 16 * 15;

/// Whether each process that receives gets elements of each array.
bool all_get_messages(const std::vector<WantedArray>& wanted) {
    return std::ranges::all_of(wanted, [](const WantedArray& one) {
        for (std::int64_t rank = 0; rank < one.layout.nprocs(); ++rank)
            if (one.layout.local_elems(rank) == 0) return false;
        return true;
    });
}

/// So long the program is away before the thread takes over. What comes meanwhile waits in the
/// system's memory; a program that comes back sooner takes it from there without a hand-over.
constexpr std::chrono::milliseconds patience{2};
/// So long nothing comes until the stream is told of what was taken, where that can wait.
constexpr std::chrono::milliseconds unsaid_time{1};
/// A program that was found waiting so often is left alone until it returns.
constexpr int most_dozes = 8;

}  // namespace

Consumer::Consumer(std::shared_ptr<Together> together, const std::string& address,
                   StreamSourceOptions options)
    : together_(std::move(together)), options_(std::move(options)), process_(::getpid()) {
    Address first;
    collectively(*together_, [&] {
        first = Address::of_text(address);
        if (first.port == 0)
            throw make_error(
                ErrorCode::invalid_argument, "'", address,
                "' lets the stream choose its port; connect to the address that it reports");
        check_seconds(options_.timeout_seconds);
        token_ = given_token(options_.token);
        if (options_.ahead < 0 || options_.ahead > max_ahead)
            throw make_error(ErrorCode::invalid_argument, "ahead is ", options_.ahead,
                             "; it must be 1 to ", max_ahead,
                             ", or 0 to choose by the arrays' size");
    });
    limit_ = deadline_after(options_.timeout_seconds);
    collectively(*together_, [&] {
        if (rank() == 0) introduce(first, {.nprocs = size()});
    });
    if (!token_) token_.emplace();
    share_of_first(*together_, [&](Words& words) { words.pass(*token_).pass(welcome_.key); });
    collectively(*together_, [&] {
        if (rank() > 0) introduce(first, {.key = welcome_.key, .rank = rank()});
        // The first one was reached; where a tunnel leads there, it knows itself otherwise.
        if (!welcome_.senders.empty()) {
            welcome_.senders[0].host = first.host;
            welcome_.senders[0].port = first.port;
        }
        control_ = std::make_unique<FrameLink>(connection_);
        steps_ = std::make_unique<IncomingSteps>(
            *control_, rank(), [this](int producer) { return dial_to(producer); });
        wake_.emplace(false);
    });
}

Consumer::~Consumer() {
    close();
    if (!is_own_process()) [[maybe_unused]]
        Turns* const kept = turns_.release();
}

/// Where a part of the connections would be of no use, it goes on: what interrupts the program is
/// raised when all are made. A second time it is raised at once, and ends the consumer.
Dialing Consumer::dialing(bool goes_on) {
    const auto look = [this, goes_on] {
        try {
            together_->look_around();
        } catch (const Interruption&) {
            // What the first one holds may hold this consumer.
            if (!goes_on || std::exchange(interrupted_, nullptr)) throw;
            interrupted_ = std::current_exception();
        }
        if (closed_) throw Error(ErrorCode::invalid_state, "the consumer is closed");
    };
    // Without a token, the first process looks for the one that the stream has stored.
    const auto token = [this](const Connection& stream) {
        const auto end = peer_end(stream.socket());
        if (!token_) token_ = stored_token(end ? end->text() : "");
        return *token_;
    };
    return {token, {look, together_->look_time()}};
}

/// Connects, and hears whether this process is taken for one of the consumer's: where not, all of
/// them are told, and none takes the end of the stream for an orderly one that another cannot see.
void Consumer::introduce(const Address& address, Frame words) {
    const Dialing how = dialing(false);
    words.type = Frame::Type::control;
    try {
        // The first process may be there before the stream.
        connection_ = dial(address, std::move(words), how, limit_, rank() == 0);
        welcome_ = read_frame(*connection_, max_frame_bytes, greeting_end(limit_), how.look);
    } catch (const Error& error) {
        const bool has_gone = rank() > 0 && error.code() == ErrorCode::timeout;
        if (error.code() != ErrorCode::peer_failed && !has_gone) throw;
        throw make_error(ErrorCode::peer_failed, "the stream at ", address.text(),
                         " has ended, or accepts no more processes: ", error.what());
    }
    if (welcome_.type == Frame::Type::end)
        throw Error(ErrorCode::invalid_state, "the stream has ended");
    if (welcome_.type == Frame::Type::failed) throw *welcome_.error;
    if (welcome_.type != Frame::Type::welcome)
        throw Error(ErrorCode::io, "the stream sent a frame of an unexpected type");
}

/// Connects to a sending process: by shared memory if it is here, else by all pathways.
IncomingSteps::Links Consumer::dial_to(int producer) {
    if (producer < 0 || static_cast<std::size_t>(producer) >= welcome_.senders.size())
        throw make_error(ErrorCode::io,
                         "the stream named a sending process that it does not have: ", producer);
    const Frame::Sender& sender = welcome_.senders[static_cast<std::size_t>(producer)];
    connecting_ = std::this_thread::get_id();
    const std::shared_ptr<void> at_the_end(nullptr,
                                           [this](void*) { connecting_ = std::thread::id(); });
    const Dialing how = dialing(true);
    const auto words = [this](int pathway) {
        return Frame{
            .type = Frame::Type::data, .key = welcome_.key, .rank = rank(), .pathway = pathway};
    };
    const auto pathways = static_cast<int>(welcome_.pathways);
    IncomingSteps::Links links;
    if (options_.shared_memory && !sender.local_name.empty()) {
        if (auto connection = dial_local(sender.local_name, words(0), how)) {
            links.push_back(
                std::make_unique<DataReceiver>(std::move(connection), producer, 0, 1, counters_));
            return links;
        }
    }
    const Deadline limit = greeting_end(std::nullopt);
    try {
        for (int pathway = 0; pathway < pathways; ++pathway)
            links.push_back(std::make_unique<DataReceiver>(
                dial({sender.host, sender.port}, words(pathway), how, limit, false), producer,
                pathway, pathways, counters_));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::timeout) throw;
        throw make_error(ErrorCode::peer_failed, "sending process ", producer,
                         " has ended, or did not answer within 10 s");
    }
    return links;
}

std::vector<SentArray> Consumer::arrays(std::optional<double> timeout_seconds) {
    std::vector<SentArray> known;
    collectively(*together_, [&] {
        check_seconds(timeout_seconds);
        require_own_process();
        if (rank() != 0) return;
        Lock lock = entered();
        raise_error();
        steps_->ask_for_arrays();
        if (!wait(lock, deadline_after(timeout_seconds),
                  [this] { return steps_->arrays_are_known(); }))
            throw make_error(ErrorCode::timeout, "the stream sent no array within ",
                             *timeout_seconds, " s; arrays() can be called again");
        for (const auto& [number, array] : steps_->known()) known.push_back(array);
    });
    share_of_first(*together_, [&known](Words& words) {
        words.pass(known, [&words](SentArray& array) { array.pass(words); });
    });
    return known;
}

void Consumer::require_unsubscribed() const {
    require_own_process();
    if (closed_ || is_subscribed_)
        throw Error(
            ErrorCode::invalid_state,
            "the consumer is closed, or its arrays were already requested; connect again to "
            "request others");
}

void Consumer::check_wanted(const std::vector<WantedArray>& wanted) const {
    require_unsubscribed();
    if (wanted.empty() || wanted.size() > max_array_number)
        throw make_error(ErrorCode::invalid_argument, wanted.size(),
                         " arrays were requested; request 1 to ", max_array_number);
    std::set<std::string> names;
    std::size_t told_bytes = 0;
    for (const WantedArray& one : wanted) {
        check_array_name(one.name);
        if (!names.insert(one.name).second)
            throw make_error(ErrorCode::invalid_argument, "array '", one.name,
                             "' was requested twice");
        if (!one.layout.valid() || one.layout.nprocs() != size())
            throw make_error(ErrorCode::mismatch, "the layout of array '", one.name, "' has ",
                             one.layout.valid() ? one.layout.nprocs() : 0,
                             " processes; the consumer has ", size());
        told_bytes += one.name.size() + bytes_of_layout(one.layout).size();
    }
    if (told_bytes > most_told_bytes)
        throw make_error(ErrorCode::out_of_range, "the requested layouts take ", told_bytes,
                         " bytes to describe; at most ", most_told_bytes, " are possible");
}

void Consumer::subscribe(std::vector<WantedArray> wanted) {
    collectively(*together_, [&] { check_wanted(wanted); });
    is_subscribed_ = true;
    std::ranges::sort(wanted,
                      [](const WantedArray& a, const WantedArray& b) { return a.name < b.name; });
    const std::int64_t sum =
        geometry::text_digest(Frame{.type = Frame::Type::subscribe, .wanted = wanted}.bytes());
    const auto everyone = together_->gather({sum});
    if (std::ranges::count(everyone, Together::Numbers{sum}) != size()) {
        const Error why(ErrorCode::mismatch,
                        "the processes of the consumer requested different arrays or layouts, or "
                        "made different collective calls");
        fail(why);
        throw why;
    }
    begin_steps(std::move(wanted));
}

void Consumer::subscribe_to_all() {
    collectively(*together_, [&] {
        require_unsubscribed();
        if (size() != 1)
            throw make_error(ErrorCode::invalid_argument,
                             "only a consumer of one process can request all arrays; this one has ",
                             size());
    });
    is_subscribed_ = true;
    begin_steps({});
}

/// Requests arrays, all if the list is empty, and waits until the stream has confirmed the requests
/// and credits of all processes: each step that begins after that is for this consumer.
void Consumer::begin_steps(std::vector<WantedArray> wanted) {
    const bool goes_ahead = welcome_.goes_ahead && !options_.newest;
    const bool hears_by_messages = welcome_.tells_by_messages && goes_ahead && !wanted.empty();
    const StreamHabits habits{goes_ahead, welcome_.is_pressed,
                              hears_by_messages && all_get_messages(wanted)};
    collectively(*together_, [&] {
        Lock lock = entered();
        try {
            raise_error();
            if (rank() == 0)
                control_->say({.type = Frame::Type::subscribe,
                               .tells_by_messages = habits.tells_by_messages,
                               .wanted = wanted,
                               .newest = options_.newest});
            steps_->want(std::move(wanted), options_.ahead, habits);
            left_ = Clock::now();
            turns_->thread = thread_without_signals("receives", [this] { run(); });
            if (rank() == 0 && !wait(lock, deadline_after(options_.timeout_seconds),
                                     [this] { return steps_->is_subscribed(); }))
                throw make_error(ErrorCode::timeout,
                                 "the stream did not confirm the requested arrays within ",
                                 *options_.timeout_seconds, " s");
        } catch (const Error& why) {  // the stream may send from now on, and nobody takes it
            fail_here(why);
            throw;
        } catch (...) {
            fail_here(Error(ErrorCode::peer_failed, "interrupted while requesting arrays"));
            throw;
        }
    });
}

void Consumer::unpack(const std::string& name, const DestinationMemory& destination) {
    const auto& [array, messages] = array_of(name);
    array->unpack(messages, destination);
}

std::shared_ptr<std::byte> Consumer::unpack_new(const std::string& name, std::int64_t elem_bytes) {
    auto& arrived = array_of(name);
    if (elem_bytes != arrived.first->elem_bytes())
        throw make_error(ErrorCode::io, "array '", name, "' has elements of ",
                         arrived.first->elem_bytes(), " bytes; its dtype ", arrived.first->dtype(),
                         " has another size");
    return steps_->unpack_new(arrived);
}

std::pair<IncomingArray*, ArrayMessages>& Consumer::array_of(const std::string& name) {
    if (open_)
        for (auto& one : open_->arrays)
            if (one.first->name() == name) return one;
    throw make_error(ErrorCode::invalid_state, "the step does not contain array '", name, "'");
}

void Consumer::taken() {
    const Lock lock = entered();
    if (open_) steps_->taken(*std::exchange(open_, std::nullopt));
}

/// The lock; the thread waits as long as a call of the program wants it.
Consumer::Lock Consumer::entered() {
    ++wanting_;
    Lock lock(turns_->lock);
    --wanting_;
    return lock;
}

bool Consumer::is_own_process() const {
    return ::getpid() == process_;
}

void Consumer::require_own_process() const {
    if (!is_own_process())
        throw Error(
            ErrorCode::invalid_state,
            "this process was forked from the one that connected; connect again in this process");
}

void Consumer::fail(const Error& why) {
    if (!is_own_process()) return;
    const Lock lock = entered();
    fail_here(why);
}

void Consumer::refuse(const Error& why) {
    together_->agree(why);
    throw why;
}

void Consumer::close() {
    if (!is_own_process() || steps_ == nullptr) return;
    closed_ = true;
    wake_->set();
    // A signal handler has interrupted the thread that has the lock: what it connects ends, and the
    // next call of close, at the latest that of the destructor, does the rest.
    if (connecting_ == std::this_thread::get_id()) return;
    {
        const Lock lock = entered();
        if (std::exchange(has_left_, true)) return;
        if (!error_) say_bye(std::nullopt);
        control_->end();
        turns_->program_left.notify_all();
    }
    if (turns_->thread.joinable()) turns_->thread.join();
}

/// Says that this process leaves, and which steps it has taken: others may still wait for these.
void Consumer::say_bye(std::optional<Error> why) {
    control_->say({.type = Frame::Type::bye,
                   .place = static_cast<std::int64_t>(steps_->taken_before()),
                   .error = std::move(why)});
    control_->finish();
    steps_->end_data();
}

StreamSourceCounters Consumer::counters() const {
    return {counters_.bytes_received, counters_.checksum_errors, counters_.connections,
            counters_.connections_local, dropped()};
}

const ArrivedStep* Consumer::next(std::optional<double> timeout_seconds) {
    require_own_process();
    Lock lock = entered();
    if (!is_subscribed_)
        throw Error(ErrorCode::invalid_state,
                    "no arrays were requested; call subscribe() before next()");
    if (open_) {
        raise_error();
    } else {
        if (!wait(lock, deadline_after(timeout_seconds),
                  [this] { return steps_->has_ready() || steps_->is_over(); }))
            throw make_error(ErrorCode::timeout, "no step arrived within ", *timeout_seconds,
                             " s; next() can be called again");
        open_ = steps_->next();
    }
    if (open_) return &*open_;
    steps_->check_names();
    return nullptr;
}

/// Reads until it is done; false where the deadline passed.
bool Consumer::wait(Lock& lock, const Deadline& deadline, const std::function<bool()>& is_done) {
    /// The thread leaves reading to the program as long as there is one.
    struct Present {
        explicit Present(Consumer& consumer_) : consumer(consumer_) { ++consumer.waiting_; }
        ~Present() {
            --consumer.waiting_;
            consumer.left_ = Clock::now();
            if (consumer.thread_rests_) consumer.turns_->program_left.notify_one();
        }
        Consumer& consumer;
    };
    const Present present(*this);
    Clock::time_point looked = Clock::now();
    awake_end_ = looked + awake_time;
    while (true) {
        raise_error();
        if (is_done()) return true;
        const bool is_late = is_over(deadline);
        auto time = together_->look_time();
        if (deadline) time = std::min(time, time_until(*deadline));
        const bool was_interrupted = !take_turn(lock, time, true);
        if (interrupted_) std::rethrow_exception(std::exchange(interrupted_, nullptr));
        if (was_interrupted || Clock::now() - looked >= together_->look_time()) {
            lock.unlock();
            try {
                together_->look_around();
            } catch (...) {
                lock.lock();
                throw;
            }
            lock.lock();
            looked = Clock::now();
        }
        if (is_late && !error_ && !closed_ && !is_done()) return false;
    }
}

/// Waits for what comes, without the lock, and takes it in; false where a signal ended the wait.
bool Consumer::take_turn(Lock& lock, std::chrono::milliseconds time, bool is_program) {
    std::vector<pollfd> waiting{{wake_->file(), POLLIN, 0}};
    const bool says_later = steps_->may_say_later();
    if (says_later)
        time = std::min(time, unsaid_time);
    else
        steps_->say_taken();
    steps_->add_to(waiting);
    // The thread beside has left connecting to the program: nothing else may come.
    if (is_program && steps_->lacks_links()) time = std::chrono::milliseconds(0);
    const Clock::time_point awake_end = awake_end_;
    lock.unlock();
    const int found = is_program
                          ? awake_poll(waiting, time, awake_end)
                          : ::poll(waiting.data(), waiting.size(), static_cast<int>(time.count()));
    const bool was_interrupted = found < 0 && errno == EINTR;
    lock.lock();
    if (found > 0 && is_program) awake_end_ = Clock::now() + awake_time;
    if (found < 0)
        for (pollfd& one : waiting) one.revents = 0;
    if (is_finished() || (!is_program && waiting_ > 0)) return !was_interrupted;
    if (says_later && found == 0) steps_->say_taken();
    take_in(waiting, is_program);
    return !was_interrupted;
}

void Consumer::take_in(const std::vector<pollfd>& waiting, bool is_program) {
    try {
        steps_->take_in(waiting, is_program);
        // A connection that has ended is an error, but at the end of the stream. Why it has, the
        // stream says over another one, where it can; it may be heard later.
        const std::optional<Error> why = failing_ ? failing_ : steps_->lost();
        if (!why) return;
        const Clock::time_point now = Clock::now();
        if (!reason_end_) reason_end_ = now + std::chrono::milliseconds(reason_milliseconds.load());
        if (now >= *reason_end_) fail_here(*why);
    } catch (const Error& error) {
        const bool has_reason =
            error.code() == ErrorCode::peer_failed || error.code() == ErrorCode::timeout;
        if (steps_->was_told() || (!failing_ && !has_reason)) {
            fail_here(error);
        } else if (failing_) {
            fail_here(*failing_);
        } else {
            failing_ = error;
            steps_->end_data();
        }
    } catch (const std::bad_alloc&) {
        fail_here(Error(ErrorCode::no_memory, "out of memory while receiving a step"));
    } catch (const Interruption&) {
        fail_here(
            Error(ErrorCode::peer_failed, "interrupted while connecting to the sending processes"));
        throw;
    } catch (const std::exception& error) {
        fail_here(Error(ErrorCode::peer_failed, error.what()));
    }
}

void Consumer::raise_error() const {
    if (error_) throw *error_;
    if (closed_) throw Error(ErrorCode::invalid_state, "the consumer is closed");
}

void Consumer::fail_here(const Error& why) {
    if (error_ || closed_) return;
    // Said before anybody here sees it: who sees it closes, and then it would not be said.
    say_bye(why);
    error_ = why;
}

void Consumer::run() {
    Lock lock(turns_->lock);
    for (int dozes = 0; !is_finished();) {
        const Clock::time_point now = Clock::now(), begin = left_ + patience;
        const bool program_is_here = waiting_ > 0 || wanting_ > 0;
        if (!program_is_here && now >= begin) {
            dozes = 0;
            take_turn(lock, look_time, false);
        } else if (waiting_ == 0 || ++dozes < most_dozes) {
            turns_->program_left.wait_until(lock, program_is_here ? now + patience : begin);
        } else {
            dozes = 0;
            thread_rests_ = true;
            turns_->program_left.wait(lock, [this] { return waiting_ == 0 || is_finished(); });
            thread_rests_ = false;
        }
    }
}

}  // namespace datamover::stream
