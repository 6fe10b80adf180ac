// SPDX-License-Identifier: BSD-3-Clause
// Canonical form of a nest: everything that does not affect the copy is removed.
#include "canonical.hpp"

#include <algorithm>
#include <cstdlib>

namespace datamover {
namespace {

/// Lets an axis be walked from its other end when the destination's addresses fall along it.
void turn_upwards(CanonicalNest& nest, NestAxis& axis) {
    if (axis.table != nullptr) return;
    if (axis.destination_stride > 0 || (axis.destination_stride == 0 && axis.source_stride >= 0))
        return;
    nest.source += (axis.count - 1) * axis.source_stride;
    nest.destination += (axis.count - 1) * axis.destination_stride;
    axis.source_stride = -axis.source_stride;
    axis.destination_stride = -axis.destination_stride;
}

bool outer_of(const NestAxis& a, const NestAxis& b) {
    const std::int64_t da = std::abs(a.destination_stride);
    const std::int64_t db = std::abs(b.destination_stride);
    if (da != db) return da > db;
    return std::abs(a.source_stride) > std::abs(b.source_stride);
}

void widen_element(CanonicalNest& nest) {
    while (!nest.axes.empty()) {
        const NestAxis& inner = nest.axes.back();
        if (inner.table != nullptr || inner.source_stride != nest.elem_bytes ||
            inner.destination_stride != nest.elem_bytes)
            return;
        nest.elem_bytes *= inner.count;
        nest.axes.pop_back();
    }
}

}  // namespace

std::size_t CanonicalNest::fastest_source_axis() const {
    std::size_t best = axes.size() - 1;
    for (std::size_t k = axes.size(); k-- > 0;)
        if (std::abs(axes[k].source_stride) < std::abs(axes[best].source_stride)) best = k;
    return best;
}

CanonicalNest canonical_nest(const Nest& nest, std::int64_t elem_bytes, bool widen) {
    CanonicalNest result{nest.source, nest.destination, elem_bytes, nest.axes};
    for (NestAxis& axis : result.axes) turn_upwards(result, axis);
    std::ranges::stable_sort(result.axes, outer_of);
    fold_axes(result.axes);
    if (widen) widen_element(result);
    return result;
}

}  // namespace datamover
