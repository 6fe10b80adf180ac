// SPDX-License-Identifier: BSD-3-Clause
// Product of two matrices that are distributed in blocks, on any number of processes. Source:
// SUMMA, van de Geijn and Watts, Concurrency 9(4), 1997.
// Arguments: versions (datamover, overlap, thread, by_hand, ring; comma-separated), the size (N, or
// MxKxN), the edge of a block, number of turns of each version, and optionally a JSON file.
#include <optional>

#include "application.hpp"
#include "datamover/progress.hpp"
#include "verification.hpp"
#include "version.hpp"

#ifdef DATAMOVER_OPENBLAS
extern "C" void openblas_set_num_threads(int threads);
#endif

namespace {

using namespace summa;

const apps::Makers<Version, Problem> makers{
    with_datamover, by_hand, incomplete, overlapped, {{"ring", "by_hand:ring", by_hand_in_a_ring}}};

/// The product, timed.
apps::Times multiply(Version& version) {
    apps::Times times;
    fill(version.c(), [](std::int64_t, std::int64_t) { return 0; });
    MPI_Barrier(MPI_COMM_WORLD);
    apps::timed(times.total, [&] { version.multiply(times); });
    return times;
}

/// A version that takes its turns.
struct Contender {
    /// A first run finds the memory. Collective.
    Contender(const apps::Choice<Version, Problem>& choice, const Problem& problem)
        : name(choice.contender), version(choice.make(problem)), with_thread(choice.with_thread) {
        fill(version->a(), element_of_a);
        fill(version->b(), element_of_b);
        multiply(*version);
    }

    std::string name;
    std::unique_ptr<Version> version;
    bool with_thread;
    std::vector<apps::Times> runs;
    std::int64_t wrong = 0;
};

/// N for square matrices, or MxKxN.
Problem problem_of(const std::string& size, const std::string& block) {
    std::vector<std::int64_t> extents;
    for (std::size_t begin = 0; begin <= size.size();) {
        const std::size_t end = std::min(size.find('x', begin), size.size());
        // A panel is one message.
        extents.push_back(apps::number_of(size.substr(begin, end - begin), "the size", 1, 20000));
        begin = end + 1;
    }
    if (extents.size() == 1) extents.resize(3, extents[0]);
    if (extents.size() != 3)
        throw apps::BadInput("the size must be N or MxKxN, not '" + size + "'");
    const std::int64_t edge = apps::number_of(block, "the edge of a block", 1, 20000);
    int processes = 1, grid[2] = {0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    MPI_Dims_create(processes, 2, grid);
    return {extents[0], extents[1], extents[2], edge, grid[0], grid[1]};
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.size() < 4 || arguments.size() > 5)
        throw apps::BadInput("usage: summa VERSIONS SIZE BLOCK ROUNDS [JSON_FILE]");
#ifdef DATAMOVER_OPENBLAS
    openblas_set_num_threads(1);
#endif
    const auto chosen = makers.chosen(arguments[0]);
    const Problem problem = problem_of(arguments[1], arguments[2]);
    const std::int64_t rounds = apps::number_of(arguments[3], "rounds", 1, 1000);
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    apps::Report report("summa", "summa-" + arguments[1],
                        text(problem.m) + " x " + text(problem.k) + " times " + text(problem.k) +
                            " x " + text(problem.n) + " elements in blocks of " +
                            text(problem.block) + " x " + text(problem.block),
                        arguments.size() > 4 ? arguments[4] : "");
    const Verification verification(problem);
    std::vector<Contender> contenders;
    for (const auto& choice : chosen) contenders.emplace_back(choice, problem);
    for (std::int64_t round = 0; round < rounds; ++round)
        for (Contender& c : contenders) {
            std::optional<datamover::ProgressThread> thread;
            if (c.with_thread) thread.emplace();
            c.runs.push_back(multiply(*c.version));
            c.wrong =
                std::max(c.wrong, verification.parts() - verification.right_parts(c.version->c()));
        }
    for (const Contender& c : contenders)
        report.add(c.name, c.runs, c.wrong == 0,
                   text(verification.parts() - c.wrong) + " of " + text(verification.parts()) +
                       " " + verification.what());
    return report.end();
}

}  // namespace

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, run);
}
