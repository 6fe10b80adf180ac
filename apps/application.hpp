// SPDX-License-Identifier: BSD-3-Clause
// How does an application read its arguments, time itself, and say what came out?
#pragma once

#include <mpi.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "row_output.hpp"

namespace apps {

/// Arguments that make no sense: seen by all processes alike, before anything has begun.
struct BadInput : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Seconds of one process in one run. What packs by itself says how long that took.
struct Times {
    double total = 0, communication = 0, pack = 0, wait = 0;
};

/// Adds the seconds that `work` takes.
template <class Work>
void timed(double& seconds, Work&& work) {
    const double begin = MPI_Wtime();
    work();
    seconds += MPI_Wtime() - begin;
}

/// The words of a comma-separated list.
inline std::vector<std::string> words_of(std::string_view list) {
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        words.emplace_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

/// A number between two others. Throws BadInput, naming what it is for.
inline std::int64_t number_of(const std::string& text, const char* what, std::int64_t least,
                              std::int64_t most) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || value < least || value > most)
        throw BadInput(std::string(what) + " must be a whole number from " +
                       std::to_string(least) + " to " + std::to_string(most) + ", not '" + text +
                       "'");
    return value;
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
        std::printf("%-20s %10s %14s %7s  %s\n", "", "seconds", "communication", "share",
                    "verification");
    }

    /// Adds a run, of which `times` tells this process's part, and prints it. Each time is that of
    /// the slowest process. `verified` is said by process 0. Collective.
    void add(const std::string& contender, Times times, bool verified, const std::string& how) {
        MPI_Allreduce(MPI_IN_PLACE, &times, 4, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        int passed = verified ? 1 : 0;
        MPI_Bcast(&passed, 1, MPI_INT, 0, MPI_COMM_WORLD);
        all_verified_ = all_verified_ && passed == 1;
        if (rank_ != 0) return;
        std::printf("%-20s %10.4g %14.4g %5.1f %%  %s: %s\n", contender.c_str(), times.total,
                    times.communication, 100 * times.communication / std::max(times.total, 1e-12),
                    verified ? "passed" : "FAILED", how.c_str());
        std::fflush(stdout);
        if (!json_.is_open()) return;
        bench::Line row;
        row.text("application", application_).text("case", case_).text("contender", contender);
        row.integer("processes", size_).boolean("verified", verified);
        row.number("seconds", times.total).number("communication_seconds", times.communication);
        if (times.pack > 0) row.number("pack_seconds", times.pack);
        if (times.wait > 0) row.number("wait_seconds", times.wait);
        json_ << (rows_++ == 0 ? "{\"rows\": [\n" : ",\n") << row.object();
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

    std::string application_, case_;
    std::ofstream json_;
    int rank_ = 0, size_ = 1, rows_ = 0;
    bool all_verified_ = true;
};

/// Hands the exit code over: launchers comment on any code but 0, so whoever started this program
/// may have asked for it in a file.
inline int leave(int code, int rank) {
    const char* file = std::getenv("DATAMOVER_STATUS_FILE");
    if (file == nullptr) return code;
    if (rank == 0) std::ofstream(file) << code;
    return 0;
}

/// The main function of an application: MPI around `work(arguments)`, which gives the exit code.
template <class Work>
int run_application(int argc, char** argv, Work&& work) {
    MPI_Init(&argc, &argv);
    int rank = 0, code = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        code = work(std::vector<std::string>(argv + 1, argv + argc));
    } catch (const BadInput& e) {
        if (rank == 0) std::fprintf(stderr, "error: %s\n", e.what());
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: process %d: %s\n", rank, e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return leave(code, rank);
}

}  // namespace apps
