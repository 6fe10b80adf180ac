// SPDX-License-Identifier: BSD-3-Clause
// Timers of an application, and the report of its results.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "row_output.hpp"

namespace apps {

/// Seconds of one process in one run. What packs by itself says how long that took.
struct Times {
    double total = 0, communication = 0, pack = 0, wait = 0;
};
static_assert(sizeof(Times) == 4 * sizeof(double));  // reduced as such

/// Adds the seconds that `work` takes.
template <class Work>
void timed(double& seconds, Work&& work) {
    const double begin = MPI_Wtime();
    work();
    seconds += MPI_Wtime() - begin;
}

/// The processes of an application, its rows as they come, and what they are compared by: people
/// read them on process 0's output, programs in a JSON file.
class Report {
public:
    /// `title`: the problem in a line. `json_file`: empty for none. Collective; throws BadInput
    /// where the file cannot be written.
    Report(std::string application, std::string problem_case, const std::string& title,
           const std::string& json_file)
        : application_(std::move(application)), case_(std::move(problem_case)) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        open(json_file);
        if (rank_ != 0) return;
        std::printf("%s: %s, %d process%s\n", application_.c_str(), title.c_str(), size_,
                    size_ == 1 ? "" : "es");
        std::printf("%-24s %10s %14s %7s  %s\n", "", "seconds", "communication", "share",
                    "verification");
    }

    /// Adds the runs of a version, of which `runs` tells this process's part, and prints the one
    /// that took the median time. Each time is that of the slowest process. `verified` is said by
    /// process 0. Collective.
    void add(const std::string& contender, std::vector<Times> runs, bool verified,
             const std::string& how) {
        for (Times& times : runs)
            MPI_Allreduce(MPI_IN_PLACE, &times, 4, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        int passed = verified ? 1 : 0;
        MPI_Bcast(&passed, 1, MPI_INT, 0, MPI_COMM_WORLD);
        all_verified_ = all_verified_ && passed == 1;
        if (rank_ != 0) return;
        std::sort(runs.begin(), runs.end(),
                  [](const Times& a, const Times& b) { return a.total < b.total; });
        const Times& median = runs[(runs.size() - 1) / 2];
        std::printf("%-24s %10.4g %14.4g %5.1f %%  %s: %s\n", contender.c_str(), median.total,
                    median.communication,
                    100 * median.communication / std::max(median.total, 1e-12),
                    verified ? "passed" : "FAILED", how.c_str());
        std::fflush(stdout);
        write_row(contender, runs, median, verified);
    }

    /// The code to exit with. Collective.
    int end() {
        if (rows_ > 0) json_ << "\n]}\n";
        if (json_.is_open()) json_.close();
        int code = all_verified_ && !json_.fail() ? 0 : 1;
        if (json_.fail()) std::fprintf(stderr, "error: the JSON file could not be written\n");
        MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
        return code;
    }

private:
    void open(const std::string& json_file) {
        if (rank_ == 0 && !json_file.empty()) json_.open(json_file);
        int opened = json_.fail() ? 0 : 1;
        MPI_Bcast(&opened, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!opened) throw BadInput("the file " + json_file + " cannot be written");
    }

    void write_row(const std::string& contender, const std::vector<Times>& runs,
                   const Times& median, bool verified) {
        if (!json_.is_open()) return;
        std::vector<double> totals, communications;
        for (const Times& times : runs) {
            totals.push_back(times.total);
            communications.push_back(times.communication);
        }
        bench::Line row;
        row.text("application", application_).text("case", case_).text("contender", contender);
        row.integer("processes", size_).boolean("verified", verified);
        row.number("seconds", median.total).numbers("samples", totals);
        row.number("communication_seconds", median.communication);
        row.numbers("communication_samples", communications);
        if (median.pack > 0) row.number("pack_seconds", median.pack);
        if (median.wait > 0) row.number("wait_seconds", median.wait);
        json_ << (rows_++ == 0 ? "{\"rows\": [\n" : ",\n") << row.object();
    }

    std::string application_, case_;
    std::ofstream json_;
    int rank_ = 0, size_ = 1, rows_ = 0;
    bool all_verified_ = true;
};

}  // namespace apps
