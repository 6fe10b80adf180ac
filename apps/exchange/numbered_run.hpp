// SPDX-License-Identifier: BSD-3-Clause
// Runs the versions of a program on numbered values in turns, and verifies their results.
#pragma once

#include "numbered.hpp"
#include "report.hpp"

namespace apps {

/// A process's boxes of arrays: those of the result, and those that are computed with.
struct Arrays {
    std::vector<Values> results, others;
};

/// Runs all versions that were chosen, with arguments VERSIONS CLASS ITERATIONS ROUNDS [JSON_FILE].
/// arrays(version) gives Arrays; iterate(version, number, times) is one iteration, after which all
/// results have grown by `number`. Returns the exit code. Collective.
template <class Problem, class Version, class GetArrays, class Iterate>
int run_numbered(const std::string& application, const Problem& problem,
                 const std::vector<Choice<Version, Problem>>& chosen,
                 const std::vector<std::string>& arguments, GetArrays&& arrays, Iterate&& iterate) {
    struct Contender {
        std::string name;
        std::unique_ptr<Version> version;
        std::vector<Times> runs;
        std::int64_t wrong = 0;
    };
    const std::int64_t rounds = number_of(arguments[3], "rounds", 1, 1000);
    const std::string edge = std::to_string(problem.n);
    const std::int64_t values = 5 * problem.n * problem.n * problem.n;
    Report report(application, application + "-" + problem.name,
                  "class " + problem.name + ", " + edge + " x " + edge + " x " + edge +
                      " points, " + std::to_string(problem.iterations) + " iteration" +
                      (problem.iterations == 1 ? "" : "s"),
                  arguments.size() > 4 ? arguments[4] : "");
    const auto run = [&](Version& version, std::int64_t iterations) {
        const Arrays all = arrays(version);
        for (const Values& v : all.results) number(v);
        for (const Values& v : all.others) number(v);
        Times times;
        MPI_Barrier(MPI_COMM_WORLD);
        timed(times.total, [&] {
            for (std::int64_t i = 1; i <= iterations; ++i)
                iterate(version, static_cast<double>(i), times);
        });
        return times;
    };
    std::vector<Contender> contenders;
    for (const auto& choice : chosen) {
        contenders.push_back({choice.contender, choice.make(problem), {}, 0});
        run(*contenders.back().version, 1);  // finds the memory
    }
    for (std::int64_t round = 0; round < rounds; ++round)
        for (Contender& c : contenders) {
            c.runs.push_back(run(*c.version, problem.iterations));
            std::int64_t right = 0;
            for (const Values& v : arrays(*c.version).results)
                right += right_values(v, sum_to(problem.iterations));
            MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
            c.wrong = std::max(c.wrong, values - right);
        }
    for (const Contender& c : contenders)
        report.add(c.name, c.runs, c.wrong == 0,
                   std::to_string(values - c.wrong) + " of " + std::to_string(values) +
                       " values are right");
    return report.end();
}

}  // namespace apps
