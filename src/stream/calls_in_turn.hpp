// SPDX-License-Identifier: BSD-3-Clause
// Turns for threads of one program that send over the same stream.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "datamover/error.hpp"
#include "stream/together.hpp"

namespace datamover::stream {

/// One call at a time.
class CallsInTurn {
public:
    /// A call that has its turn.
    class Turn {
    public:
        /// Waits for calls of other threads. Throws invalid_state where this thread is in one,
        /// whose wait a signal handler interrupts; and what an interruption throws.
        Turn(CallsInTurn& calls, Together& together) : calls_(calls) {
            if (calls.is_of_this_thread())
                throw Error(ErrorCode::invalid_state,
                            "the stream cannot be used in a signal handler that interrupts one of "
                            "its calls");
            while (!calls.lock_.try_lock_for(together.look_time())) together.check_interrupted();
            calls.caller_ = std::this_thread::get_id();
        }
        ~Turn() {
            calls_.caller_ = std::thread::id();
            calls_.lock_.unlock();
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

    private:
        CallsInTurn& calls_;
    };

    /// The turn, if no thread has it.
    std::unique_lock<std::timed_mutex> turn_if_free() {
        if (is_of_this_thread()) return {};
        return {lock_, std::try_to_lock};
    }

private:
    bool is_of_this_thread() const { return caller_ == std::this_thread::get_id(); }

    std::timed_mutex lock_;
    std::atomic<std::thread::id> caller_{};
};

}  // namespace datamover::stream
