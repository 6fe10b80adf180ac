// SPDX-License-Identifier: BSD-3-Clause
// Communication of NAS LU: faces two points deep, and two sweeps through the grid in which each
// process waits for its predecessors, plane by plane. It has no solver. Source: NAS Parallel
// Benchmarks, LU.
// Arguments: versions (datamover, by_hand, datatypes, original; comma-separated), the class,
// iterations, number of turns of each version, and optionally a JSON file.
#include "application.hpp"
#include "exchange/numbered_run.hpp"
#include "version.hpp"

namespace {

using namespace lu;
using apps::Form;
using apps::Index;
using apps::Values;

/// One iteration, after which each value of u has grown by `number`.
void iterate(Version& version, double number, apps::Times& times) {
    const Values u = version.u(), rsd = version.rsd();
    const Form begin{number, 0}, up{number, 1}, down{number, -1};
    version.faces(times);
    apps::differences(rsd, u, number);
    const auto plane = [&](std::int64_t z) {
        return apps::Box{{0, 0, z}, {rsd.extent[0], rsd.extent[1], z + 1}};
    };
    const auto compute = [&](const Index& point, std::int64_t step, const Form& before,
                             const Form& after) {
        apps::advance(rsd, point, before, after);
        for (const std::size_t d : {0U, 1U}) apps::correct(rsd, point, d, step, after);
    };
    version.sweep(
        Sweep::up,
        [&](std::int64_t z) {
            apps::for_each_point(plane(z), [&](const Index& p) { compute(p, -1, begin, up); });
        },
        times);
    version.sweep(
        Sweep::down,
        [&](std::int64_t z) {
            apps::for_each_point_backwards(plane(z),
                                           [&](const Index& p) { compute(p, 1, up, down); });
        },
        times);
    apps::add(u, rsd, down);
}

Problem problem_of(const std::string& name, std::int64_t iterations) {
    const std::int64_t n = name == "S"   ? 12
                           : name == "W" ? 33
                           : name == "A" ? 64
                           : name == "B" ? 102
                                         : 0;
    if (n == 0)
        throw apps::BadInput("there is no class '" + name +
                             "' of LU here; there are S, W, A and B");
    int size = 1, rows = 1, columns = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    while (rows * columns < size) (rows == columns ? rows : columns) *= 2;
    if (rows * columns != size)
        throw apps::BadInput("LU halves the grid again and again, which " + text(size) +
                             " processes cannot share; use " + text(rows * columns / 2) + " or " +
                             text(rows * columns));
    if (n < 3 * rows) {
        std::int64_t most = 1;
        while (n >= 3 * most) most *= 2;
        most /= 2;
        throw apps::BadInput("class " + name + " has " + text(n) +
                             " points along an edge, too few for boxes of three on " + text(size) +
                             " processes; use at most " + text(most * most));
    }
    return {name, n, rows, columns, iterations};
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.size() < 4 || arguments.size() > 5)
        throw apps::BadInput("usage: nas_lu VERSIONS CLASS ITERATIONS ROUNDS [JSON_FILE]");
    const apps::Makers<Version, Problem> makers{
        with_datamover,
        by_hand,
        incomplete,
        nullptr,
        {{"datatypes", "datatypes", by_datatypes}, {"original", "original", as_original}}};
    const auto chosen = makers.chosen(arguments[0]);
    const std::int64_t iterations = apps::number_of(arguments[2], "iterations", 1, 1'000'000);
    const Problem problem = problem_of(arguments[1], iterations);
    return apps::run_numbered(
        "nas_lu", problem, chosen, arguments,
        [](const Version& version) { return apps::Arrays{{version.u()}, {version.rsd()}}; },
        iterate);
}

}  // namespace

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, run);
}
