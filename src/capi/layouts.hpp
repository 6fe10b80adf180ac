// SPDX-License-Identifier: BSD-3-Clause
// C interface of layouts: options, kinds of layouts, index lists, descriptors of matrices.
#pragma once

#include <array>
#include <limits>

#include "datamover/index_lists.hpp"
#include "datamover/scalapack_descriptor.hpp"
#include "handles.hpp"

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

/// `offsets` has an entry more than there are processes.
inline IndexList index_list(const Point& shape, std::int64_t nprocs, const std::int64_t* offsets,
                            const std::int64_t* indices) {
    if (nprocs < 1 || nprocs == std::numeric_limits<std::int64_t>::max())
        throw make_error(ErrorCode::invalid_argument, "nprocs is ", nprocs,
                         "; it must be at least 1, and offsets have one entry more");
    const auto starts = values(offsets, nprocs + 1, "offsets");
    return IndexList(shape, starts, values(indices, starts.back(), "indices"));
}

/// Arguments of datamover_layout_create_index_lists on one process.
struct OwnLists {
    Point shape;
    std::vector<std::vector<std::int64_t>> lists;
    std::vector<Layout> partners;
};
inline OwnLists own_lists(const Point& shape, std::int64_t num_lists, const std::int64_t* counts,
                          const std::int64_t* const* lists, const datamover_layout* const* partners,
                          std::int64_t num_partners, datamover_layout** layouts) {
    OwnLists read{shape, {}, {}};
    const auto lengths = values(counts, num_lists, "counts");
    if (num_lists > 0) given(layouts, "layouts");
    for (std::int64_t k = 0; k < num_lists; ++k)
        read.lists.push_back(
            values((&given(lists, "lists"))[k], lengths[static_cast<std::size_t>(k)], "a list"));
    for (const datamover_layout* partner : values(partners, num_partners, "partners"))
        read.partners.push_back(value_of(partner, "a partner"));
    return read;
}
/// Hands out all layouts, or none.
inline void create_index_lists(MPI_Comm comm, const OwnLists& own, datamover_layout** layouts) {
    const std::vector<std::span<const std::int64_t>> mine(own.lists.begin(), own.lists.end());
    std::vector<std::unique_ptr<datamover_layout>> handles;
    for (const IndexList& list : index_lists(comm, own.shape, mine, own.partners))
        handles.push_back(std::make_unique<datamover_layout>(datamover_layout{list}));
    for (std::size_t k = 0; k < handles.size(); ++k) layouts[k] = handles[k].release();
}

inline std::array<int, 9> entries_of(const int* descriptor, const char* name) {
    std::array<int, 9> entries{};
    std::copy_n(&given(descriptor, name), 9, entries.begin());
    return entries;
}

inline ProcessGrid grid_of(const datamover_process_grid* grid, const char* name) {
    const datamover_process_grid& g = given(grid, name);
    if (g.nprow < 1 || g.npcol < 1)
        throw make_error(ErrorCode::invalid_argument, name, " is ", g.nprow, " x ", g.npcol,
                         " processes");
    ProcessGrid result{g.nprow, g.npcol, g.column_major != 0, {}};
    if (g.ranks) result.ranks = values(g.ranks, result.nprow * result.npcol, name);
    return result;
}

inline void write_entries(const std::array<int, 9>& entries, int* descriptor) {
    std::copy(entries.begin(), entries.end(), &given(descriptor, "descriptor"));
}

}  // namespace datamover::capi
