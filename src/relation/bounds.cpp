// SPDX-License-Identifier: BSD-3-Clause
// Which addresses does a relation touch, and does it touch them in one unbroken run?
#include <algorithm>
#include <limits>

#include "encodings.hpp"

namespace datamover {
namespace {

struct Extent {
    std::int64_t low = 0;
    std::int64_t high = 0;

    void stretch(std::int64_t by) {
        low += std::min<std::int64_t>(by, 0);
        high += std::max<std::int64_t>(by, 0);
    }
};

Extent table_extent(const AxisTable& table, bool of_source) {
    Extent all{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
    auto add = [&](const std::vector<AxisRun>& runs, std::int64_t repeats, std::int64_t period) {
        for (const AxisRun& r : runs) {
            const std::int64_t start = of_source ? r.source : r.destination;
            Extent e{start, start + r.length - 1};
            e.stretch((r.count - 1) * (of_source ? r.source_step : r.destination_step));
            e.stretch((repeats - 1) * period);
            all = {std::min(all.low, e.low), std::max(all.high, e.high)};
        }
    };
    if (table.periods() > 0)
        add(table.runs(), table.periods(),
            of_source ? table.source_period() : table.destination_period());
    add(table.tail(), 1, 0);
    return all;
}

Extent nest_extent(const Nest& nest, bool of_source) {
    const std::int64_t offset = of_source ? nest.source : nest.destination;
    Extent e{offset, offset};
    for (const NestAxis& axis : nest.axes) {
        const std::int64_t stride = of_source ? axis.source_stride : axis.destination_stride;
        if (axis.table == nullptr) {
            e.stretch((axis.count - 1) * stride);
            continue;
        }
        const Extent t = table_extent(*axis.table, of_source);
        e.low += std::min(t.low * stride, t.high * stride);
        e.high += std::max(t.low * stride, t.high * stride);
    }
    return e;
}

AddressBounds bounds_of(const AddressRelation::Storage& storage, bool of_source) {
    if (storage.size() == 0) return {};
    Extent all{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
    auto add = [&](const Extent& e) {
        all = {std::min(all.low, e.low), std::max(all.high, e.high)};
    };
    if (const auto* product = dynamic_cast<const ProductStorage*>(&storage)) {
        product->for_each_nest([&](const Nest& nest) { add(nest_extent(nest, of_source)); });
    } else {
        storage.visit([&](const StridedRun& r) {
            const std::int64_t start = of_source ? r.source : r.destination;
            Extent e{start, start};
            e.stretch((r.elems - 1) * (of_source ? r.source_step : r.destination_step));
            add(e);
        });
    }
    const std::int64_t elem =
        of_source ? storage.source_elem_bytes : storage.destination_elem_bytes;
    return {all.low, all.high + elem};
}

/// Whether axes count up without gaps when they are gone through in order.
bool nest_is_dense(const Nest& nest, bool of_source, std::int64_t elem_bytes) {
    std::int64_t expected = elem_bytes;
    for (auto axis = nest.axes.rbegin(); axis != nest.axes.rend(); ++axis) {
        const std::int64_t stride = of_source ? axis->source_stride : axis->destination_stride;
        if (stride != expected) return false;
        if (axis->table != nullptr) {
            std::int64_t next = 0;
            bool first = true;
            bool dense = true;
            axis->table->for_each_block([&](std::int64_t s, std::int64_t d, std::int64_t n) {
                const std::int64_t start = of_source ? s : d;
                dense = dense && (first || start == next);
                first = false;
                next = start + n;
            });
            if (!dense) return false;
        }
        expected *= axis->count;
    }
    return true;
}

bool contiguous(const AddressRelation::Storage& storage, bool of_source) {
    const std::int64_t elem =
        of_source ? storage.source_elem_bytes : storage.destination_elem_bytes;
    bool dense = true;
    bool first = true;
    std::int64_t next = 0;
    if (const auto* product = dynamic_cast<const ProductStorage*>(&storage)) {
        product->for_each_nest([&](const Nest& nest) {
            const std::int64_t start = nest_extent(nest, of_source).low;
            dense = dense && (first || start == next) && nest_is_dense(nest, of_source, elem);
            first = false;
            next = start + nest.size() * elem;
        });
        return dense;
    }
    storage.visit([&](const StridedRun& r) {
        const std::int64_t start = of_source ? r.source : r.destination;
        const std::int64_t step = of_source ? r.source_step : r.destination_step;
        dense = dense && (first || start == next) && (r.elems == 1 || step == elem);
        first = false;
        next = start + r.elems * elem;
    });
    return dense;
}

}  // namespace

AddressBounds AddressRelation::source_bounds() const {
    return bounds_of(*storage_, true);
}
AddressBounds AddressRelation::destination_bounds() const {
    return bounds_of(*storage_, false);
}
bool AddressRelation::source_contiguous() const {
    return contiguous(*storage_, true);
}
bool AddressRelation::destination_contiguous() const {
    return contiguous(*storage_, false);
}

}  // namespace datamover
