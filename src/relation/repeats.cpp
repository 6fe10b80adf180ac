// SPDX-License-Identifier: BSD-3-Clause
// Whether two elements of a relation have the same destination.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "encodings.hpp"
#include "extent.hpp"
#include "geometry/make_error.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

/// Up to so many places of memory per element are marked in a bitmap; beyond, addresses are sorted.
constexpr std::int64_t most_places_per_elem = 64;

/// One axis as seen from the destination: how far apart neighbours are at least, and how far it
/// reaches.
struct Spread {
    std::int64_t step;
    std::int64_t reach;
};

/// The bytes that a nest's destinations span, when its strides show that none repeats.
std::optional<AddressBounds> distinct_bounds(const Nest& nest, std::int64_t elem_bytes) {
    std::vector<Spread> spreads;
    AddressBounds bounds{nest.start.destination, nest.start.destination + elem_bytes};
    for (const NestAxis& axis : nest.axes) {
        std::int64_t first = 0;
        std::int64_t last = axis.count - 1;
        if (axis.table != nullptr) {
            // Positions are distinct if they ascend.
            if (!ascent_of(*axis.table, Side::destination).ascends) return std::nullopt;
            const Extent positions = extent_of(*axis.table, Side::destination);
            first = positions.low;
            last = positions.high;
        }
        const std::int64_t stride = axis.stride.destination;
        bounds.begin_bytes += std::min(first * stride, last * stride);
        bounds.end_bytes += std::max(first * stride, last * stride);
        if (axis.count > 1)
            spreads.push_back({std::abs(stride), (last - first) * std::abs(stride)});
    }
    std::ranges::sort(spreads, {}, &Spread::step);
    std::int64_t below = elem_bytes;
    for (const Spread& s : spreads) {
        if (s.step < below) return std::nullopt;
        below += s.reach;
    }
    return bounds;
}

/// False when the strides of all nests show that nothing repeats; else nobody knows yet.
bool products_may_repeat(const ProductStorage& product) {
    std::vector<AddressBounds> all;
    bool clear = true;
    product.for_each_nest([&](const Nest& nest) {
        if (!clear) return;
        const auto bounds = distinct_bounds(nest, product.elem_bytes.destination);
        clear = bounds.has_value();
        if (clear) all.push_back(*bounds);
    });
    std::ranges::sort(all, {}, &AddressBounds::begin_bytes);
    const auto overlap = [](const AddressBounds& a, const AddressBounds& b) {
        return b.begin_bytes < a.end_bytes;
    };
    return !clear || std::ranges::adjacent_find(all, overlap) != all.end();
}

/// False when every destination lies behind the one before it.
bool walk_may_repeat(const AddressRelation::Storage& storage) {
    AscentCheck ascent;
    const auto add = [&](std::int64_t start, std::int64_t elems, std::int64_t step) {
        ascent.add(start, elems, step, storage.elem_bytes.destination);
    };
    walk_side(storage, Side::destination, add);
    return !ascent.ascends;
}

template <class Visit>
void for_each_destination(const AddressRelation::Storage& storage, Visit&& visit) {
    const auto visit_all = [&](std::int64_t start, std::int64_t elems, std::int64_t step) {
        for (std::int64_t i = 0; i < elems; ++i) visit(start + i * step);
    };
    walk_side(storage, Side::destination, visit_all);
}

/// Marks the place of every element. All destinations are whole elements away from `low`.
bool marks_repeat(const AddressRelation::Storage& storage, std::int64_t low, std::int64_t places) {
    std::vector<std::uint64_t> marked(static_cast<std::size_t>(places / 64 + 1));
    bool repeats = false;
    for_each_destination(storage, [&](std::int64_t at) {
        const std::int64_t place = (at - low) / storage.elem_bytes.destination;
        std::uint64_t& word = marked[static_cast<std::size_t>(place / 64)];
        const std::uint64_t bit = std::uint64_t{1} << (place % 64);
        repeats = repeats || (word & bit) != 0;
        word |= bit;
    });
    return repeats;
}

bool sorted_repeat(const AddressRelation::Storage& storage) {
    std::vector<std::int64_t> at;
    at.reserve(static_cast<std::size_t>(storage.elems));
    for_each_destination(storage, [&](std::int64_t a) { at.push_back(a); });
    std::ranges::sort(at);
    const auto overlap = [&](std::int64_t a, std::int64_t b) {
        return b - a < storage.elem_bytes.destination;
    };
    return std::ranges::adjacent_find(at, overlap) != at.end();
}

bool elements_repeat(const AddressRelation::Storage& storage, AddressBounds bounds) {
    const std::int64_t elem = storage.elem_bytes.destination;
    const std::int64_t places = (bounds.end_bytes - bounds.begin_bytes) / elem;
    bool whole = true;
    const auto look = [&](std::int64_t start, std::int64_t elems, std::int64_t step) {
        whole =
            whole && (start - bounds.begin_bytes) % elem == 0 && (elems == 1 || step % elem == 0);
    };
    walk_side(storage, Side::destination, look);
    if (whole && places / most_places_per_elem <= storage.elems)
        return marks_repeat(storage, bounds.begin_bytes, places);
    return sorted_repeat(storage);
}

bool repeat(const AddressRelation::Storage& storage, AddressBounds bounds) {
    const std::int64_t span = bounds.end_bytes - bounds.begin_bytes;
    if (span / storage.elem_bytes.destination < storage.elems) return true;
    const auto* product = dynamic_cast<const ProductStorage*>(&storage);
    if (product != nullptr && !products_may_repeat(*product)) return false;
    return walk_may_repeat(storage) && elements_repeat(storage, bounds);
}

/// Whether the result is the same in whichever order elements arrive, but for rounding.
bool combines_in_any_order(const ElementUpdate& update) {
    const bool keeps_all = update.beta == std::complex<double>{1.0, 0.0};
    return update.op != Op::replace && (update.op != Op::add || keeps_all);
}

}  // namespace

bool RelationQueries::destinations_repeat() const {
    if (size() < 2) return false;
    return storage_->memo().repeats.get(
        [&] { return repeat(*storage_, bounds(Side::destination)); });
}

void RelationQueries::require_unambiguous(const ElementUpdate& update) const {
    if (combines_in_any_order(update) || !destinations_repeat()) return;
    throw make_error(ErrorCode::invalid_argument,
                     "several elements have the same destination; operation \"", op_name(update.op),
                     "\" depends on their order, use \"add\", \"multiply\", \"min\" or \"max\"");
}

}  // namespace datamover
