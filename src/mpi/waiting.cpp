// SPDX-License-Identifier: BSD-3-Clause
// Waiting: spin, yield, sleep; watches failures, the deadline and interrupts.
#include "waiting.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "checked_call.hpp"
#include "environment.hpp"
#include "geometry/make_error.hpp"
#include "process_group.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace datamover::mpi {
namespace {

constexpr double interrupt_interval_seconds = 0.03;
/// After so long something is wrong with another process.
constexpr double longest_hold_out_seconds = 10;
/// A turn that polls MPI takes a microsecond, one that reads a flag a fiftieth of it: spinning ends
/// with the time too, since another process may wait for this processor. Looked at every so often.
constexpr double spin_seconds = 2e-4;
constexpr int spins_between_looks = 64;
/// By processors: one each, shared.
constexpr int spins_of[] = {4096, 16};
/// Up to here a wait spins and gives way; what it waits for may be a moment away. By processors:
/// where they are shared, those that give way in turns take half of the time of those that work.
constexpr double awake_seconds_of[] = {1e-3, 1e-4};
constexpr double longest_sleep_seconds = 1e-3;
/// Sleeping for this part of the time waited so far delays the end by no larger a part.
constexpr double slept_part = 1.0 / 32;
thread_local std::optional<double> thread_limit;  ///< seconds; see WaitLimit
/// Of a sleep that ends when there is something to look at.
constexpr double least_sleep_seconds = 1e-4;
/// Of the time between two looks no more than this counts for the deadline.
constexpr double longest_turn_seconds = 0.25;
/// Before such a sleep: it costs less than what others do with the processor meanwhile.
constexpr int spins_before_sleep = 256;
/// Giving way takes less where nobody else wants the processor.
constexpr std::chrono::microseconds lonely_yield{2};

constexpr double unset = -1;
constexpr double none = std::numeric_limits<double>::infinity();

/// Seconds; `unset` until asked for or set.
std::atomic<double> timeout{unset};
std::atomic<InterruptCheck> interrupt_check{nullptr};
std::atomic<OtherWork> other_work{nullptr};

/// Infinity waits forever.
std::optional<double> checked(std::optional<double> seconds) {
    if (seconds && !(*seconds > 0))
        throw make_error(ErrorCode::invalid_argument, "the timeout is ", *seconds,
                         " s; it must be above 0 s");
    return seconds;
}

}  // namespace

std::optional<double> default_timeout() {
    double seconds = timeout.load(std::memory_order_relaxed);
    if (seconds == unset) {
        seconds = environment_timeout().value_or(none);
        timeout.store(seconds, std::memory_order_relaxed);
    }
    if (seconds == none) return thread_limit;
    return thread_limit ? std::min(seconds, *thread_limit) : seconds;
}

WaitLimit::WaitLimit(double seconds)
    : before_(
          std::exchange(thread_limit, thread_limit ? std::min(seconds, *thread_limit) : seconds)) {}

WaitLimit::~WaitLimit() {
    thread_limit = before_;
}

void set_default_timeout(std::optional<double> seconds) {
    timeout.store(checked(seconds).value_or(none), std::memory_order_relaxed);
}

void set_interrupt_check(InterruptCheck check) noexcept {
    interrupt_check.store(check, std::memory_order_relaxed);
}

void check_interrupt() {
    const InterruptCheck check = interrupt_check.load(std::memory_order_relaxed);
    if (check && check()) throw Interrupted();
}

void set_other_work(OtherWork work) noexcept {
    other_work.store(work, std::memory_order_relaxed);
}

bool push_other_work() {
    const OtherWork work = other_work.load(std::memory_order_relaxed);
    return work && work();
}

Waiting::Waiting(Processors processors, std::optional<double> timeout_seconds)
    : awake_seconds_(awake_seconds_of[static_cast<int>(processors)]),
      spins_(spins_of[static_cast<int>(processors)]),
      spins_left_(spins_),
      timeout_seconds_(timeout_seconds ? checked(timeout_seconds) : default_timeout()),
      begin_(Clock::now()),
      next_interrupt_check_(interrupt_interval_seconds) {}

Waiting::Waiting(const ProcessGroup& group, std::optional<double> timeout_seconds)
    : Waiting(group.node().processors, timeout_seconds) {
    group_ = &group;
}

double Waiting::seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
}

void Waiting::pause() {
    if (group_) group_->failures().check_while_waiting();
    if (spins_left_ > 0) {
        --spins_left_;
        if (spins_left_ % spins_between_looks == 0 &&
            seconds() - awake_since_seconds_ > spin_seconds)
            spins_left_ = 0;
#if defined(__x86_64__) || defined(__i386__)
        _mm_pause();
#endif
        return;
    }
    const double waited = seconds();
    // A process that was stopped (by a batch system, a debugger) has not waited meanwhile: what it
    // waits for may have come, and it has not looked.
    waited_seconds_ += std::min(waited - looked_at_seconds_, longest_turn_seconds);
    looked_at_seconds_ = waited;
    expired_ = timeout_seconds_ && waited_seconds_ > *timeout_seconds_;
    if (waited >= next_interrupt_check_) {
        next_interrupt_check_ = waited + interrupt_interval_seconds;
        check_interrupt();
    }
    if (group_) group_->failures().let_mpi_progress();
    if (!expired_) rest(waited - awake_since_seconds_);
}

void Waiting::restart() {
    spins_left_ = spins_;
    awake_since_seconds_ = seconds();
}

void Waiting::defer_deadline() {
    next_interrupt_check_ = longest_hold_out_seconds;
    if (timeout_seconds_) timeout_seconds_ = std::max(*timeout_seconds_, longest_hold_out_seconds);
}

void Waiting::sleep_by(Sleep sleep) {
    sleep_ = std::move(sleep);
    spins_ = std::min(spins_, spins_before_sleep);
    spins_left_ = std::min(spins_left_, spins_);
}

void Waiting::rest(double waited_seconds) {
    if (!sleeps_ || (waited_seconds < awake_seconds_ && !is_crowded_)) {
        const auto begin = sleep_ ? Clock::now() : Clock::time_point();
        sched_yield();
        is_crowded_ = sleep_ && Clock::now() - begin > lonely_yield;
        return;
    }
    const double sleep = std::min(waited_seconds * slept_part, longest_sleep_seconds);
    if (!sleep_) {
        std::this_thread::sleep_for(std::chrono::duration<double>(sleep));
        return;
    }
    const std::chrono::duration<double> longest(std::max(sleep, least_sleep_seconds));
    sleep_(std::chrono::duration_cast<std::chrono::nanoseconds>(longest));
}

void wait_until(const ProcessGroup& group, const std::function<bool()>& done, Load load,
                const char* call) {
    Waiting waiting(group);
    if (load == Load::data) waiting.stay_awake();
    if (!group.failures().is_connected()) waiting.defer_deadline();
    wait(waiting, done, [&] {
        throw make_error(ErrorCode::timeout, "process ", group.rank(), " waited ",
                         waiting.timeout_seconds(), " s ",
                         call ? concat("in ", call, " for the other processes")
                              : "for the other processes to make the same call");
    });
}

void complete(const ProcessGroup& group, MPI_Request& request, const char* call, Load load) {
    const auto is_done = [&] {
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
        return done != 0;
    };
    wait_until(group, is_done, load, call);
}

}  // namespace datamover::mpi
