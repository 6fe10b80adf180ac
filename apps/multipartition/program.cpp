// SPDX-License-Identifier: BSD-3-Clause
// Classes and iterations of BT and SP without their solvers.
#include "program.hpp"

#include "exchange/numbered_run.hpp"
#include "version.hpp"

namespace multipartition {
namespace {

using apps::Form;
using apps::Index;
using apps::Values;

/// A point of a sweep, after those at `step`: rhs from one form to another.
void compute(const Values& rhs, const Index& point, std::size_t d, std::int64_t step,
             std::int64_t depth, const Form& before, const Form& after) {
    apps::advance(rhs, point, before, after);
    for (std::int64_t i = 1; i <= depth; ++i) apps::correct(rhs, point, d, i * step, after);
}

/// The coefficients of a point, made from those before it. Where they are wrong, so is rhs.
void eliminate(const Cell& cell, const Index& point, std::size_t d, std::int64_t depth,
               const Form& form) {
    const Values &lhs = cell.lhs, &rhs = cell.rhs;
    double *const made = lhs.at(point), *const value = rhs.at(point);
    const std::int64_t first = lhs.number(point);
    for (std::int64_t m = 0; m < lhs.count; ++m) made[m * lhs.value_stride] = form(first + m);
    for (std::int64_t i = 1; i <= depth; ++i) apps::correct(lhs, point, d, -i, form);
    for (std::int64_t m = 0; m < lhs.count; ++m)
        value[m % rhs.count * rhs.value_stride] += made[m * lhs.value_stride] - form(first + m);
}

/// One iteration, after which each value of u has grown by `number`.
void iterate(Version& version, std::int64_t depth, double number, apps::Times& times) {
    version.faces(times);
    for (const Cell& cell : version.cells()) apps::differences(cell.rhs, cell.u, number);
    const Form forward{number, 1}, backward{number, -1};
    for (std::size_t d = 0; d < 3; ++d) {
        const Form begin = d == 0 ? Form{number, 0} : backward;
        version.sweep(
            d, false,
            [&](const Cell& cell) {
                apps::for_each_point(cell.rhs.all(), [&](const Index& point) {
                    compute(cell.rhs, point, d, -1, depth, begin, forward);
                    eliminate(cell, point, d, depth, forward);
                });
            },
            times);
        version.sweep(
            d, true,
            [&](const Cell& cell) {
                apps::for_each_point_backwards(cell.rhs.all(), [&](const Index& point) {
                    compute(cell.rhs, point, d, 1, depth, forward, backward);
                });
            },
            times);
    }
    for (const Cell& cell : version.cells()) apps::add(cell.u, cell.rhs, backward);
}

Problem problem_of(const Scheme& scheme, const std::string& name, std::int64_t iterations) {
    const std::int64_t n = name == "S"   ? 12
                           : name == "W" ? scheme.points_of_w
                           : name == "A" ? 64
                           : name == "B" ? 102
                                         : 0;
    const std::string benchmark = scheme.benchmark;
    if (n == 0)
        throw apps::BadInput("there is no class '" + name + "' of " + benchmark +
                             " here; there are S, W, A and B");
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    std::int64_t edge = 1;
    while ((edge + 1) * (edge + 1) <= size) ++edge;
    if (edge * edge != size)
        throw apps::BadInput(benchmark + " gives each of q x q processes q cells, so " +
                             text(size) + " processes cannot share them; use " + text(edge * edge) +
                             " or " + text((edge + 1) * (edge + 1)));
    if (const std::int64_t most = n / 3; edge > most)
        throw apps::BadInput("class " + name + " has " + text(n) +
                             " points along an edge, too few for cells of three on " + text(size) +
                             " processes; use at most " + text(most * most));
    return {name, n, edge, iterations, scheme};
}

}  // namespace

int run(const Scheme& scheme, const std::vector<std::string>& arguments) {
    if (arguments.size() < 4 || arguments.size() > 5)
        throw apps::BadInput(std::string("usage: ") + scheme.name +
                             " VERSIONS CLASS ITERATIONS ROUNDS [JSON_FILE]");
    const apps::Makers<Version, Problem> makers{
        with_datamover,
        by_hand,
        incomplete,
        nullptr,
        {{"datatypes", "datatypes", by_datatypes}, {"original", "original", as_original}}};
    const auto chosen = makers.chosen(arguments[0]);
    const std::int64_t iterations = apps::number_of(arguments[2], "iterations", 1, 1'000'000);
    const Problem problem = problem_of(scheme, arguments[1], iterations);
    return apps::run_numbered(
        scheme.name, problem, chosen, arguments,
        [](const Version& version) {
            apps::Arrays arrays;
            for (const Cell& cell : version.cells()) {
                arrays.results.push_back(cell.u);
                arrays.others.insert(arrays.others.end(), {cell.rhs, cell.lhs});
            }
            return arrays;
        },
        [&](Version& version, double number, apps::Times& times) {
            iterate(version, scheme.depth, number, times);
        });
}

}  // namespace multipartition
