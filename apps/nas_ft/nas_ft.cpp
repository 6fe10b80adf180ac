// SPDX-License-Identifier: BSD-3-Clause
// NAS FT: a diffusion equation in three dimensions, solved by Fourier transforms, on any number of
// processes. Source: NAS Parallel Benchmarks, FT.
// Arguments: versions (datamover, overlap, thread, by_hand; comma-separated), the class, number of
// turns of each version, and optionally a JSON file.
#include <optional>

#include "application.hpp"
#include "datamover/progress.hpp"
#include "version.hpp"

namespace {

using namespace ft;

/// What one run gave.
struct Result {
    apps::Times times;
    std::vector<Complex> checksums;
};

/// The transform and the iterations, timed; the values at the beginning are not.
Result solve(Version& version, Transforms& transforms, Evolution& evolution) {
    const Share& share = version.share();
    Result result;
    fill_planes(share.problem, share.z0, share.mz, version.space());
    MPI_Barrier(MPI_COMM_WORLD);
    apps::timed(result.times.total, [&] {
        version.forward(transforms, result.times);
        evolution.begin(version.spectrum());
        for (std::size_t i = 0; i < share.problem.checksums.size(); ++i) {
            evolution.step(version.spectrum());
            version.inverse(transforms, result.times);
            Complex sum = checksum_of_planes(share.problem, share.z0, share.mz, version.space());
            MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
            result.checksums.push_back(sum);
        }
    });
    return result;
}

/// How many checksums are not those of the benchmark.
std::size_t wrong_checksums(const Problem& problem, const std::vector<Complex>& checksums) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < checksums.size(); ++i) {
        const Complex right = problem.checksums[i];
        // Also true where a checksum is not a number.
        wrong += !(std::abs((checksums[i] - right) / right) <= tolerance);
    }
    return wrong;
}

const apps::Makers<Version, Problem> makers{with_datamover, by_hand, incomplete, overlapped};

/// A version that takes its turns.
struct Contender {
    /// A first run finds the memory and plans the transforms. Collective.
    Contender(const apps::Choice<Version, Problem>& choice, const Problem& problem)
        : name(choice.contender),
          version(choice.make(problem)),
          with_thread(choice.with_thread),
          transforms(version->share()),
          evolution(version->share()) {
        solve(*version, transforms, evolution);
    }

    std::string name;
    std::unique_ptr<Version> version;
    bool with_thread;
    Transforms transforms;
    Evolution evolution;
    std::vector<apps::Times> runs;
    std::size_t wrong = 0;
};

void check_processes(const Problem& problem) {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const std::int64_t most = std::min(problem.ny, problem.nz);
    if (size > most)
        throw apps::BadInput("class " + problem.name + " has " + std::to_string(most) +
                             " planes to share out, too few for " + std::to_string(size) +
                             " processes; use at most " + std::to_string(most));
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.size() < 3 || arguments.size() > 4)
        throw apps::BadInput("usage: nas_ft VERSIONS CLASS ROUNDS [JSON_FILE]");
    const auto chosen = makers.chosen(arguments[0]);
    const Problem problem = problem_of(arguments[1]);
    check_processes(problem);
    const std::int64_t rounds = apps::number_of(arguments[2], "rounds", 1, 1000);
    const auto text = [](auto number) { return std::to_string(number); };
    const std::size_t iterations = problem.checksums.size();
    apps::Report report("nas_ft", "nas_ft-" + problem.name,
                        "class " + problem.name + ", " + text(problem.nx) + " x " +
                            text(problem.ny) + " x " + text(problem.nz) + " points, " +
                            text(iterations) + " iterations",
                        arguments.size() > 3 ? arguments[3] : "");
    std::vector<Contender> contenders;
    for (const auto& choice : chosen) contenders.emplace_back(choice, problem);
    for (std::int64_t round = 0; round < rounds; ++round)
        for (Contender& c : contenders) {
            std::optional<datamover::ProgressThread> thread;
            if (c.with_thread) thread.emplace();
            const Result result = solve(*c.version, c.transforms, c.evolution);
            c.runs.push_back(result.times);
            c.wrong = std::max(c.wrong, wrong_checksums(problem, result.checksums));
        }
    for (const Contender& c : contenders)
        report.add(
            c.name, c.runs, c.wrong == 0,
            text(iterations - c.wrong) + " of " + text(iterations) + " checksums are those of NAS");
    return report.end();
}

}  // namespace

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, run);
}
