// SPDX-License-Identifier: BSD-3-Clause
// NAS MG: Poisson's equation on a periodic grid, solved by multigrid. Source: NAS Parallel
// Benchmarks, MG.
// Arguments: versions (datamover, overlap, thread, by_hand, datatypes, original, nozero;
// comma-separated), the class, number of turns of each version, and optionally a JSON file.
#include <algorithm>
#include <cmath>
#include <optional>

#include "application.hpp"
#include "datamover/progress.hpp"
#include "version.hpp"

namespace {

using namespace mg;

/// The equation on one process: the right-hand side, and a version's solution and residual.
class Multigrid {
public:
    Multigrid(const Problem& problem, Version& version)
        : problem_(problem), version_(version), right_(residual_at(problem.levels)) {
        memory_.resize(static_cast<std::size_t>((right_.extent[0] + 2) * right_.stride_i));
        right_.origin = memory_.data() + right_.stride_i + right_.stride_j + 1;
        for (const Charge& charge : problem.charges) {
            Index at{};
            bool here = true;
            for (std::size_t d = 0; d < 3; ++d) {
                at[d] = charge.point[d] - right_.lo[d];
                here = here && at[d] >= 0 && at[d] < right_.extent[d];
            }
            if (here) right_.row(at[0], at[1])[at[2]] = charge.value;
        }
    }
    Multigrid(const Multigrid&) = delete;
    Multigrid& operator=(const Multigrid&) = delete;

    /// Solves from zero. Returns the norm of the residual. Collective.
    double solve(apps::Times& times) {
        const int top = problem_.levels;
        clear(solution_at(top));
        MPI_Barrier(MPI_COMM_WORLD);
        double sum = 0;
        apps::timed(times.total, [&] {
            update_residual(top, right_, times);
            for (int i = 0; i < problem_.iterations; ++i) {
                cycle(times);
                update_residual(top, right_, times);
            }
            sum = sum_of_squares(residual_at(top));
            MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        });
        return std::sqrt(sum / static_cast<double>(problem_.points()));
    }

private:
    Field solution_at(int level) const { return version_.field(Variable::solution, level); }
    Field residual_at(int level) const { return version_.field(Variable::residual, level); }

    /// From the finest level to the coarsest and back. Source: `mg3P`.
    void cycle(apps::Times& times) {
        const int top = problem_.levels;
        for (int level = top - 1; level >= 1; --level)
            version_.update(
                Variable::residual, level,
                [&, coarse = residual_at(level), fine = residual_at(level + 1)](const Box& box) {
                    restrict_to(coarse, fine, box);
                },
                times);
        clear(solution_at(1));
        update_solution(1, times);
        for (int level = 2; level <= top; ++level) {
            if (level < top) clear(solution_at(level));
            interpolate(solution_at(level), solution_at(level - 1));
            update_residual(level, level < top ? residual_at(level) : right_, times);
            update_solution(level, times);
        }
    }

    void update_residual(int level, const Field& right, apps::Times& times) {
        version_.update(
            Variable::residual, level,
            [r = residual_at(level), u = solution_at(level), right](const Box& box) {
                residual(r, u, right, box);
            },
            times);
    }

    void update_solution(int level, apps::Times& times) {
        version_.update(
            Variable::solution, level,
            [&, u = solution_at(level), r = residual_at(level)](const Box& box) {
                smooth(u, r, problem_.smoother, box);
            },
            times);
    }

    Problem problem_;
    Version& version_;
    Field right_;
    std::vector<double> memory_;
};

const apps::Makers<Version, Problem> makers{
    with_datamover,
    by_hand,
    incomplete,
    overlapped,
    {{"datatypes", "datatypes", by_datatypes},
     {"original", "original", as_original},
     {"nozero", "original:nozero", as_original_without_zeroing}}};

/// A version that takes its turns.
struct Contender {
    /// A first run finds the memory. Collective.
    Contender(const apps::Choice<Version, Problem>& choice, const Problem& problem)
        : name(choice.contender),
          version(choice.make(problem)),
          with_thread(choice.with_thread),
          multigrid(std::make_unique<Multigrid>(problem, *version)) {
        apps::Times times;
        multigrid->solve(times);
    }

    std::string name;
    std::unique_ptr<Version> version;
    bool with_thread;
    std::unique_ptr<Multigrid> multigrid;
    std::vector<apps::Times> runs;
    double worst_error = 0;
};

/// How the processes stand. Boxes of the coarsest level, of 2 x 2 x 2 points, have at least one.
Index grid_of_processes() {
    int size = 1, dims[3] = {0, 0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 8 || (size & (size - 1)) != 0)
        throw apps::BadInput("the grids of MG are halved down to 2 x 2 x 2 points, which " +
                             std::to_string(size) +
                             " processes cannot share evenly; use 1, 2, 4 or 8");
    MPI_Dims_create(size, 3, dims);  // the largest first
    return {dims[0], dims[1], dims[2]};
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.size() < 3 || arguments.size() > 4)
        throw apps::BadInput("usage: nas_mg VERSIONS CLASS ROUNDS [JSON_FILE]");
    const auto chosen = makers.chosen(arguments[0]);
    Problem problem = problem_of(arguments[1]);
    problem.grid = grid_of_processes();
    const std::int64_t rounds = apps::number_of(arguments[2], "rounds", 1, 1000);
    const std::string edge = std::to_string(problem.edge(problem.levels));
    apps::Report report("nas_mg", "nas_mg-" + problem.name,
                        "class " + problem.name + ", " + edge + " x " + edge + " x " + edge +
                            " points, " + std::to_string(problem.iterations) + " iterations",
                        arguments.size() > 3 ? arguments[3] : "");
    std::vector<Contender> contenders;
    for (const auto& choice : chosen) contenders.emplace_back(choice, problem);
    for (std::int64_t round = 0; round < rounds; ++round)
        for (Contender& c : contenders) {
            std::optional<datamover::ProgressThread> thread;
            if (c.with_thread) thread.emplace();
            apps::Times times;
            const double norm = c.multigrid->solve(times);
            c.runs.push_back(times);
            const double error = std::abs(norm - problem.norm) / problem.norm;
            // Also where the norm is not a number.
            if (!(error <= c.worst_error)) c.worst_error = error;
        }
    for (const Contender& c : contenders) {
        char how[100];
        std::snprintf(how, sizeof how,
                      "the norm of the residual differs from that of NAS by %.0e of it",
                      c.worst_error);
        report.add(c.name, c.runs, c.worst_error <= tolerance, how);
    }
    return report.end();
}

}  // namespace

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, run);
}
