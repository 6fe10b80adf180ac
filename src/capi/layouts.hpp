// SPDX-License-Identifier: BSD-3-Clause
// C interface of layouts: options, and kinds of layouts.
#pragma once

#include "geometry/make_error.hpp"
#include "handles.hpp"
#include "matrices.hpp"

namespace datamover::capi {

inline BlockCyclicOptions options_of(const datamover_block_cyclic_options* given_options,
                                     int dims) {
    BlockCyclicOptions options;
    checked_dims(dims);
    if (!given_options) return options;
    if (given_options->grid) options.grid = values(given_options->grid, dims, "grid");
    if (given_options->first_process)
        options.first_process = values(given_options->first_process, dims, "first_process");
    options.column_major_grid = given_options->column_major_grid != 0;
    options.ranks = values_or_none(given_options->ranks, given_options->num_ranks, "ranks");
    if (given_options->replicas != 0) options.replicas = given_options->replicas;
    return options;
}

inline const BlockCyclic& block_cyclic_of(const Layout& layout) {
    const BlockCyclic* found = layout.block_cyclic();
    if (!found)
        throw make_error(ErrorCode::unsupported,
                         "this is asked of block-cyclic layouts only, not of one that is ",
                         layout.describe());
    return *found;
}

/// The layout whose blocks get other owners.
inline const FloorPlan& floor_plan_of(const Layout& blocks) {
    if (!blocks.floor_plan())
        throw make_error(ErrorCode::unsupported,
                         "owners are given to the blocks of a floor plan, not of one that is ",
                         blocks.describe());
    return *blocks.floor_plan();
}

inline const FloorPlan& boxes_of(const Layout& layout) {
    const FloorPlan* boxes = layout.boxes();
    if (!boxes)
        throw make_error(ErrorCode::unsupported, "the blocks of a layout that is ",
                         layout.describe(), " are no boxes");
    return *boxes;
}

/// The lower or upper corners of blocks.
inline std::vector<std::int64_t> corners(const std::int64_t* first, std::int64_t num_blocks,
                                         int dims, const char* name) {
    return values(first, Point{num_blocks, checked_dims(dims)}.product(), name);
}

inline void write_entries(const std::array<int, 9>& entries, int* descriptor) {
    std::copy(entries.begin(), entries.end(), &given(descriptor, "descriptor"));
}

}  // namespace datamover::capi
