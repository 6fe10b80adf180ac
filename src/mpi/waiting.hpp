// SPDX-License-Identifier: BSD-3-Clause
// Waiting: spin, yield, sleep; watches failures, the deadline and interrupts.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>

#include "geometry/interruption.hpp"

namespace datamover::mpi {

class ProcessGroup;

/// Seconds after which a wait that names no deadline of its own gives up: set_default_timeout's,
/// else those of DATAMOVER_TIMEOUT in the environment, else none.
std::optional<double> default_timeout();
/// Infinity, or no value: no timeout. Throws invalid_argument unless the value is above 0.
void set_default_timeout(std::optional<double> seconds);

/// While it lives, waits of this thread that name no deadline give up after so many seconds at the
/// latest: others may be where they wait for this process, and nothing tells them.
class WaitLimit {
public:
    explicit WaitLimit(double seconds);
    ~WaitLimit();
    WaitLimit(const WaitLimit&) = delete;
    WaitLimit& operator=(const WaitLimit&) = delete;

private:
    std::optional<double> before_;
};

/// Asked every now and then by whoever waits: true when the wait has to end with Interrupted. For a
/// language with signals of its own.
using InterruptCheck = bool (*)();
void set_interrupt_check(InterruptCheck check) noexcept;

/// Throws Interrupted where the check says so. For whoever waits for something else than processes.
void check_interrupt();

/// Called in the turns of waits for MPI: pushes on what else this process has under way, for which
/// others may wait before they come. True when anything was done.
using OtherWork = bool (*)();
void set_other_work(OtherWork work) noexcept;
bool push_other_work();

/// A wait was ended by the interrupt check; what was waited for is still under way.
class Interrupted : public std::exception, public Interruption {
public:
    const char* what() const noexcept override { return "the wait was interrupted"; }
};

/// Whether the processes of a node have a processor each, or those that wait hold up those that
/// work.
enum class Processors : std::uint8_t { one_each, shared };

/// The pauses of one wait. Spins at first, then lets others run, then sleeps for a small part of
/// the time waited so far; all of it sooner where processors are shared. Looks at the failures of
/// the group, at the deadline and for an interrupt, and polls MPI once it no longer spins.
class Waiting {
public:
    /// Looks for failures of `group` in each pause. `timeout_seconds` is above 0; no value:
    /// default_timeout, infinity: none.
    explicit Waiting(const ProcessGroup& group, std::optional<double> timeout_seconds = {});
    /// For those who poll MPI and look for failures themselves.
    explicit Waiting(Processors processors, std::optional<double> timeout_seconds = {});

    /// One turn. Throws peer_failed when a process of the group has failed, Interrupted.
    void pause();
    /// Something has come, and more may soon: awake again. The deadline stays.
    void restart();
    /// Sleeps that end when there is something to look at. With them a wait does not stay awake for
    /// long where others want its processor.
    using Sleep = std::function<void(std::chrono::nanoseconds longest)>;
    void sleep_by(Sleep sleep);
    /// Gives way from now on, but never sleeps: where something comes only while it is polled.
    void stay_awake() { sleeps_ = false; }
    /// Hears no interrupt, and no deadline, for ten seconds: where all have come, the rest takes a
    /// moment, and whoever left now would have the others wait in calls of MPI that nothing ends.
    void defer_deadline();
    /// Whether the deadline has passed.
    bool expired() const { return expired_; }
    double seconds() const;
    double timeout_seconds() const { return timeout_seconds_.value_or(0); }

private:
    using Clock = std::chrono::steady_clock;

    void rest(double waited_seconds);

    const ProcessGroup* group_ = nullptr;
    double awake_seconds_;
    int spins_, spins_left_;
    bool expired_ = false, sleeps_ = true, is_crowded_ = false;
    Sleep sleep_;
    std::optional<double> timeout_seconds_;
    Clock::time_point begin_;
    double awake_since_seconds_ = 0;
    double looked_at_seconds_ = 0, waited_seconds_ = 0;
    double next_interrupt_check_;
};

/// Waits until done() says so, and pushes on what else this process has under way; calls late(),
/// which throws, where the deadline passes.
template <class Done, class Late>
void wait(Waiting& waiting, Done&& done, Late&& late) {
    while (!done()) {
        waiting.pause();
        if (push_other_work()) waiting.restart();
        if (waiting.expired()) late();
    }
}

/// What is waited for: MPI moves data of any size only while it is polled, so that nobody sleeps.
enum class Load { numbers, data };

/// Waits until done() says so, for others to make the same call, or in a call of MPI's. Throws
/// timeout, peer_failed, Interrupted.
void wait_until(const ProcessGroup& group, const std::function<bool()>& done,
                Load load = Load::numbers, const char* call = nullptr);
/// Waits for a request; throws mpi, or as wait_until.
void complete(const ProcessGroup& group, MPI_Request& request, const char* call,
              Load load = Load::numbers);

}  // namespace datamover::mpi
