// SPDX-License-Identifier: BSD-3-Clause
// The owners of blocks, and blocks numbered along a grid of processes.
#include "datamover/block_grid.hpp"

#include <algorithm>
#include <numeric>

#include "bounds.hpp"
#include "geometry/make_error.hpp"

namespace datamover {

BlockOwners::BlockOwners(std::int64_t nprocs, std::int64_t num_blocks,
                         std::vector<std::int64_t> ranks, const char* name)
    : nprocs_(nprocs),
      num_blocks_(num_blocks),
      ranks_(std::move(ranks)),
      blocks_by_rank_(ranks_.size()) {
    for (const std::int64_t rank : ranks_)
        if (rank < 0 || rank >= nprocs)
            throw make_error(ErrorCode::out_of_range, "rank ", rank, " in ", name, " is not in 0..",
                             nprocs - 1);
    const auto rank_of = [&](std::int64_t b) { return ranks_[static_cast<std::size_t>(b)]; };
    std::iota(blocks_by_rank_.begin(), blocks_by_rank_.end(), 0);
    std::ranges::sort(blocks_by_rank_, {}, rank_of);
    const auto again = std::ranges::adjacent_find(blocks_by_rank_, {}, rank_of);
    if (again != blocks_by_rank_.end())
        throw make_error(ErrorCode::invalid_argument, "rank ", rank_of(*again), " stands twice in ",
                         name);
}

std::int64_t BlockOwners::owner(std::int64_t block) const {
    layout::check_number("block", block, num_blocks_);
    return ranks_.empty() ? block : ranks_[static_cast<std::size_t>(block)];
}

std::int64_t BlockOwners::block_of(std::int64_t rank) const {
    layout::check_number("rank", rank, nprocs_);
    if (ranks_.empty()) return rank < num_blocks_ ? rank : -1;
    const auto rank_of = [&](std::int64_t b) { return ranks_[static_cast<std::size_t>(b)]; };
    const auto found = std::ranges::lower_bound(blocks_by_rank_, rank, {}, rank_of);
    return found != blocks_by_rank_.end() && rank_of(*found) == rank ? *found : -1;
}

Point BlockGrid::grid_coordinates(std::int64_t block) const {
    layout::check_number("block", block, num_blocks());
    const int dims = grid_.dims();
    Point c = grid_;
    for (int i = 0; i < dims; ++i) {
        const int d = column_major_grid_ ? i : dims - 1 - i;
        c[d] = block % grid_[d];
        block /= grid_[d];
    }
    return c;
}

std::int64_t BlockGrid::block_at(const Point& c) const {
    const int dims = grid_.dims();
    std::int64_t block = 0;
    if (c.dims() != dims)
        throw make_error(ErrorCode::mismatch, "grid coordinates ", c, " for the grid ", grid_);
    for (int i = 0; i < dims; ++i) {
        const int d = column_major_grid_ ? dims - 1 - i : i;
        layout::check_number("grid coordinate", c[d], grid_[d]);
        block = block * grid_[d] + c[d];
    }
    return block;
}

}  // namespace datamover
