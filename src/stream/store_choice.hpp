// SPDX-License-Identifier: BSD-3-Clause
// StoreChoice: writes a message in shared memory around the processor's caches or through them.
//
// Writes around the caches do not take lines from the core that read the last message there. After
// writes through the caches, the other core does not need to fetch the message from memory. The
// faster way differs from machine to machine (measured: by 1.5 to 3 times, either way), and no
// property that a program could query reveals it. Both ways are therefore tried with the program's
// own messages.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace datamover::stream {

class StoreChoice {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// Whether messages of together so many bytes, which begin now, go around the caches.
    bool goes_around(Time now, std::uint64_t bytes);

private:
    enum Way : std::size_t { around, through };
    static constexpr std::size_t ways = 2;

    /// Each way is tried several times, so that what else a machine does meets both. The first
    /// messages of a trial do not count: they wait for those before, which went the other way.
    static constexpr int most_trials = 2 * static_cast<int>(ways), uncounted = 8, counted = 8;
    /// Messages until both are tried again.
    static constexpr int settled = 4096;

    /// Of messages of about one size.
    class Size {
    public:
        bool goes_around(Time now, std::uint64_t bytes);

    private:
        void count(double ns_per_byte);
        void end_trial();

        Way way_ = around;
        Time last_begin_;
        std::uint64_t last_bytes_ = 0;  ///< 0: nothing was sent yet
        int calls_ = 0;                 ///< of this trial, or since it is settled
        int trials_ = 0;
        std::array<double, counted> samples_ns_{};  ///< between two messages, for each byte
        std::array<double, ways> best_ns_{};        ///< of the trials of each way
    };

    std::array<Size, 65> by_width_;  ///< by the bits of the number of bytes
};

}  // namespace datamover::stream
