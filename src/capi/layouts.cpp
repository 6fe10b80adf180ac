// SPDX-License-Identifier: BSD-3-Clause
// C interface: layouts.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "datamover/index_lists.hpp"
#include "datamover/scalapack_descriptor.hpp"
#include "layouts.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

/// What a process gives to datamover_index_lists.
struct OwnLists {
    Point shape;
    std::vector<std::vector<std::int64_t>> lists;
    std::vector<Layout> partners;
};

}  // namespace

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

int datamover_layout_to_descriptor(const datamover_layout* layout, int64_t rank, int context,
                                   int lld, int descriptor[9]) {
    return guarded([&] {
        const auto d =
            ScalapackDescriptor::of(block_cyclic_of(value_of(layout, "layout")), rank, lld);
        const auto entries = d.to_entries(context);
        std::copy(entries.begin(), entries.end(), &given(descriptor, "descriptor"));
    });
}
