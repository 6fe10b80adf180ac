// SPDX-License-Identifier: BSD-3-Clause
// Driver of the conformance cases in C++. `mpiexec -n P cpp_driver CASES DIRECTORY` writes
// DIRECTORY/RANK: on each line, a case's name and this process's elements, or `error` and the code.
#include <mpi.h>

#include <datamover/datamover.hpp>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "driver.h"

using namespace datamover;

namespace {

int rank = 0, size = 1;

Point point(const std::int64_t* coordinates, int dims) {
    return Point(std::span(coordinates, static_cast<std::size_t>(dims)));
}

Region region(const std::int64_t* lo, const std::int64_t* hi, int dims) {
    return {point(lo, dims), point(hi, dims)};
}

Layout layout_of(const said_layout& said) {
    const auto dims = static_cast<std::size_t>(said.dims);
    const auto boxes = static_cast<std::size_t>(said.num_boxes);
    if (boxes > 0)
        return FloorPlan(said.dims, std::span(said.lo, boxes * dims),
                         std::span(said.hi, boxes * dims), std::span(said.owners, boxes), size);
    BlockCyclicOptions options;
    options.grid.emplace(said.grid, said.grid + said.dims);
    options.ranks.assign(said.ranks, said.ranks + said.num_ranks);
    return BlockCyclic(point(said.shape, said.dims), said.distribution, size, options);
}

MotionPlan plan_of(const said_redistribution& said, const Layout& from, const Layout& to) {
    std::vector<int> axes;
    if (said.with_axes) axes.assign(said.axes, said.axes + said.source.dims);
    if (!said.with_sections) return redistribute(from, to, axes, said.partial != 0);
    return redistribute(from, region(said.source_lo, said.source_hi, said.source.dims), to,
                        region(said.destination_lo, said.destination_hi, said.destination.dims),
                        axes);
}

/// Visits the elements of an array here, block by block, ghosts included, the last dimension
/// fastest: visit(element, block, local index).
void for_each_element(const Array& array, auto&& visit) {
    for (const BlockMemory& block : array.part().memory.blocks)
        block.valid.for_each([&](const Point& index) {
            const Point offset = index * block.strides_bytes;
            std::int64_t at = 0;
            for (int d = 0; d < offset.dims(); ++d) at += offset[d];
            auto* element = reinterpret_cast<std::int64_t*>(array.origin(block.block) + at);
            visit(*element, block.block, index);
        });
}

/// Both arrays lie in the library's memory, the destination column-major.
std::vector<std::int64_t> run(const said_redistribution& said) {
    const Layout from = layout_of(said.source), to = layout_of(said.destination);
    const MotionPlan plan = plan_of(said, from, to);
    ArrayOptions by_columns;
    by_columns.order = ElementOrder::column_major;
    Array a(MPI_COMM_WORLD, from, 8), b(MPI_COMM_WORLD, to, 8, by_columns);
    const Region domain = from.domain();
    for_each_element(a, [&](std::int64_t& element, std::int64_t block, const Point& local) {
        Point global = local;
        const std::vector<AxisSet> sets = from.axis_sets(block);
        for (int d = 0; d < global.dims(); ++d)
            global[d] = sets[static_cast<std::size_t>(d)].global(local[d]);
        element = flat(global.dims(), (global - domain.lo()).to_vector().data(),
                       domain.shape().to_vector().data());
    });
    for_each_element(b, [&](std::int64_t& element, auto&&...) { element = UNTOUCHED; });
    Mover mover(MPI_COMM_WORLD, plan, a, b);
    mover();
    std::vector<std::int64_t> result;
    for_each_element(b, [&](std::int64_t element, auto&&...) { result.push_back(element); });
    return result;
}

std::vector<std::int64_t> run(const said_halo& said) {
    const Region domain = region(said.lo, said.hi, said.dims);
    const auto blocks = FloorPlan::uniform(domain, point(said.grid, said.dims), size);
    const Region periodic =
        said.is_periodic ? region(said.periodic_lo, said.periodic_hi, said.dims) : Region{};
    std::vector<bool> wraps;
    if (said.with_wraps) wraps.assign(said.wraps, said.wraps + said.dims);
    ArrayOptions options;
    options.ghost_lower = point(said.lower, said.dims);
    options.ghost_upper = point(said.upper, said.dims);
    const MotionPlan plan =
        halo(blocks, options.ghost_lower, options.ghost_upper, periodic, wraps, said.corners != 0);
    Array array(MPI_COMM_WORLD, blocks, 8, options);
    const Point shape = domain.hi() - domain.lo();
    for_each_element(array, [&](std::int64_t& element, std::int64_t block, const Point& local) {
        const Region interior = blocks.region(block);
        const Point global = interior.lo() + local;
        element = interior.contains(Region(global, global + Point::filled(said.dims, 1)))
                      ? flat(said.dims, (global - domain.lo()).to_vector().data(),
                             shape.to_vector().data())
                      : std::int64_t{UNTOUCHED};
    });
    Mover mover(MPI_COMM_WORLD, plan, array, array);
    mover();
    std::vector<std::int64_t> result;
    for_each_element(array, [&](std::int64_t element, auto&&...) { result.push_back(element); });
    return result;
}

template <class Said>
void write_result(const Said& said, std::ostream& out) {
    out << said.name;
    try {
        for (const std::int64_t element : run(said)) out << ' ' << element;
    } catch (const Error& e) {
        out << " error " << error_code_name(e.code());
    }
    out << '\n';
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(argc == 3);
    FILE* cases = std::fopen(argv[1], "r");
    must(cases != nullptr);
    std::ofstream out(std::string(argv[2]) + "/" + std::to_string(rank));
    for (char operation[WORD]; std::fscanf(cases, "%127s", operation) == 1;) {
        if (std::string(operation) == "halo") {
            said_halo said;
            read_halo(cases, &said);
            write_result(said, out);
        } else {
            said_redistribution said;
            read_redistribution(cases, &said);
            write_result(said, out);
        }
    }
    std::fclose(cases);
    MPI_Finalize();
}
