// SPDX-License-Identifier: BSD-3-Clause
// Rounds: one start and wait of an operation, and the engine that pushes them on.
#include "round.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "datamover/progress.hpp"
#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/communicators.hpp"
#include "mpi/environment.hpp"
#include "mpi/waiting.hpp"

namespace datamover {
namespace {

/// A wait begins with so many looks, about a microsecond: a message that comes then has not waited
/// for a clock to be read.
constexpr int quick_looks = 16;

using namespace std::chrono_literals;

/// While rounds wait for peers the thread sleeps, longer and longer: it must not take a processor
/// from those that compute.
constexpr auto shortest_sleep = 20us;
constexpr auto longest_sleep = 200us;

/// Held for a few instructions only, never while anything is pushed.
class ListLock {
public:
    explicit ListLock(std::atomic_flag& flag) : flag_(flag) {
        while (flag_.test_and_set(std::memory_order_acquire))
            while (flag_.test(std::memory_order_relaxed)) continue;
    }
    ~ListLock() { flag_.clear(std::memory_order_release); }
    ListLock(const ListLock&) = delete;
    ListLock& operator=(const ListLock&) = delete;

private:
    std::atomic_flag& flag_;
};

}  // namespace

Round::~Round() {
    give_up();
}

void Round::start() {
    Status found = Status::idle;  // of two threads that start at once, one does
    if (!status_.compare_exchange_strong(found, Status::in_flight))
        throw make_error(ErrorCode::invalid_state,
                         found == Status::held
                             ? concat("another thread binds, tunes or frees the ", what_)
                             : "start was called twice without wait");
    try {
        mpi::check_still_running();
        if (operation_.sends_messages()) mpi::check_thread();
        group_->failures().check();
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
    const Status now = status();
    if (now == Status::in_flight) engine.add(*this);
    if (now == Status::failed) end();
    release();
}

bool Round::push() noexcept {
    if (status() != Status::in_flight) return false;
    try {
        if (!begun_) {
            begun_ = true;
            operation_.begin();
        }
        const Progress made = operation_.progress();
        if (made == Progress::complete)
            status_.store(Status::complete, std::memory_order_release);
        else
            group_->failures().check();
        return made != Progress::none;
    } catch (...) {
        fail(mpi::current_error(*group_));
        return true;
    }
}

void Round::fail(const Error& why) noexcept {
    error_ = why;
    group_->failures().fail(why);
    operation_.keep_memory();
    status_.store(Status::failed, std::memory_order_release);
}

/// Another holder of the claim only pushes, which never waits.
bool RoundState::claim_in_flight() {
    while (!claim()) {
        if (!in_flight()) return false;
        std::this_thread::yield();
    }
    return true;
}

Round::PollResult Round::poll() {
    if (!claim()) return {false, was_ended()};
    const bool moved = push();
    if (status() != Status::in_flight) return {moved, end()};
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
    const Status ended = status();
    ProgressEngine::of_process().remove(*this);
    if (ended == Status::complete)  // no other thread writes it
        counters_.completed.store(counters_.completed.load(std::memory_order_relaxed) + 1,
                                  std::memory_order_relaxed);
    unlock();
    if (ended == Status::failed) throw *error_;
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
    unless_failed([&] { group_->failures().check_while_waiting(); });
    // Peers may be testing another round, which has to go on here before they come to this one.
    ProgressEngine::of_process().push_others(this, false);
    group_->failures().let_mpi_progress();
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
    } account{counters_.wait_seconds, waiting};
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
    throw make_error(
        ErrorCode::timeout, "process ", group_->rank(), " waited ", seconds,
        " s and still waits for ", processes_text(peers), "; the ", what_,
        after_timeout_ == AfterTimeout::in_flight ? " is still in flight" : " is given up");
}

void Round::give_up() noexcept {
    if (!in_flight() || mpi::is_forked_child() || !claim_in_flight()) return;
    ProgressEngine::of_process().remove(*this);
    if (mpi::is_running()) push();
    if (mpi::is_running() && status() == Status::in_flight) {
        try {
            group_->failures().check();
            throw make_error(ErrorCode::peer_failed, "process ", group_->rank(), " gave up a ",
                             what_, " in flight");
        } catch (...) {
            fail(mpi::current_error(*group_));
        }
    }
    status_.store(Status::idle, std::memory_order_release);
}

// The progress engine: pushes rounds on in waits of this process, or in a thread of its own.

struct ProgressEngine::Thread {
    std::mutex mutex;
    std::condition_variable wake;
    bool stopping = false, begun = false;
    std::thread thread;
};

ProgressEngine& ProgressEngine::of_process() {
    static auto* engine = [] {
        mpi::set_other_work([] { return of_process().push_others(nullptr, false); });
        return new ProgressEngine;
    }();
    return *engine;
}

void ProgressEngine::add(Round& round) {
    {
        const ListLock lock(list_lock_);
        round.next_ = first_;
        round.previous_ = nullptr;
        if (first_) first_->previous_ = &round;
        first_ = &round;
        count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    if (thread_runs()) {
        const std::lock_guard lock(thread_->mutex);
        thread_->wake.notify_one();
    }
}

void ProgressEngine::remove(Round& round) {
    const ListLock lock(list_lock_);
    unlink(round);
}

void ProgressEngine::unlink(Round& round) {
    if (!round.previous_ && first_ != &round) return;
    (round.previous_ ? round.previous_->next_ : first_) = round.next_;
    if (round.next_) round.next_->previous_ = round.previous_;
    round.next_ = round.previous_ = nullptr;
    count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

/// Releases the claim of `after`, which leaves the list where it has come to its end, and takes
/// that of the next round that can be pushed. A claimed round is removed by nobody else, so its
/// place in the list holds.
Round* ProgressEngine::next_claimed(Round* after, const Round* own, bool by_thread) {
    const ListLock lock(list_lock_);
    Round* round = after ? after->next_ : first_;
    if (after) {
        if (after->status() != Round::Status::in_flight) unlink(*after);
        after->release();
    }
    for (; round; round = round->next_)
        if (round != own && (!by_thread || thread_may_push(round->operation_)) && round->claim())
            break;
    return round;
}

bool ProgressEngine::push_others(const Round* own, bool by_thread) {
    if (count_.load(std::memory_order_relaxed) <= (own ? 1 : 0)) return false;
    bool moved = false;
    for (Round* r = next_claimed(nullptr, own, by_thread); r; r = next_claimed(r, own, by_thread))
        moved = r->push() || moved;
    return moved;
}

void ProgressEngine::start_thread() {
    const std::lock_guard one_at_a_time(users_lock_);
    if (!thread_) thread_ = new Thread;
    if (users_ > 0) {
        ++users_;
        return;
    }
    std::unique_lock lock(thread_->mutex);
    thread_->stopping = thread_->begun = false;
    thread_may_send_ = mpi::any_thread_may_call();
    try {
        thread_->thread = std::thread([this] { run_thread(); });
    } catch (const std::system_error& e) {
        throw make_error(ErrorCode::no_memory, "the system has no thread for progress: ", e.what());
    }
    thread_runs_.store(true, std::memory_order_release);
    // Who has added a round before this has been heard, who does after it sees the thread.
    {
        const ListLock lock_list(list_lock_);
    }
    // A thread that has work at once may stay on the core that computes, though another one is
    // idle; one that has slept before is woken on that.
    thread_->wake.wait(lock, [&] { return thread_->begun; });
    users_ = 1;
}

void ProgressEngine::stop_thread() {
    const std::lock_guard one_at_a_time(users_lock_);
    if (users_ == 0 || --users_ > 0) return;
    join_thread();
}

void ProgressEngine::end_thread() {
    const std::lock_guard one_at_a_time(users_lock_);
    join_thread();
}

void ProgressEngine::join_thread() {
    if (!thread_ || !thread_->thread.joinable()) return;
    {
        const std::lock_guard lock(thread_->mutex);
        thread_->stopping = true;
        thread_runs_.store(false, std::memory_order_release);
        thread_->wake.notify_one();
    }
    thread_->thread.join();
}

void ProgressEngine::run_thread() {
    {
        const std::lock_guard lock(thread_->mutex);
        thread_->begun = true;
    }
    thread_->wake.notify_all();
    auto sleep = shortest_sleep;
    while (true) {
        {
            std::unique_lock lock(thread_->mutex);
            thread_->wake.wait(lock, [&] {
                return thread_->stopping || count_.load(std::memory_order_relaxed) > 0;
            });
            if (thread_->stopping) return;
        }
        if (push_others(nullptr, true)) {
            sleep = shortest_sleep;
            continue;
        }
        std::this_thread::sleep_for(sleep);
        sleep = std::min(2 * sleep, longest_sleep);
    }
}

namespace {

/// Kept with MPI_COMM_SELF, which MPI frees before it ends.
struct EndsThread {
    ~EndsThread() { ProgressEngine::of_process().end_thread(); }
};

/// A program may end MPI with the thread at work, whose next call of MPI would end the program.
void have_mpi_end_the_thread() {
    static std::once_flag once;
    std::call_once(once, [] {
        mpi::Attribute<EndsThread>::keep(MPI_COMM_SELF, std::make_unique<EndsThread>());
    });
}

}  // namespace

ProgressThread::ProgressThread() {
    if (!mpi::is_running())
        throw Error(ErrorCode::mpi, "a progress thread needs MPI: call MPI_Init_thread before");
    if (mpi::any_thread_may_call()) have_mpi_end_the_thread();  // else it calls nothing of MPI's
    ProgressEngine::of_process().start_thread();
    runs_ = true;
}

ProgressThread::~ProgressThread() {
    if (runs_) ProgressEngine::of_process().stop_thread();
}

ProgressThread::ProgressThread(ProgressThread&& other) noexcept
    : runs_(std::exchange(other.runs_, false)) {}

ProgressThread& ProgressThread::operator=(ProgressThread&& other) noexcept {
    std::swap(runs_, other.runs_);
    return *this;
}

bool ProgressThread::carries_messages() const {
    return ProgressEngine::of_process().thread_may_send();
}

std::optional<double> default_timeout() {
    return mpi::default_timeout();
}

void set_default_timeout(std::optional<double> seconds) {
    mpi::set_default_timeout(seconds);
}

void start_thread_if_environment_says_so() {
    static const std::string wanted = [] {
        const char* text = std::getenv("DATAMOVER_PROGRESS");
        return std::string(text ? text : "");
    }();
    if (wanted.empty()) return;
    if (wanted != "thread")
        throw make_error(ErrorCode::invalid_argument, "DATAMOVER_PROGRESS is \"", wanted,
                         "\"; it may be \"thread\", or not set");
    static std::once_flag once;
    std::call_once(once, [] {
        have_mpi_end_the_thread();
        ProgressEngine::of_process().start_thread();
    });
}

}  // namespace datamover
