// SPDX-License-Identifier: BSD-3-Clause
// Conversion between ScaLAPACK's array descriptors and block-cyclic layouts.
#include "datamover/scalapack_descriptor.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

namespace datamover {
namespace {

void require(bool holds, const char* entry, std::int64_t value, const std::string& rule) {
    if (!holds)
        throw make_error(ErrorCode::invalid_argument, entry, " of the descriptor is ", value,
                         ", it must be ", rule);
}

int entry_of(std::int64_t value, const char* entry) {
    if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max())
        throw make_error(ErrorCode::out_of_range, entry, " of the descriptor would be ", value,
                         ", which does not fit an int");
    return static_cast<int>(value);
}

void check_two_dimensions(const BlockCyclic& layout) {
    if (layout.dims() != 2)
        throw make_error(ErrorCode::invalid_argument,
                         "a ScaLAPACK descriptor is for 2 dimensions, the layout has ",
                         layout.dims());
}

}  // namespace

ScalapackDescriptor ScalapackDescriptor::from_entries(std::span<const int, 9> entries) {
    if (entries[0] != dense_matrix)
        throw make_error(ErrorCode::unsupported, "DTYPE_ of the descriptor is ", entries[0],
                         "; only dense matrices (1) are known");
    const ScalapackDescriptor d{entries[2], entries[3], entries[4], entries[5],
                                entries[6], entries[7], entries[8]};
    require(d.m >= 0, "M_", d.m, "at least 0");
    require(d.n >= 0, "N_", d.n, "at least 0");
    require(d.mb >= 1, "MB_", d.mb, "at least 1");
    require(d.nb >= 1, "NB_", d.nb, "at least 1");
    require(d.rsrc >= 0, "RSRC_", d.rsrc, "a row of the process grid");
    require(d.csrc >= 0, "CSRC_", d.csrc, "a column of the process grid");
    return d;
}

std::array<int, 9> ScalapackDescriptor::to_entries(int context) const {
    return {dense_matrix,
            context,
            entry_of(m, "M_"),
            entry_of(n, "N_"),
            entry_of(mb, "MB_"),
            entry_of(nb, "NB_"),
            entry_of(rsrc, "RSRC_"),
            entry_of(csrc, "CSRC_"),
            entry_of(lld, "LLD_")};
}

ScalapackDescriptor ScalapackDescriptor::of(const BlockCyclic& layout, std::int64_t rank,
                                            std::int64_t lld) {
    check_two_dimensions(layout);
    const std::int64_t rows = layout.local_shape(rank)[0];
    return {layout.shape()[0],
            layout.shape()[1],
            layout.block()[0],
            layout.block()[1],
            layout.first_process()[0],
            layout.first_process()[1],
            std::max({lld, rows, std::int64_t{1}})};
}

BlockCyclic ScalapackDescriptor::layout(const ProcessGrid& grid, std::int64_t nprocs) const {
    require(rsrc < grid.nprow, "RSRC_", rsrc, concat("less than the ", grid.nprow, " grid rows"));
    require(csrc < grid.npcol, "CSRC_", csrc,
            concat("less than the ", grid.npcol, " grid columns"));
    BlockCyclicOptions options;
    options.grid = {grid.nprow, grid.npcol};
    options.first_process = {rsrc, csrc};
    options.column_major_grid = grid.column_major;
    options.ranks = grid.ranks;
    const std::string distribution = concat("(cyclic(", mb, "), cyclic(", nb, "))");
    return {Point{m, n}, distribution, nprocs, options};
}

MemoryLayout ScalapackDescriptor::memory(const BlockCyclic& layout, std::int64_t rank,
                                         std::int64_t elem_bytes) const {
    check_two_dimensions(layout);
    MemoryLayout memory;
    const std::int64_t block = layout.block_of(rank);
    if (block < 0) return memory;
    const Point extents = layout.block_extents(block);
    // Descriptors of no rows at all with LLD_ = 0 occur, and ScaLAPACK takes them.
    if (lld < extents[0])
        throw make_error(ErrorCode::invalid_argument, "LLD_ of the descriptor is ", lld,
                         " on process ", rank, ", which holds ", extents[0],
                         " rows: it must be at least that");
    const Point strides{elem_bytes, geometry::multiply(std::max<std::int64_t>(lld, 1), elem_bytes)};
    memory.blocks.push_back({block, 0, strides, Region::from_shape(extents)});
    if (extents.product() > 0)
        memory.end_bytes = geometry::add(geometry::multiply(extents[1] - 1, strides[1]),
                                         geometry::multiply(extents[0], elem_bytes));
    return memory;
}

}  // namespace datamover
