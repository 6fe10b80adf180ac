// SPDX-License-Identifier: BSD-3-Clause
// Floor plans: storage, checks, lookup.

#include "datamover/floor_plan.hpp"

#include <algorithm>
#include <numeric>

#include "bounds.hpp"
#include "box_index.hpp"
#include "geometry/checked.hpp"
#include "geometry/digest.hpp"
#include "geometry/first_use.hpp"
#include "geometry/make_error.hpp"
#include "geometry/radix_sort.hpp"

namespace datamover {
namespace {

using Rows = std::span<const std::int64_t>;

void check_lengths(int dims, Rows lo, Rows hi, Rows owners) {
    if (dims < 1 || dims > max_dims) {
        throw make_error(ErrorCode::invalid_argument, "a floor plan of ", dims,
                         " dimensions; 1 to ", max_dims, " are possible");
    }
    const auto d = static_cast<std::size_t>(dims);
    if (lo.size() != hi.size() || lo.size() % d != 0 || lo.size() / d != owners.size()) {
        throw make_error(ErrorCode::mismatch, "a floor plan of ", dims, " dimensions has ",
                         lo.size(), " lower and ", hi.size(), " upper coordinates and ",
                         owners.size(), " owners; pass ", dims,
                         " of each and one owner for every block");
    }
}

std::int64_t checked_nprocs(Rows owners, std::int64_t nprocs) {
    if (nprocs != -1) layout::check_nprocs(nprocs);
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < owners.size(); ++i) {
        if (owners[i] < 0 || (nprocs != -1 && owners[i] >= nprocs)) {
            throw make_error(ErrorCode::out_of_range, "block ", i, " is owned by rank ", owners[i],
                             "; it must be in 0 .. ",
                             nprocs == -1 ? "nprocs-1" : std::to_string(nprocs - 1));
        }
        largest = std::max(largest, owners[i]);
    }
    if (nprocs == -1) layout::check_nprocs(nprocs = geometry::add(largest, 1));
    return nprocs;
}

}  // namespace

/// What copies of a floor plan share. What is looked up and the digest come later, each once.
struct [[gnu::visibility("hidden")]] FloorPlan::Table {
    int dims = 0;
    std::int64_t nprocs = 0;
    std::vector<std::int64_t> lo, hi;  // row-major (n, dims); zeros for an empty block
    std::vector<std::int64_t> owners;
    Region bounding_box;

    geometry::FirstUse<layout::BoxIndex> index;
    geometry::FirstUse<bool> is_disjoint;
    geometry::FirstUse<std::vector<std::int64_t>> by_owner;  // blocks by rank and number
    geometry::FirstUse<std::int64_t> digest_of_rows;

    static const Table& of(const FloorPlan& plan) {
        static const Table none;
        return plan.table_ ? *plan.table_ : none;
    }

    Table() = default;
    Table(int dims, Rows lo, Rows hi, Rows owners, std::int64_t nprocs);

    const layout::BoxIndex& boxes() const {
        return index.get([this] { return layout::BoxIndex(dims, lo, hi); });
    }
    Rows blocks_of(std::int64_t rank) const;
};

/// Empty blocks become zeros, and the bounding box is found.
FloorPlan::Table::Table(int dims, Rows lower, Rows upper, Rows owners, std::int64_t nprocs)
    : dims(dims),
      nprocs(nprocs),
      lo(lower.begin(), lower.end()),
      hi(upper.begin(), upper.end()),
      owners(owners.begin(), owners.end()) {
    Point least = Point::filled(dims, 0), most = least;
    bool none_yet = true;
    for (std::size_t at = 0; at < lo.size(); at += static_cast<std::size_t>(dims)) {
        bool has_points = true;
        for (int d = 0; d < dims; ++d) has_points = has_points && lo[at + d] < hi[at + d];
        if (!has_points) {
            std::fill_n(lo.begin() + at, dims, 0);
            std::fill_n(hi.begin() + at, dims, 0);
            continue;
        }
        for (int d = 0; d < dims; ++d) {
            geometry::subtract(hi[at + d], lo[at + d]);
            least[d] = none_yet ? lo[at + d] : std::min(least[d], lo[at + d]);
            most[d] = none_yet ? hi[at + d] : std::max(most[d], hi[at + d]);
        }
        none_yet = false;
    }
    bounding_box = Region(least, most);
}

Rows FloorPlan::Table::blocks_of(std::int64_t rank) const {
    const auto owner_of = [this](std::int64_t block) { return owners[block]; };
    const auto& blocks = by_owner.get([&] {
        std::vector<std::int64_t> sorted(owners.size());
        std::iota(sorted.begin(), sorted.end(), 0);
        geometry::sort_by(std::span(sorted), owner_of);
        return sorted;
    });
    return {std::ranges::lower_bound(blocks, rank, {}, owner_of),
            std::ranges::upper_bound(blocks, rank, {}, owner_of)};
}

FloorPlan::FloorPlan(int dims, Rows lo, Rows hi, Rows owners, std::int64_t nprocs) {
    check_lengths(dims, lo, hi, owners);
    nprocs = checked_nprocs(owners, nprocs);
    table_ = layout::within_memory(
        owners.size(), [&] { return std::make_shared<const Table>(dims, lo, hi, owners, nprocs); });
}

FloorPlan::FloorPlan(const std::vector<Region>& regions, const Map& owners, std::int64_t nprocs) {
    if (regions.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "a floor plan from no regions has no dimension; give at least one");
    }
    const int dims = regions.front().dims();
    std::vector<std::int64_t> lo, hi;
    layout::within_memory(regions.size(), [&] {
        lo.reserve(regions.size() * dims);
        hi.reserve(regions.size() * dims);
    });
    for (std::size_t i = 0; i < regions.size(); ++i) {
        if (regions[i].dims() != dims) {
            throw make_error(ErrorCode::mismatch, "region ", i, ", ", regions[i], ", has ",
                             regions[i].dims(), " dimensions; the first one has ", dims);
        }
        for (int d = 0; d < dims; ++d) {
            lo.push_back(regions[i].lo()[d]);
            hi.push_back(regions[i].hi()[d]);
        }
    }
    *this = FloorPlan(dims, lo, hi, owners, nprocs);
}

int FloorPlan::dims() const {
    return Table::of(*this).dims;
}

std::int64_t FloorPlan::num_blocks() const {
    return static_cast<std::int64_t>(Table::of(*this).owners.size());
}

std::int64_t FloorPlan::nprocs() const {
    return Table::of(*this).nprocs;
}

Region FloorPlan::region(std::int64_t block) const {
    layout::check_number("block", block, num_blocks());
    const auto d = static_cast<std::size_t>(dims());
    const auto first = static_cast<std::size_t>(block) * d;
    return Region(Point(lower_corners().subspan(first, d)),
                  Point(upper_corners().subspan(first, d)));
}

std::int64_t FloorPlan::owner(std::int64_t block) const {
    layout::check_number("block", block, num_blocks());
    return Table::of(*this).owners[block];
}

Rows FloorPlan::blocks_of(std::int64_t rank) const {
    layout::check_number("rank", rank, nprocs());
    return Table::of(*this).blocks_of(rank);
}

Region FloorPlan::bounding_box() const {
    return Table::of(*this).bounding_box;
}

Rows FloorPlan::lower_corners() const {
    return Table::of(*this).lo;
}
Rows FloorPlan::upper_corners() const {
    return Table::of(*this).hi;
}
Rows FloorPlan::owners() const {
    return Table::of(*this).owners;
}

std::vector<std::int64_t> FloorPlan::find(const Region& box) const {
    std::vector<std::int64_t> found;
    add_found(box, found);
    return found;
}

void FloorPlan::add_found(const Region& box, std::vector<std::int64_t>& found) const {
    if (box.dims() != dims()) {
        throw make_error(ErrorCode::mismatch, "looking for ", box, " of ", box.dims(),
                         " dimensions in a floor plan of ", dims());
    }
    Table::of(*this).boxes().find(box, found);
}

bool FloorPlan::disjoint() const {
    const Table& t = Table::of(*this);
    return t.is_disjoint.get([&] { return !t.boxes().any_intersect(); });
}

std::vector<Region> FloorPlan::exclusive_regions(std::int64_t block) const {
    const Region own = region(block);
    if (disjoint()) return own.empty() ? std::vector<Region>{} : std::vector<Region>{own};
    std::vector<Region> lower;
    for (const std::int64_t other : find(own)) {
        if (other >= block) break;
        lower.push_back(region(other));
    }
    return subtract_all(own, lower);
}

std::int64_t FloorPlan::digest() const {
    const Table& t = Table::of(*this);
    return t.digest_of_rows.get([&] {
        geometry::WordDigest digest;
        digest.put(t.dims);
        digest.put(t.nprocs);
        for (const Rows rows : {Rows(t.lo), Rows(t.hi), Rows(t.owners)}) digest.put_all(rows);
        return digest.value();
    });
}

bool FloorPlan::operator==(const FloorPlan& other) const {
    const Table &a = Table::of(*this), &b = Table::of(other);
    return &a == &b || (a.dims == b.dims && a.nprocs == b.nprocs && a.owners == b.owners &&
                        a.lo == b.lo && a.hi == b.hi);
}

}  // namespace datamover
