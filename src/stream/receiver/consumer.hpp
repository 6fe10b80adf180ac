// SPDX-License-Identifier: BSD-3-Clause
// Consumer: the processes of a program that receive another program's arrays, step by step.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "datamover/stream_options.hpp"
#include "stream/receiver/incoming_steps.hpp"
#include "stream/wire/endpoints.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/together.hpp"

namespace datamover::stream {

/// The receiving end of a stream. The program that waits for a step reads the connections itself,
/// so that a step takes no hand-over between threads. A thread takes over where the program stays
/// away.
class Consumer {
public:
    /// Connects. Collective. Throws invalid_argument, timeout (nobody listens), io (somebody else
    /// does), invalid_state (the stream has ended).
    Consumer(std::shared_ptr<Together> together, const std::string& address,
             StreamSourceOptions options);
    /// Leaves it, as `close`.
    ~Consumer();

    /// The arrays that the stream has sent so far, at least one. Waits so long (nothing: for ever).
    /// Collective. Throws timeout, and as `next`.
    std::vector<SentArray> arrays(std::optional<double> timeout_seconds);
    /// Requests arrays, once. Each step that begins after the return is for this consumer.
    /// Collective. Throws invalid_state, invalid_argument, mismatch, unsupported; timeout,
    /// peer_failed if the stream does not confirm the request.
    void subscribe(std::vector<WantedArray> wanted);
    /// As subscribe, of a process alone: it gets each array, also those that are sent first later,
    /// whole, and each as a step of its own.
    void subscribe_to_all();

    // Local.

    /// Waits up to a timeout (none: forever) for the next step, or returns the last one again if it
    /// was not taken; null if the stream has ended. The step is valid until `taken`; call from one
    /// thread at a time. Throws timeout, invalid_state (closed), peer_failed (a process of either
    /// program failed), io (malformed or damaged bytes), mismatch, wrong_type,
    /// no_memory, and what an interruption throws.
    const ArrivedStep* next(std::optional<double> timeout_seconds);
    /// Puts this process's part of an array of that step into memory. Throws invalid_state where
    /// the step does not have it, and as AddressRelation::bind_scatter.
    void unpack(const std::string& name, const DestinationMemory& destination);
    /// The same of an array that comes in new memory: that, densely, for as long as it is kept.
    /// `elem_bytes` are those of the dtype by which it is read. Throws io unless they are the
    /// stream's.
    std::shared_ptr<std::byte> unpack_new(const std::string& name, std::int64_t elem_bytes);
    /// How an array of that step is wanted. Throws invalid_state where the step does not have it.
    Layout layout_of(const std::string& name) { return array_of(name).first->wanted(); }
    /// All that is wanted of the step was unpacked: another one may come for it. Does nothing if
    /// it was called before.
    void taken();

    /// Has `next` throw an error, here and, instead of the steps that this process has not taken,
    /// on the other processes. Nothing after another one.
    void fail(const Error& why);
    /// Has the others throw `why` from the call that they make, and throws it here. Collective.
    [[noreturn]] void refuse(const Error& why);
    /// Leaves the stream. Local. Other processes get the steps that this one took; `next` throws
    /// peer_failed there in place of a further one. Does nothing in a forked process, whose parent
    /// the connections belong to.
    void close();

    std::uint64_t dropped() const { return steps_->dropped(); }
    StreamSourceCounters counters() const;
    int rank() const { return together_->rank(); }
    int size() const { return together_->size(); }

    // For tests: so long the reason of a failure is looked for.
    std::atomic<int> reason_milliseconds{10'000};

private:
    /// What a forked process must not touch, since threads that it does not have use it.
    struct Turns {
        std::mutex lock;
        std::condition_variable program_left;
        std::thread thread;
    };
    using Lock = std::unique_lock<std::mutex>;

    void introduce(const Address& address, Frame words);
    void check_wanted(const std::vector<WantedArray>& wanted) const;
    void require_unsubscribed() const;
    void begin_steps(std::vector<WantedArray> wanted);
    std::pair<IncomingArray*, ArrayMessages>& array_of(const std::string& name);
    IncomingSteps::Links dial_to(int producer);
    Dialing dialing(bool goes_on);
    bool is_own_process() const;
    void require_own_process() const;

    Lock entered();

    // Under the lock.
    void say_bye(std::optional<Error> why);
    void raise_error() const;
    void fail_here(const Error& why);
    bool wait(Lock& lock, const Deadline& deadline, const std::function<bool()>& is_done);
    bool take_turn(Lock& lock, std::chrono::milliseconds time, bool is_program);
    void take_in(const std::vector<pollfd>& waiting, bool is_program);
    bool is_finished() const { return error_ || closed_ || steps_->is_over(); }

    void run();

    const std::shared_ptr<Together> together_;
    const StreamSourceOptions options_;
    const pid_t process_;
    Deadline limit_;                    ///< of connecting
    std::optional<std::string> token_;  ///< known once the first process has connected
    Frame welcome_;                     ///< what the stream has said of itself
    std::shared_ptr<Connection> connection_;
    std::unique_ptr<FrameLink> control_;
    ReceptionCounters counters_;
    std::unique_ptr<IncomingSteps> steps_;
    std::optional<ArrivedStep> open_;  ///< that the program looks at
    std::optional<Event> wake_;        ///< set when it is over

    std::unique_ptr<Turns> turns_ = std::make_unique<Turns>();
    std::atomic<int> wanting_{0};  ///< calls of the program that want the lock
    int waiting_ = 0;              ///< calls of the program that wait for the stream
    Clock::time_point left_;       ///< when the last of them returned
    Clock::time_point awake_end_;  ///< until then the program that waits stays awake
    bool thread_rests_ = false;    ///< until a call returns
    std::optional<Error> error_;
    std::optional<Error> failing_;                 ///< an error whose reason is looked for
    std::optional<Clock::time_point> reason_end_;  ///< until then it may be found
    std::exception_ptr interrupted_;               ///< while it connected: raised when it has
    std::atomic<bool> closed_{false};
    std::atomic<std::thread::id> connecting_{};  ///< while it connects, under the lock
    bool is_subscribed_ = false, has_left_ = false;
};

}  // namespace datamover::stream
