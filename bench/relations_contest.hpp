// SPDX-License-Identifier: BSD-3-Clause
// Timing of contenders against each other, and printing of their rows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline double seconds_now() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Contenders for one phase of one case. They take turns, so that a slow moment of the machine
/// meets all of them; the median of the turns counts.
class Contest {
public:
    Contest(std::string name, std::string phase, std::int64_t bytes)
        : case_(std::move(name)), phase_(std::move(phase)), bytes_(bytes) {}

    void add(std::string contender, std::function<void()> work, std::int64_t nbytes = -1) {
        contenders_.push_back({std::move(contender), std::move(work), nbytes, 1, {}});
    }

    /// Runs all and prints one JSON object per contender; for those named "loop:…" also a row
    /// "loop" with the best of them.
    void run() {
        for (Contender& c : contenders_) calibrate(c);
        const double start = seconds_now();
        for (int turn = 0; turn < most_turns; ++turn) {
            if (turn >= least_turns && seconds_now() - start > enough_seconds) break;
            for (Contender& c : contenders_) c.seconds.push_back(time(c));
        }
        const Contender* best = nullptr;
        for (Contender& c : contenders_) {
            std::sort(c.seconds.begin(), c.seconds.end());
            print(c, c.name);
            if (c.name.rfind("loop:", 0) == 0 && (best == nullptr || median(c) < median(*best)))
                best = &c;
        }
        if (best != nullptr) print(*best, "loop");
    }

private:
    static constexpr int most_turns = 31;
    static constexpr int least_turns = 5;
    static constexpr double enough_seconds = 2.0;
    /// Short enough to fit between two interruptions, long enough for the clock.
    static constexpr double shortest_seconds = 1.5e-4;

    struct Contender {
        std::string name;
        std::function<void()> work;
        std::int64_t nbytes;
        std::int64_t repeats;
        std::vector<double> seconds;
    };

    /// Its own turn comes before the one that is timed: what another contender leaves in the caches
    /// depends on the order in which that one goes.
    static double time(const Contender& c) {
        c.work();
        const double start = seconds_now();
        for (std::int64_t i = 0; i < c.repeats; ++i) c.work();
        return (seconds_now() - start) / static_cast<double>(c.repeats);
    }
    static void calibrate(Contender& c) {
        while (time(c) * static_cast<double>(c.repeats) < shortest_seconds) c.repeats *= 2;
    }
    static double median(const Contender& c) { return c.seconds[c.seconds.size() / 2]; }

    void print(const Contender& c, const std::string& name) const {
        std::printf(
            "{\"case\": \"%s\", \"phase\": \"%s\", \"contender\": \"%s\", "
            "\"processes\": 1, \"seconds\": %.6g, \"runs\": %d, \"bytes\": %lld",
            case_.c_str(), phase_.c_str(), name.c_str(), median(c),
            static_cast<int>(c.seconds.size()), static_cast<long long>(bytes_));
        if (c.nbytes >= 0) std::printf(", \"nbytes\": %lld", static_cast<long long>(c.nbytes));
        std::printf("}\n");
        std::fflush(stdout);
    }

    std::string case_;
    std::string phase_;
    std::int64_t bytes_;
    std::vector<Contender> contenders_;
};

}  // namespace bench
