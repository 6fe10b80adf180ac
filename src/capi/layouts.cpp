// SPDX-License-Identifier: BSD-3-Clause
// C interface: layouts.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "datamover/index_lists.hpp"
#include "datamover/scalapack_descriptor.hpp"
#include "geometry/make_error.hpp"
#include "handles.hpp"
#include "matrices.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

BlockCyclicOptions options_of(const datamover_block_cyclic_options* given_options, int dims) {
    BlockCyclicOptions options;
    if (!given_options) return options;
    if (given_options->grid) options.grid = values(given_options->grid, dims, "grid");
    if (given_options->first_process)
        options.first_process = values(given_options->first_process, dims, "first_process");
    options.column_major_grid = given_options->column_major_grid != 0;
    if (given_options->ranks || given_options->num_ranks != 0) {
        options.ranks = values(given_options->ranks, given_options->num_ranks, "ranks");
        if (options.ranks.empty())
            throw make_error(ErrorCode::invalid_argument, "ranks has no entry");
    }
    if (given_options->replicas != 0) options.replicas = given_options->replicas;
    return options;
}

/// What a process gives to datamover_index_lists.
struct OwnLists {
    Point shape;
    std::vector<std::vector<std::int64_t>> lists;
    std::vector<Layout> partners;
};

const BlockCyclic& block_cyclic_of(const datamover_layout* layout) {
    const BlockCyclic* found = value_of(layout, "layout").block_cyclic();
    if (!found)
        throw make_error(ErrorCode::unsupported,
                         "this is asked of block-cyclic layouts only, not of one that is ",
                         layout->value.describe());
    return *found;
}

}  // namespace

int datamover_layout_block_cyclic(datamover_layout** layout, int dims, const int64_t* shape,
                                  const char* distribution, int64_t nprocs,
                                  const datamover_block_cyclic_options* options) {
    return guarded([&] {
        const Point extents = point(shape, dims, "shape");
        hand_out(layout, "layout",
                 BlockCyclic(extents, &given(distribution, "distribution"), nprocs,
                             options_of(options, dims)));
    });
}

int datamover_layout_floor_plan(datamover_layout** layout, int dims, int64_t num_blocks,
                                const int64_t* lo, const int64_t* hi, const int64_t* owners,
                                int64_t nprocs) {
    return guarded([&] {
        const Point table{num_blocks, checked_dims(dims)};
        hand_out(
            layout, "layout",
            FloorPlan(dims, values(lo, table.product(), "lo"), values(hi, table.product(), "hi"),
                      values(owners, num_blocks, "owners"), nprocs));
    });
}

int datamover_layout_with_owners(datamover_layout** layout, const datamover_layout* floor_plan,
                                 const int64_t* owners, int64_t nprocs) {
    return guarded([&] {
        const Layout& blocks = value_of(floor_plan, "floor_plan");
        if (!blocks.floor_plan())
            throw make_error(ErrorCode::unsupported,
                             "owners are given to the blocks of a floor plan, not of one that is ",
                             blocks.describe());
        hand_out(layout, "layout",
                 blocks.floor_plan()->with_owners(values(owners, blocks.num_blocks(), "owners"),
                                                  nprocs));
    });
}

int datamover_layout_uniform(datamover_layout** layout, int dims, const int64_t* lo,
                             const int64_t* hi, const int64_t* grid, int64_t nprocs) {
    return guarded([&] {
        hand_out(layout, "layout",
                 FloorPlan::uniform(region(lo, hi, dims, "lo or hi"), point(grid, dims, "grid"),
                                    nprocs));
    });
}

int datamover_layout_tiles(datamover_layout** layout, int dims, const int64_t* lo,
                           const int64_t* hi, const int64_t* tile, int64_t nprocs,
                           const char* mapping) {
    return guarded([&] {
        hand_out(layout, "layout",
                 FloorPlan::tiles(region(lo, hi, dims, "lo or hi"), point(tile, dims, "tile"),
                                  nprocs, &given(mapping, "mapping")));
    });
}

int datamover_layout_index_list(datamover_layout** layout, int dims, const int64_t* shape,
                                int64_t nprocs, const int64_t* offsets, const int64_t* indices) {
    return guarded([&] {
        if (nprocs < 1 || nprocs == std::numeric_limits<std::int64_t>::max())
            throw make_error(ErrorCode::invalid_argument, "nprocs is ", nprocs,
                             "; it must be at least 1, and offsets have one entry more");
        const auto starts = values(offsets, nprocs + 1, "offsets");
        hand_out(layout, "layout",
                 IndexList(point(shape, dims, "shape"), starts,
                           values(indices, starts.back(), "indices")));
    });
}

int datamover_index_lists(datamover_layout** layouts, MPI_Comm comm, int dims, const int64_t* shape,
                          int64_t num_lists, const int64_t* counts, const int64_t* const* lists,
                          const datamover_layout* const* partners, int64_t num_partners) {
    return guarded([&] {
        const OwnLists own = capi::collectively(comm, [&] {
            OwnLists read;
            read.shape = point(shape, dims, "shape");
            const auto lengths = values(counts, num_lists, "counts");
            if (num_lists > 0) given(layouts, "layouts");
            for (std::int64_t k = 0; k < num_lists; ++k)
                read.lists.push_back(values((&given(lists, "lists"))[k],
                                            lengths[static_cast<std::size_t>(k)], "a list"));
            for (const datamover_layout* partner : values(partners, num_partners, "partners"))
                read.partners.push_back(value_of(partner, "a partner"));
            return read;
        });
        const std::vector<std::span<const std::int64_t>> mine(own.lists.begin(), own.lists.end());
        const auto made = index_lists(comm, own.shape, mine, own.partners);
        std::vector<std::unique_ptr<datamover_layout>> handles;
        for (const IndexList& list : made)
            handles.push_back(std::make_unique<datamover_layout>(datamover_layout{list}));
        for (std::size_t k = 0; k < handles.size(); ++k) layouts[k] = handles[k].release();
    });
}

int datamover_layout_flat_cyclic(datamover_layout** layout, int dims, const int64_t* shape,
                                 int64_t block_elems, int64_t nprocs, const int64_t* owners,
                                 int64_t num_owners) {
    return guarded([&] {
        const Point extents = point(shape, dims, "shape");
        if (owners && num_owners < 1)
            throw make_error(ErrorCode::invalid_argument, "owners has ", num_owners,
                             " entries; it needs at least 1");
        auto ranks = owners ? values(owners, num_owners, "owners") : std::vector<std::int64_t>{};
        hand_out(layout, "layout", FlatCyclic(extents, block_elems, nprocs, std::move(ranks)));
    });
}

int datamover_layout_free(datamover_layout** layout) {
    return release(layout, "layout");
}

int datamover_layout_duplicate(datamover_layout** duplicate, const datamover_layout* layout) {
    return guarded([&] { hand_out(duplicate, "duplicate", value_of(layout, "layout")); });
}

int datamover_layout_dims(const datamover_layout* layout, int* dims) {
    return guarded([&] { given(dims, "dims") = value_of(layout, "layout").dims(); });
}

int datamover_layout_nprocs(const datamover_layout* layout, int64_t* nprocs) {
    return guarded([&] { given(nprocs, "nprocs") = value_of(layout, "layout").nprocs(); });
}

int datamover_layout_num_blocks(const datamover_layout* layout, int64_t* num_blocks) {
    return guarded(
        [&] { given(num_blocks, "num_blocks") = value_of(layout, "layout").num_blocks(); });
}

int datamover_layout_domain(const datamover_layout* layout, int64_t* lo, int64_t* hi) {
    return guarded([&] {
        const Region domain = value_of(layout, "layout").domain();
        given(lo, "lo"), given(hi, "hi");
        write_point(domain.lo(), lo, "lo");
        write_point(domain.hi(), hi, "hi");
    });
}

int datamover_layout_owner(const datamover_layout* layout, int64_t block, int64_t* rank) {
    return guarded([&] { given(rank, "rank") = value_of(layout, "layout").owner(block); });
}

int datamover_layout_blocks_of(const datamover_layout* layout, int64_t rank, int64_t* blocks,
                               int64_t capacity, int64_t* count) {
    return guarded([&] {
        const auto all = value_of(layout, "layout").blocks_of(rank);
        announce_count(static_cast<std::int64_t>(all.size()), blocks, capacity, count, "blocks");
        if (blocks) std::copy(all.begin(), all.end(), blocks);
    });
}

int datamover_layout_block_extents(const datamover_layout* layout, int64_t block,
                                   int64_t* extents) {
    return guarded(
        [&] { write_point(value_of(layout, "layout").block_extents(block), extents, "extents"); });
}

int datamover_layout_block_region(const datamover_layout* layout, int64_t block, int64_t* lo,
                                  int64_t* hi) {
    return guarded([&] {
        const Layout& asked = value_of(layout, "layout");
        const FloorPlan* boxes = asked.boxes();
        if (!boxes)
            throw make_error(ErrorCode::unsupported, "the blocks of a layout that is ",
                             asked.describe(), " are no boxes");
        const Region region = boxes->region(block);
        given(lo, "lo"), given(hi, "hi");
        write_point(region.lo(), lo, "lo");
        write_point(region.hi(), hi, "hi");
    });
}

int datamover_layout_local_elems(const datamover_layout* layout, int64_t rank, int64_t* elems) {
    return guarded([&] { given(elems, "elems") = value_of(layout, "layout").local_elems(rank); });
}

int datamover_layout_equal(const datamover_layout* a, const datamover_layout* b, int* equal) {
    return guarded([&] { given(equal, "equal") = value_of(a, "a") == value_of(b, "b"); });
}

int datamover_layout_owner_of(const datamover_layout* layout, const int64_t* index, int64_t* rank) {
    return guarded([&] {
        const BlockCyclic& l = block_cyclic_of(layout);
        given(rank, "rank") = l.owner_of(point(index, l.dims(), "index"));
    });
}

int datamover_layout_local_shape(const datamover_layout* layout, int64_t rank, int64_t* extents) {
    return guarded(
        [&] { write_point(block_cyclic_of(layout).local_shape(rank), extents, "extents"); });
}

int datamover_layout_local_index(const datamover_layout* layout, const int64_t* global,
                                 int64_t* local) {
    return guarded([&] {
        const BlockCyclic& l = block_cyclic_of(layout);
        write_point(l.local_index(point(global, l.dims(), "global")), local, "local");
    });
}

int datamover_layout_global_index(const datamover_layout* layout, int64_t rank,
                                  const int64_t* local, int64_t* global) {
    return guarded([&] {
        const BlockCyclic& l = block_cyclic_of(layout);
        write_point(l.global_index(rank, point(local, l.dims(), "local")), global, "global");
    });
}

int datamover_layout_from_descriptor(datamover_layout** layout, const int descriptor[9],
                                     const datamover_process_grid* grid, int64_t nprocs) {
    return guarded([&] {
        const auto d = ScalapackDescriptor::from_entries(entries_of(descriptor, "descriptor"));
        hand_out(layout, "layout", d.layout(grid_of(grid, "grid"), nprocs));
    });
}

int datamover_layout_to_descriptor(const datamover_layout* layout, int64_t rank, int context,
                                   int lld, int descriptor[9]) {
    return guarded([&] {
        const auto d = ScalapackDescriptor::of(block_cyclic_of(layout), rank, lld);
        const auto entries = d.to_entries(context);
        std::copy(entries.begin(), entries.end(), &given(descriptor, "descriptor"));
    });
}
