// SPDX-License-Identifier: BSD-3-Clause
// Target maps by cells of space.
//
// Three passes over a block of positions: their cells, as row-major or Z-order numbers; for
// Hilbert's curve its places; the owners. Equal parts of a curve need no table of cells: they are
// ranges of its places.
#include "cell_targets.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "geometry/make_error.hpp"
#include "splitters.hpp"

namespace datamover::distribute {
namespace {

/// Ranges are looked up for so many processes; for more there is a table of cells.
constexpr std::int64_t most_ranges = 4096;
constexpr int bucket_bits = 12;

}  // namespace

NumberRanges::NumberRanges(std::vector<std::uint64_t> starts, int number_bits)
    : starts_(std::move(starts)), bucket_shift_(std::max(0, number_bits - bucket_bits)) {
    const int buckets = 1 << std::min(number_bits, bucket_bits);
    std::int32_t range = 0;
    const auto last = static_cast<std::int32_t>(starts_.size()) - 1;
    for (int b = 0; b < buckets; ++b) {
        const std::uint64_t number = static_cast<std::uint64_t>(b) << bucket_shift_;
        while (range < last && starts_[static_cast<std::size_t>(range) + 1] <= number) ++range;
        first_.push_back(range);
    }
    first_.push_back(last);
}

void CellTargets::set_box(const CellBox& box) {
    dims_ = box.cells.size();
    periodic_ = box.periodic;
    if (box.lo.size() != dims_ || box.hi.size() != dims_)
        throw make_error(ErrorCode::mismatch, "corners of ", box.lo.size(), " and ", box.hi.size(),
                         " dimensions for ", dims_, " of cells");
    for (std::size_t d = 0; d < dims_; ++d) {
        const double length = box.hi[d] - box.lo[d];
        if (!(length > 0) || !std::isfinite(length))
            throw make_error(ErrorCode::invalid_argument, "a box from ", box.lo[d], " to ",
                             box.hi[d], " has no inside");
        lo_[d] = box.lo[d];
        count_[d] = static_cast<double>(box.cells[d]);
        per_length_[d] = count_[d] / length;
        if (!std::isfinite(per_length_[d]))
            throw make_error(ErrorCode::invalid_argument, "a box is too short in dimension ", d,
                             " for ", box.cells[d],
                             " cells: there are more to a unit of length than a double can say");
        last_[d] = count_[d] - 1;
        counts_[d] = static_cast<std::uint64_t>(box.cells[d]);
    }
}

CellTargets::CellTargets(const CellBox& box, CellOrder order, std::int64_t nprocs,
                         std::span<const std::int64_t> owners)
    : nprocs_(nprocs) {
    const std::int64_t total = cell_total(box.cells);
    set_box(box);
    if (owners.empty()) {
        deal_equally(box.cells, order, total);
        return;
    }
    if (static_cast<std::int64_t>(owners.size()) != total)
        throw make_error(ErrorCode::mismatch, "owners of ", owners.size(),
                         " cells were given, there are ", total);
    for (std::size_t i = 0; i < owners.size(); ++i)
        if (owners[i] < -1 || owners[i] >= nprocs)
            throw make_error(ErrorCode::out_of_range, "cell ", i, " belongs to process ", owners[i],
                             "; owners are ranks from 0 to ", nprocs - 1, ", or -1 to drop");
    fill_table(box.cells, order, total,
               [&](std::int64_t position) { return owners[static_cast<std::size_t>(position)]; });
}

void CellTargets::deal_equally(const std::vector<std::int64_t>& cells, CellOrder order,
                               std::int64_t total) {
    if (order != CellOrder::row_major) curve_.emplace(order, cells);
    place_bits_ =
        curve_ ? curve_->place_bits() : std::bit_width(static_cast<std::uint64_t>(total - 1));
    if (total == std::int64_t{1} << place_bits_) return;
    if (nprocs_ > most_ranges) {
        curve_.reset();
        return fill_table(cells, order, total,
                          [&](std::int64_t position) { return position * nprocs_ / total; });
    }
    std::vector<std::uint64_t> starts;
    for (std::int64_t p = 0; p < nprocs_; ++p) {
        const std::int64_t position = (p * total + nprocs_ - 1) / nprocs_;
        if (position >= total) break;
        starts.push_back(curve_ ? curve_->place_of(position)
                                : static_cast<std::uint64_t>(position));
    }
    ranges_.emplace(std::move(starts), place_bits_);
}

template <class OwnerAt>
void CellTargets::fill_table(const std::vector<std::int64_t>& cells, CellOrder order,
                             std::int64_t total, OwnerAt&& owner_at) {
    table_.resize(static_cast<std::size_t>(total));
    std::int64_t position = 0;
    const auto set = [&](std::int64_t cell) {
        table_[static_cast<std::size_t>(cell)] = static_cast<std::int32_t>(owner_at(position++));
    };
    if (order == CellOrder::row_major)
        for (std::int64_t cell = 0; cell < total; ++cell) set(cell);
    else
        SpaceCurve(order, cells).visit(set);
}

/// In cells from the lower end of a dimension; NaN for what is not a number.
template <bool periodic>
double CellTargets::cells_from_low(double x, std::size_t d) const {
    const double at = (x - lo_[d]) * per_length_[d];
    if constexpr (periodic)
        if (!(at >= 0 && at < count_[d])) return at - std::floor(at / count_[d]) * count_[d];
    return at;
}

template <class T, std::size_t fixed_dims, bool periodic>
bool CellTargets::find_places(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                              std::uint64_t* places) const {
    const std::size_t dims = fixed_dims > 0 ? fixed_dims : dims_;
    bool all_known = true;
    for (std::int64_t i = 0; i < count; ++i) {
        std::array<std::uint32_t, most_dims> cell;
        for (std::size_t d = 0; d < dims; ++d) {
            const auto x =
                static_cast<double>(key_at<T>(keys, first + i, static_cast<std::int64_t>(d)));
            const double at = cells_from_low<periodic>(x, d);
            all_known &= at == at;
            // Written so that NaN becomes 0.
            const double inside = at > 0 ? at : 0;
            cell[d] = static_cast<std::uint32_t>(
                static_cast<std::int64_t>(inside < last_[d] ? inside : last_[d]));
        }
        if (curve_) {
            places[i] = curve_->interleaved<fixed_dims>(cell.data());
            continue;
        }
        std::uint64_t number = 0;
        for (std::size_t d = 0; d < dims; ++d) number = number * counts_[d] + cell[d];
        places[i] = number;
    }
    return all_known;
}

void CellTargets::find_owners(const std::uint64_t* places, std::int64_t count,
                              std::int64_t* targets) const {
    if (!table_.empty())
        for (std::int64_t i = 0; i < count; ++i) targets[i] = table_[places[i]];
    else if (ranges_)
        for (std::int64_t i = 0; i < count; ++i) targets[i] = ranges_->range_of(places[i]);
    else
        for (std::int64_t i = 0; i < count; ++i)
            targets[i] = static_cast<std::int64_t>(
                places[i] * static_cast<std::uint64_t>(nprocs_) >> place_bits_);
}

template <class T, std::size_t fixed_dims, bool periodic>
void CellTargets::evaluate_as(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                              std::int64_t* targets) const {
    std::array<std::uint64_t, block_elems> places;
    for (std::int64_t done = 0; done < count; done += block_elems) {
        const std::int64_t n = std::min(block_elems, count - done), begin = first + done;
        const bool all_known = find_places<T, fixed_dims, periodic>(keys, begin, n, places.data());
        if (curve_) curve_->follow(places.data(), static_cast<std::size_t>(n));
        find_owners(places.data(), n, targets + done);
        if (!all_known) mark_unknown<T, periodic>(keys, begin, n, targets + done);
    }
}

template <class T, bool periodic>
void CellTargets::mark_unknown(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                               std::int64_t* targets) const {
    for (std::int64_t i = 0; i < count; ++i)
        for (std::size_t d = 0; d < dims_; ++d)
            if (std::isnan(cells_from_low<periodic>(
                    static_cast<double>(key_at<T>(keys, first + i, static_cast<std::int64_t>(d))),
                    d)))
                targets[i] = TargetMap::no_target;
}

void CellTargets::evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                           std::int64_t* targets) const {
    check_dims(keys, dims_);
    with_real(keys.type, [&]<class T>() {
        if (periodic_)
            evaluate_as<T, 0, true>(keys, first, count, targets);
        else if (dims_ == 3)
            evaluate_as<T, 3, false>(keys, first, count, targets);
        else if (dims_ == 2)
            evaluate_as<T, 2, false>(keys, first, count, targets);
        else
            evaluate_as<T, 0, false>(keys, first, count, targets);
    });
}

}  // namespace datamover::distribute
