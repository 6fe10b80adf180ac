// SPDX-License-Identifier: BSD-3-Clause
// C interface: layouts.
#include <limits>
#include <memory>
#include <vector>

#include "datamover/index_lists.hpp"
#include "layouts.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

/// Arguments of datamover_layout_create_index_lists on one process.
struct OwnLists {
    Point shape;
    std::vector<std::vector<std::int64_t>> lists;
    std::vector<Layout> partners;
};

}  // namespace

int datamover_layout_create_index_list(int dims, const int64_t* shape, int64_t nprocs,
                                       const int64_t* offsets, const int64_t* indices,
                                       datamover_layout** layout) {
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

int datamover_layout_create_index_lists(MPI_Comm comm, int dims, const int64_t* shape,
                                        int64_t num_lists, const int64_t* counts,
                                        const int64_t* const* lists,
                                        const datamover_layout* const* partners,
                                        int64_t num_partners, datamover_layout** layouts) {
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
