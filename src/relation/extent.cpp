// SPDX-License-Identifier: BSD-3-Clause
// Extents of tables and nests, with overflow checks.
#include "extent.hpp"

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

using geometry::Wide;

/// |count * stride|. Of 64-bit numbers, so that two of them can be added.
Wide length_of(std::int64_t count, std::int64_t stride) {
    const Wide way = Wide{count} * stride;
    return way < 0 ? -way : way;
}

/// None beyond the largest address.
std::optional<std::int64_t> as_address(Wide magnitude) {
    if (magnitude > largest_address) return std::nullopt;
    return static_cast<std::int64_t>(magnitude);
}

std::optional<std::int64_t> add_reach(std::int64_t a, std::int64_t count, std::int64_t stride) {
    return as_address(a + length_of(count, stride));
}

constexpr const char* too_many_elems = "more than 2^59 elements";
constexpr const char* too_far = "addresses beyond 2^62";

bool multiply_elems(std::int64_t& elems, std::int64_t count) {
    return !__builtin_mul_overflow(elems, count, &elems) && elems <= most_elems;
}

std::optional<std::int64_t> reach_of_runs(const std::vector<AxisRun>& runs, std::int64_t periods,
                                          std::int64_t period, Side side) {
    Wide all = 0;
    for (const AxisRun& r : runs)
        all = std::max(all, length_of(1, r.start(side)) + length_of(r.count - 1, r.step(side)) +
                                length_of(r.length - 1, 1) + length_of(periods - 1, period));
    return as_address(all);
}

}  // namespace

Extent extent_of(const AxisTable& table, Side side) {
    Extent all;
    auto add = [&](const std::vector<AxisRun>& runs, std::int64_t repeats, std::int64_t period) {
        for (const AxisRun& r : runs) {
            const std::int64_t start = r.start(side);
            Extent e{start, start + r.length - 1};
            e.stretch((r.count - 1) * r.step(side));
            e.stretch((repeats - 1) * period);
            all.include(e);
        }
    };
    if (table.periods() > 0) add(table.runs(), table.periods(), table.period(side));
    add(table.tail(), 1, 0);
    return all;
}

Extent extent_of(const Nest& nest, Side side) {
    Extent e{nest.offset(side), nest.offset(side)};
    for (const NestAxis& axis : nest.axes) {
        const std::int64_t stride = axis.stride(side);
        if (axis.table == nullptr) {
            e.stretch((axis.count - 1) * stride);
            continue;
        }
        const Extent t = extent_of(*axis.table, side);
        e.low += std::min(t.low * stride, t.high * stride);
        e.high += std::max(t.low * stride, t.high * stride);
    }
    return e;
}

std::optional<std::int64_t> reach_of(const AxisTable& table, Side side) {
    const auto body = table.periods() > 0
                          ? reach_of_runs(table.runs(), table.periods(), table.period(side), side)
                          : std::int64_t{0};
    const auto tail = reach_of_runs(table.tail(), 1, 0, side);
    if (!body || !tail) return std::nullopt;
    return std::max(*body, *tail);
}

bool row_fits(std::int64_t start, std::int64_t elems, std::int64_t step) {
    return as_address(length_of(1, start) + length_of(elems - 1, step)).has_value();
}

const char* excess_of(const Product& product) {
    std::int64_t elems = 1;
    for (const ProductAxis& axis : product.axes)
        if (!multiply_elems(elems, axis.table->size())) return too_many_elems;
    for (const Side side : both_sides) {
        auto total = as_address(length_of(1, product.offset_bytes(side)));
        for (const ProductAxis& axis : product.axes) {
            const auto reach = total ? reach_of(*axis.table, side) : std::nullopt;
            if (!reach) return too_far;
            total = add_reach(*total, *reach, axis.stride_bytes(side));
        }
        if (!total) return too_far;
    }
    return nullptr;
}

const char* excess_of(const Nest& nest, std::span<const PerSide<std::int64_t>> reach) {
    std::int64_t elems = 1;
    for (const NestAxis& axis : nest.axes)
        if (!multiply_elems(elems, axis.count)) return too_many_elems;
    for (const Side side : both_sides) {
        auto total = as_address(length_of(1, nest.offset(side)));
        for (std::size_t k = 0; k < nest.axes.size() && total; ++k)
            total = add_reach(*total, reach[k][side], nest.axes[k].stride(side));
        if (!total) return too_far;
    }
    return nullptr;
}

std::int64_t checked_message_bytes(std::int64_t elems, std::int64_t elem_bytes) {
    std::int64_t bytes = 0;
    if (!__builtin_mul_overflow(elems, elem_bytes, &bytes) && bytes <= largest_address)
        return bytes;
    throw make_error(ErrorCode::out_of_range, "a message of ", elems, " elements of ", elem_bytes,
                     " bytes has more than 2^62 bytes");
}

}  // namespace datamover
