// SPDX-License-Identifier: BSD-3-Clause
// Values of a halo's blocks before an exchange, and the expected values after it.
#pragma once

#include <mpi.h>

#include <cstdlib>

#include "latency_faces.hpp"

namespace bench {

/// Calls visit(element, value, inner) for each stored point of a block: the value is the number of
/// the point in the whole periodic box, of which a ghost stands for a point elsewhere.
template <class Visit>
void for_each_value(const BlockGrid& grid, std::int64_t block, double* stored, Visit&& visit) {
    const Index c = grid.coordinates(block), n = grid.blocks();
    const auto global = [&](std::size_t d, std::int64_t x) {
        const std::int64_t points = n[d] * grid.edge;
        return (c[d] * grid.edge + x - grid.width + points) % points;
    };
    const auto inner = [&](std::int64_t x) {
        return x >= grid.width && x < grid.width + grid.edge;
    };
    const std::int64_t e = grid.stored_edge();
    for (std::int64_t i = 0; i < e; ++i)
        for (std::int64_t j = 0; j < e; ++j) {
            const std::int64_t row =
                (global(0, i) * n[1] * grid.edge + global(1, j)) * n[2] * grid.edge;
            for (std::int64_t k = 0; k < e; ++k)
                visit(*stored++, static_cast<double>(row + global(2, k)),
                      inner(i) && inner(j) && inner(k));
        }
}

/// Interiors get their values, ghosts -1.
template <class BlockOf>
void fill_blocks(const BlockGrid& grid, int rank, BlockOf&& block_of) {
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b)
        if (grid.owner(b) == rank)
            for_each_value(grid, b, block_of(b), [](double& element, double value, bool inner) {
                element = inner ? value : -1;
            });
}

/// Whether every ghost, and every interior point still, holds its value.
template <class BlockOf>
bool blocks_right(const BlockGrid& grid, int rank, BlockOf&& block_of) {
    bool right = true;
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b)
        if (grid.owner(b) == rank)
            for_each_value(grid, b, block_of(b), [&](const double& element, double value, bool) {
                right &= element == value;
            });
    return right;
}

/// What an exchange brings, of all processes, corners included.
inline std::int64_t ghost_bytes(const BlockGrid& grid) {
    return grid.num_blocks() * (grid.stored_elems() - grid.edge * grid.edge * grid.edge) * 8;
}

/// From the arguments edge, width, and blocks per process along each dimension.
inline BlockGrid halo_grid(MPI_Comm comm, char** numbers) {
    int size = 1, dims[3] = {0, 0, 0};
    MPI_Comm_size(comm, &size);
    MPI_Dims_create(size, 3, dims);
    BlockGrid grid;
    grid.corners = true;
    grid.edge = std::atoll(numbers[0]);
    grid.width = std::atoll(numbers[1]);
    grid.processes = {dims[0], dims[1], dims[2]};
    grid.blocks_per_process.fill(std::atoll(numbers[2]));
    return grid;
}

}  // namespace bench
