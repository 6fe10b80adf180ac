// SPDX-License-Identifier: BSD-3-Clause
// Timing of contenders that run on several processes against each other.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "row_output.hpp"

namespace bench {

/// Tells the harness which MPI and compiler the rows that follow come from. Process 0 prints.
inline void print_header(MPI_Comm comm) {
    int rank = 0, length = 0;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Comm_rank(comm, &rank);
    MPI_Get_library_version(library, &length);
    if (rank == 0)
        Line()
            .text("mpi", std::string(library, static_cast<std::size_t>(length)))
            .text("compiler", __VERSION__)
            .print();
}

/// The main function of a program that measures: MPI around `work`, and what fails is said.
template <class Work>
int run_program(int& argc, char**& argv, const char* name, Work&& work,
                int thread_level = MPI_THREAD_SINGLE) {
    MPI_Init_thread(&argc, &argv, thread_level, &thread_level);
    try {
        print_header(MPI_COMM_WORLD);
        work();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", name, e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}

/// Contenders for one phase of one case. They take turns (A B C A B C …), so that a slow moment of
/// the machine meets all of them; a repetition counts with its slowest process.
class ProcessContest {
public:
    /// `bytes`: payload that one call moves, summed over all processes. `seconds`: how long all
    /// contenders together may take.
    ProcessContest(MPI_Comm comm, std::string case_name, std::string phase, std::int64_t bytes,
                   double seconds)
        : comm_(comm),
          case_(std::move(case_name)),
          phase_(std::move(phase)),
          bytes_(bytes),
          seconds_(seconds) {
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
        if (size_ <= static_cast<int>(std::thread::hardware_concurrency())) return;
        // One process may leave a barrier some time slices of the system after another.
        shortest_seconds_ = 10e-3;
        most_warming_calls_ = 4;
    }

    /// `clear` spoils the destination and `right` tells whether the contender then filled it.
    struct Check {
        std::function<void()> clear;
        std::function<bool()> right;
    };

    /// Calls the contender once, checks what it did and keeps it for `run`. `setup` tells the
    /// seconds that its preparation took. Collective.
    void add(const std::string& contender, std::function<void()> work, const Check& check,
             const std::function<double()>& setup = {}) {
        check.clear();
        MPI_Barrier(comm_);
        double first_seconds = -MPI_Wtime();
        work();
        first_seconds += MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, &first_seconds, 1, MPI_DOUBLE, MPI_MAX, comm_);
        int right = check.right() ? 1 : 0;
        MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, comm_);
        if (!right) return leave_out(contender, "it moved wrong data");
        // Who is so slow is timed once; the call before found the memory.
        if (seconds_ > 0 && first_seconds > 2 * seconds_) return time_once(contender, work);
        double setup_seconds = setup ? setup() : -1;
        MPI_Allreduce(MPI_IN_PLACE, &setup_seconds, 1, MPI_DOUBLE, MPI_MAX, comm_);
        contenders_.push_back({contender, std::move(work), 1, {}, setup_seconds, {}});
    }

    /// Calls a contender before each of its turns, without counting that, until calls get no
    /// faster: where the work is longer than a turn, who shares memory with the contender before
    /// would find it in the caches, and the others not. What lies in the last cache takes up to ten
    /// calls.
    void warm_turns() { warms_ = true; }

    /// Figures and words that stand in a contender's row beside its times.
    using Facts = std::vector<std::pair<std::string, std::variant<double, std::string>>>;
    void tell(const std::string& contender, const Facts& facts) {
        for (Contender& c : contenders_)
            if (c.name == contender) c.facts = facts;
    }

    /// Calls the contender once, and prints how long that took. Collective.
    void time_once(const std::string& contender, std::function<void()> work) const {
        Contender c{contender, std::move(work), 1, {}, -1, {}};
        c.samples.push_back(time(c));
        print(c);
    }

    /// A contender made by `make`, which may throw (on all processes or none): then it is left out.
    template <class Make>
    void add_made(const std::string& contender, Make&& make, const Check& check,
                  const std::function<double()>& setup = {}) {
        try {
            add(contender, make(), check, setup);
        } catch (const std::exception& e) {
            leave_out(contender, e.what());
        }
    }

    void leave_out(const std::string& contender, const std::string& reason) const {
        if (rank_ == 0)
            Line().text("left_out", contender).text("case", case_).text("reason", reason).print();
    }

    /// Times all contenders and prints their rows. Collective.
    void run() {
        for (Contender& c : contenders_) calibrate(c);
        const double start = MPI_Wtime();
        for (const Contender& c : contenders_) time(c);
        // With more processes than cores the barriers may take longer than the work.
        double turn_seconds = MPI_Wtime() - start;
        MPI_Allreduce(MPI_IN_PLACE, &turn_seconds, 1, MPI_DOUBLE, MPI_MAX, comm_);
        const int turns = static_cast<int>(std::clamp(seconds_ / turn_seconds, 3.0, 400.0));
        for (int turn = 0; turn < turns; ++turn)
            for (Contender& c : contenders_) c.samples.push_back(time(c));
        for (const Contender& c : contenders_) print(c);
    }

private:
    struct Contender {
        std::string name;
        std::function<void()> work;
        std::int64_t repeats;
        std::vector<double> samples;
        double setup_seconds;
        Facts facts;
    };

    /// Seconds per call on the slowest process.
    double time(const Contender& c) const {
        if (warms_) warm(c);
        return seconds_of(c, c.repeats);
    }

    double seconds_of(const Contender& c, std::int64_t calls) const {
        MPI_Barrier(comm_);
        const double start = MPI_Wtime();
        for (std::int64_t i = 0; i < calls; ++i) c.work();
        double elapsed = (MPI_Wtime() - start) / static_cast<double>(calls);
        MPI_Allreduce(MPI_IN_PLACE, &elapsed, 1, MPI_DOUBLE, MPI_MAX, comm_);
        return elapsed;
    }

    /// Until the last three calls were none by a twentieth faster than those before.
    void warm(const Contender& c) const {
        constexpr int calm_calls = 3;
        double fastest = seconds_of(c, 1);
        for (int calls = 1, calm = 0; calls < most_warming_calls_ && calm < calm_calls; ++calls) {
            const double seconds = seconds_of(c, 1);
            calm = seconds < 0.95 * fastest ? 0 : calm + 1;
            fastest = std::min(fastest, seconds);
        }
    }

    /// Chooses how many calls make a repetition, so long that the barrier before it does not count.
    void calibrate(Contender& c) const {
        double repetition = time(c);
        while (repetition < shortest_seconds_) {
            const double factor = std::clamp(1.2 * shortest_seconds_ / repetition, 2.0, 10.0);
            c.repeats =
                static_cast<std::int64_t>(std::ceil(static_cast<double>(c.repeats) * factor));
            repetition = time(c) * static_cast<double>(c.repeats);
        }
    }

    void print(const Contender& c) const {
        if (rank_ != 0) return;
        Line line;
        line.text("case", case_).text("phase", phase_).text("contender", c.name);
        line.integer("processes", size_)
            .integer("bytes", bytes_)
            .integer("calls_per_run", c.repeats);
        if (c.setup_seconds >= 0) line.number("setup_seconds", c.setup_seconds);
        for (const auto& [fact, value] : c.facts) {
            if (const auto* number = std::get_if<double>(&value))
                line.number(fact.c_str(), *number);
            else
                line.text(fact.c_str(), std::get<std::string>(value));
        }
        line.numbers("samples", c.samples).print();
    }

    MPI_Comm comm_;
    std::string case_, phase_;
    std::int64_t bytes_;
    double seconds_;
    double shortest_seconds_ = 1e-3;
    int most_warming_calls_ = 24;
    int rank_ = 0, size_ = 1;
    bool warms_ = false;
    std::vector<Contender> contenders_;
};

}  // namespace bench
