// SPDX-License-Identifier: BSD-3-Clause
// Rounds: one start and wait of an operation.
#include "round.hpp"

#include <algorithm>
#include <thread>

#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/environment.hpp"
#include "mpi/waiting.hpp"

namespace datamover {
namespace {

/// A wait begins with so many looks, about a microsecond: a message that comes then has not waited
/// for a clock to be read.
constexpr int quick_looks = 16;

}  // namespace

Round::~Round() {
    give_up();
}

void Round::refuse_start(Status status) const {
    if (status == Status::held)
        throw make_error(ErrorCode::invalid_state, "another thread binds, tunes or frees the ",
                         what_);
    throw Error(ErrorCode::invalid_state, "start was called twice without wait");
}

void Round::start() {
    Status found = Status::idle;  // of two threads that start at once, one does
    if (!status_.compare_exchange_strong(found, Status::in_flight)) refuse_start(found);
    try {
        mpi::check_still_running();
        if (operation_.sends_messages()) mpi::check_thread();
        group_->check_alive_at_start();
    } catch (...) {
        unlock();
        throw;
    }
    begun_ = false;
    error_.reset();
    ProgressEngine& engine = ProgressEngine::of_process();
    try {
        operation_.announce();
    } catch (...) {
        fail(mpi::current_error(*group_));
    }
    if (!engine.has_thread(operation_)) push();
    const Status status = status_.load(std::memory_order_relaxed);
    if (status == Status::in_flight) engine.add(*this);
    if (status == Status::failed) end();
    release();
}

bool Round::push() noexcept {
    if (status_.load(std::memory_order_relaxed) != Status::in_flight) return false;
    try {
        if (!begun_) {
            begun_ = true;
            operation_.begin();
        }
        const Progress made = operation_.progress();
        if (made == Progress::complete)
            status_.store(Status::complete, std::memory_order_release);
        else
            group_->check_alive();
        return made != Progress::none;
    } catch (...) {
        fail(mpi::current_error(*group_));
        return true;
    }
}

void Round::fail(const Error& why) noexcept {
    error_ = why;
    group_->fail(why);
    operation_.keep_memory();
    status_.store(Status::failed, std::memory_order_release);
}

/// Another holder of the claim only pushes, which never waits.
bool Round::claim_in_flight() {
    while (!claim()) {
        if (!in_flight()) return false;
        std::this_thread::yield();
    }
    return true;
}

Round::PollResult Round::poll() {
    if (!claim()) return {false, was_ended()};
    const bool moved = push();
    if (status_.load(std::memory_order_relaxed) != Status::in_flight) return {moved, end()};
    release();
    return {moved, false};
}

/// Once a process of the group has failed, nothing more will come: the round is over.
template <typename Check>
void Round::unless_failed(Check check) {
    try {
        check();
    } catch (const Error&) {
        give_up();
        throw;
    }
}

bool Round::end() {
    const Status status = status_.load(std::memory_order_relaxed);
    ProgressEngine::of_process().remove(*this);
    if (status == Status::complete)
        completed_.store(completed() + 1, std::memory_order_relaxed);  // no other thread writes it
    status_.store(Status::idle, std::memory_order_release);
    if (status == Status::failed) throw *error_;
    return true;
}

bool Round::was_ended() const {
    if (in_flight()) return false;
    if (error_) throw *error_;
    return true;
}

void Round::require_in_flight(const char* call) const {
    if (!in_flight()) throw make_error(ErrorCode::invalid_state, call, " was called without start");
}

bool Round::test() {
    mpi::check_still_running();
    if (poll().finished) return true;
    unless_failed([&] { group_->check_alive_while_waiting(); });
    // Peers may be testing another round, which has to go on here before they come to this one.
    ProgressEngine::of_process().push_others(this, false);
    group_->let_mpi_progress();
    return false;
}

void Round::wait(std::optional<double> timeout_seconds) {
    if (timeout_seconds == 0.0) {
        while (!test()) throw_timeout(0);  // which returns where another thread has ended the round
        return;
    }
    mpi::check_still_running();
    for (int looks = 0; looks < quick_looks; ++looks) {
        const PollResult made = poll();
        if (made.finished) return;
        if (made.moved) break;  // that took time
    }
    mpi::Waiting waiting(*group_, timeout_seconds);
    if (operation_.needs_polls()) waiting.stay_awake();
    struct Account {
        std::atomic<double>& sum;
        mpi::Waiting& waiting;
        ~Account() {
            sum.store(sum.load(std::memory_order_relaxed) + waiting.seconds(),
                      std::memory_order_relaxed);
        }
    } account{wait_seconds_, waiting};
    while (true) {
        const PollResult made = poll();
        if (made.finished) return;
        if (ProgressEngine::of_process().push_others(this, false) || made.moved) waiting.restart();
        if (waiting.expired()) throw_timeout(waiting.timeout_seconds());
        unless_failed([&] { waiting.pause(); });
    }
}

void Round::throw_timeout(double seconds) {
    if (!claim_in_flight()) return;
    std::vector<std::int64_t> peers = operation_.waiting_for();
    release();
    std::ranges::sort(peers);
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    std::string text;
    for (const std::int64_t peer : peers) text += concat(text.empty() ? "" : ", ", peer);
    throw make_error(
        ErrorCode::timeout, "process ", group_->rank(), " waited ", seconds,
        " s and still waits for processes ", text, "; the ", what_,
        after_timeout_ == AfterTimeout::in_flight ? " is still in flight" : " is given up");
}

void Round::give_up() noexcept {
    if (!in_flight() || mpi::is_forked_child() || !claim_in_flight()) return;
    ProgressEngine::of_process().remove(*this);
    if (mpi::is_running()) push();
    if (mpi::is_running() && status_.load(std::memory_order_relaxed) == Status::in_flight) {
        try {
            group_->check_alive();
            throw make_error(ErrorCode::peer_failed, "process ", group_->rank(), " gave up a ",
                             what_, " in flight");
        } catch (...) {
            fail(mpi::current_error(*group_));
        }
    }
    status_.store(Status::idle, std::memory_order_release);
}

}  // namespace datamover
