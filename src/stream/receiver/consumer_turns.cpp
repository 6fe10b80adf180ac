// SPDX-License-Identifier: BSD-3-Clause
// Turns between a receiving program and its thread: the program reads the connections while it
// waits for a step, and the thread reads them when the program has been away for a while.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "geometry/make_error.hpp"
#include "stream/receiver/consumer.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/frames.hpp"

namespace datamover::stream {
namespace {

/// So long the program is away before the thread takes over. What comes meanwhile waits in the
/// system's memory; a program that comes back sooner takes it from there without a hand-over.
constexpr std::chrono::milliseconds patience{2};
/// So long nothing comes until the stream is told of what was taken, where that can wait.
constexpr std::chrono::milliseconds unsaid_time{1};
/// A program that was found waiting so often is left alone until it returns.
constexpr int most_dozes = 8;

}  // namespace

void Consumer::start_thread() {
    const SignalsBlocked blocked;
    try {
        left_ = Clock::now();
        turns_->thread = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        throw make_error(ErrorCode::io, "cannot start the thread that receives: ", error.what());
    }
}

std::optional<Consumer::Step> Consumer::next(std::optional<double> timeout_seconds) {
    require_own_process();
    Entered entered(*this);
    if (!is_subscribed_)
        throw Error(ErrorCode::invalid_state,
                    "no arrays were requested; call subscribe() before next()");
    if (open_) {
        raise_error();
    } else {
        if (!wait(entered.lock(), deadline_after(timeout_seconds),
                  [this] { return steps_->has_ready() || steps_->is_over(); }))
            throw make_error(ErrorCode::timeout, "no step arrived within ", *timeout_seconds,
                             " s; next() can be called again");
        open_ = steps_->next();
    }
    if (!open_) {
        steps_->check_names();
        return std::nullopt;
    }
    Step step{open_->number, {}};
    for (const auto& [array, messages] : open_->arrays) step.arrays.push_back(array);
    return step;
}

void Consumer::wait_for_arrays(std::optional<double> timeout_seconds) {
    Entered entered(*this);
    raise_error();
    steps_->ask_for_arrays();
    if (!wait(entered.lock(), deadline_after(timeout_seconds),
              [this] { return steps_->arrays_are_known(); }))
        throw make_error(ErrorCode::timeout, "the stream sent no array within ", *timeout_seconds,
                         " s; arrays() can be called again");
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
        const Clock::time_point now = Clock::now();
        const bool is_late = deadline && now >= *deadline;
        auto time = together_->look_time();
        if (deadline)
            time = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(*deadline - now),
                              std::chrono::milliseconds(0), time);
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
    std::vector<pollfd> waiting{{wake_, POLLIN, 0}};
    bool says_later = false;
    if (failing_) {
        steps_->add_control_to(waiting);
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(reason_end_ - Clock::now());
        time = std::clamp(left, std::chrono::milliseconds(0), time);
    } else {
        says_later = steps_->may_say_later();
        if (says_later) {
            time = std::min(time, unsaid_time);
        } else {
            steps_->say_taken();
        }
        steps_->add_to(waiting);
        // The thread beside has left what takes connecting to the program: nothing else may come.
        if (is_program && steps_->has_unheard()) time = std::chrono::milliseconds(0);
    }
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
    if (says_later && found == 0 && !failing_) steps_->say_taken();
    take_in(waiting, is_program);
    return !was_interrupted;
}

void Consumer::take_in(const std::vector<pollfd>& waiting, bool is_program) {
    try {
        if (!failing_) {
            steps_->take_in(waiting, is_program);
            look_for_lost();
        } else if (const auto reason = steps_->reason(waiting)) {
            fail_here(*reason);
        } else if (Clock::now() >= reason_end_) {
            fail_here(*failing_);
        }
    } catch (const Error& error) {
        const bool has_reason =
            error.code() == ErrorCode::peer_failed || error.code() == ErrorCode::timeout;
        if (failing_) {
            fail_here(*failing_);
        } else if (!has_reason || steps_->was_told()) {
            fail_here(error);
        } else {
            // The stream says why its connections end, where it can.
            failing_ = error;
            reason_end_ = Clock::now() + std::chrono::milliseconds(reason_milliseconds.load());
            steps_->end_data();
        }
    } catch (const std::bad_alloc&) {
        fail_here(Error(ErrorCode::no_memory, "out of memory while receiving a step"));
    } catch (...) {
        fail_here(
            Error(ErrorCode::peer_failed, "interrupted while connecting to the sending processes"));
        throw;
    }
}

/// A connection that has ended is an error, but at the end of the stream, which is told over
/// another one and may be heard later.
void Consumer::look_for_lost() {
    const std::optional<Error> lost = steps_->lost();
    if (!lost) return;
    const Clock::time_point now = Clock::now();
    if (!lost_end_) lost_end_ = now + std::chrono::milliseconds(reason_milliseconds.load());
    if (now >= *lost_end_) fail_here(*lost);
}

void Consumer::raise_error() const {
    if (error_) throw *error_;
    if (closed_) throw Error(ErrorCode::invalid_state, "the consumer is closed");
}

void Consumer::fail_here(const Error& why) {
    if (error_ || closed_) return;
    // Said before anybody here sees it: who sees it closes, and then it would not be said.
    say_bye(Record().add("code", error_code_name(why.code())).add("words", few_words(why.what())));
    error_ = why;
}

void Consumer::run() {
    Lock lock(turns_->lock);
    int dozes = 0;
    while (!is_finished()) {
        const Clock::time_point begin = left_ + patience;
        if (waiting_ > 0 || wanting_ > 0) {
            rest(lock, dozes);
        } else if (Clock::now() < begin) {
            turns_->program_left.wait_until(lock, begin);
        } else {
            dozes = 0;
            take_turn(lock, look_time, false);
        }
    }
}

/// While the program reads.
void Consumer::rest(Lock& lock, int& dozes) {
    if (++dozes < most_dozes || waiting_ == 0) {
        turns_->program_left.wait_for(lock, patience);
        return;
    }
    dozes = 0;
    thread_rests_ = true;
    turns_->program_left.wait(lock, [this] { return waiting_ == 0 || is_finished(); });
    thread_rests_ = false;
}

}  // namespace datamover::stream
