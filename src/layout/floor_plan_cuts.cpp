// SPDX-License-Identifier: BSD-3-Clause
// Builders of floor plans: uniform, tiles, splits, bisection.

#include <algorithm>
#include <cmath>

#include "bounds.hpp"
#include "datamover/floor_plan.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

namespace datamover {
namespace {

void check_domain(const Region& domain) {
    if (domain.dims() < 1) {
        throw Error(ErrorCode::invalid_argument, "a domain without dimensions cannot be cut");
    }
}

void check_positive(const Region& domain, const Point& counts, const char* what) {
    check_domain(domain);
    if (counts.dims() != domain.dims()) {
        throw make_error(ErrorCode::mismatch, "a ", what, " of ", counts, " for the domain ",
                         domain, " of ", domain.dims(), " dimensions");
    }
    for (int d = 0; d < counts.dims(); ++d) {
        if (counts[d] < 1) {
            throw make_error(ErrorCode::invalid_argument, "a ", what, " of ", counts,
                             "; every entry must be at least 1");
        }
    }
}

// The blocks of a grid, row-major, block i owned by owner_of(i): along dimension d, block k lies
// between cut(d, k) and cut(d, k + 1).
template <class Cut, class OwnerOf>
FloorPlan between_cuts(const Point& grid, std::int64_t nprocs, Cut cut, OwnerOf owner_of) {
    const auto blocks = static_cast<std::size_t>(grid.product());
    return layout::within_memory(blocks, [&] {
        std::vector<std::int64_t> lo, hi, owners;
        lo.reserve(blocks * grid.dims());
        hi.reserve(blocks * grid.dims());
        owners.reserve(blocks);
        Region::from_shape(grid).for_each([&](const Point& position) {
            for (int d = 0; d < grid.dims(); ++d) {
                lo.push_back(cut(d, position[d]));
                hi.push_back(cut(d, position[d] + 1));
            }
            owners.push_back(owner_of(static_cast<std::int64_t>(owners.size())));
        });
        return FloorPlan(grid.dims(), lo, hi, owners, nprocs);
    });
}

// The rank of block i when `blocks` are dealt out in contiguous shares, the first ones larger by
// one.
std::int64_t owner_in_shares(std::int64_t i, std::int64_t blocks, std::int64_t nprocs) {
    const std::int64_t share = blocks / nprocs, larger = blocks % nprocs;
    const std::int64_t in_larger = larger * (share + 1);
    return i < in_larger ? i / (share + 1) : larger + (i - in_larger) / share;
}

void check_splits(const Region& domain, int d, const std::vector<std::int64_t>& splits) {
    for (const std::int64_t split : splits) {
        if (split < domain.lo()[d] || split > domain.hi()[d]) {
            throw make_error(ErrorCode::out_of_range, "a cut at ", split, " in dimension ", d,
                             " lies outside the domain ", domain);
        }
    }
    if (!std::ranges::is_sorted(splits)) {
        throw make_error(ErrorCode::invalid_argument, "the cuts of dimension ", d, " must ascend");
    }
}

int longest_dim(const Region& region) {
    int longest = 0;
    for (int d = 1; d < region.dims(); ++d) {
        if (region.extent(d) > region.extent(longest)) longest = d;
    }
    return longest;
}

// How many of `extent` points the share of the whole takes, rounded.
std::int64_t points_in_share(std::int64_t extent, double share) {
    // The product may round up to 2^63, which no longer fits.
    const double points = std::round(static_cast<double>(extent) * share);
    return points >= static_cast<double>(extent) ? extent : static_cast<std::int64_t>(points);
}

void bisect(const Region& region, const std::vector<double>& weights, std::size_t begin,
            std::size_t end, std::vector<Region>& blocks) {
    if (end - begin == 1) {
        blocks[begin] = region;
        return;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    // Relative to the heaviest: sums then neither overflow nor vanish.
    const double heaviest = *std::max_element(weights.begin() + begin, weights.begin() + end);
    double lower = 0, upper = 0;
    for (std::size_t i = begin; i < middle; ++i) lower += weights[i] / heaviest;
    for (std::size_t i = middle; i < end; ++i) upper += weights[i] / heaviest;
    const int d = longest_dim(region);
    Point cut_hi = region.hi(), cut_lo = region.lo();
    const double share = lower / (lower + upper);
    cut_hi[d] = cut_lo[d] = region.lo()[d] + points_in_share(region.extent(d), share);
    bisect(Region(region.lo(), cut_hi), weights, begin, middle, blocks);
    bisect(Region(cut_lo, region.hi()), weights, middle, end, blocks);
}

}  // namespace

FloorPlan FloorPlan::with_owners(const Map& owners, std::int64_t nprocs) const {
    return {dims(), lower_corners(), upper_corners(), owners, nprocs};
}

FloorPlan FloorPlan::uniform(const Region& domain, const Point& grid, std::int64_t nprocs) {
    check_positive(domain, grid, "grid");
    layout::check_nprocs(nprocs);
    const auto cut = [&](int d, std::int64_t k) {
        const std::int64_t extent = domain.extent(d), blocks = grid[d];
        return domain.lo()[d] + k * (extent / blocks) + std::min(k, extent % blocks);
    };
    return between_cuts(grid, nprocs, cut, [&](std::int64_t i) { return i % nprocs; });
}

FloorPlan FloorPlan::tiles(const Region& domain, const Point& tile, std::int64_t nprocs,
                           const std::string& mapping) {
    check_positive(domain, tile, "tile");
    layout::check_nprocs(nprocs);
    if (mapping != "block" && mapping != "cyclic") {
        throw make_error(ErrorCode::invalid_argument, "the mapping \"", mapping,
                         "\"; it must be \"block\" or \"cyclic\"");
    }
    Point grid = tile;
    for (int d = 0; d < grid.dims(); ++d) {
        grid[d] = geometry::divide_up(domain.extent(d), tile[d]);
    }
    const std::int64_t blocks = grid.product();
    const auto cut = [&](int d, std::int64_t k) {
        return k < grid[d] ? domain.lo()[d] + k * tile[d] : domain.hi()[d];
    };
    return between_cuts(grid, nprocs, cut, [&](std::int64_t i) {
        return mapping == "cyclic" ? i % nprocs : owner_in_shares(i, blocks, nprocs);
    });
}

FloorPlan FloorPlan::from_splits(const Region& domain,
                                 const std::vector<std::vector<std::int64_t>>& splits,
                                 std::int64_t nprocs) {
    check_domain(domain);
    layout::check_nprocs(nprocs);
    if (static_cast<int>(splits.size()) != domain.dims()) {
        throw make_error(ErrorCode::mismatch, "cuts for ", splits.size(),
                         " dimensions of the domain ", domain, " of ", domain.dims());
    }
    Point grid = domain.lo();
    for (int d = 0; d < domain.dims(); ++d) {
        check_splits(domain, d, splits[d]);
        grid[d] = static_cast<std::int64_t>(splits[d].size()) + 1;
    }
    const auto cut = [&](int d, std::int64_t k) {
        if (k == 0) return domain.lo()[d];
        return k == grid[d] ? domain.hi()[d] : splits[d][k - 1];
    };
    return between_cuts(grid, nprocs, cut, [&](std::int64_t i) { return i % nprocs; });
}

FloorPlan FloorPlan::bisected(const Region& domain, const std::vector<double>& weights) {
    check_domain(domain);
    if (weights.empty()) {
        throw Error(ErrorCode::invalid_argument, "no weights: one per block is needed");
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (!(weights[i] > 0) || !std::isfinite(weights[i])) {
            throw make_error(ErrorCode::invalid_argument, "weight ", i, " is ", weights[i],
                             "; weights are positive and finite");
        }
    }
    return layout::within_memory(weights.size(), [&] {
        std::vector<Region> blocks(weights.size(), Region::empty_region(domain.dims()));
        bisect(domain, weights, 0, weights.size(), blocks);
        Map owners(weights.size());
        for (std::size_t i = 0; i < owners.size(); ++i) owners[i] = static_cast<std::int64_t>(i);
        return FloorPlan(blocks, owners, static_cast<std::int64_t>(owners.size()));
    });
}

}  // namespace datamover
