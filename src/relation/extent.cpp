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

constexpr const char* too_many_elems = "more than 2^59 elements";
constexpr const char* too_far = "addresses beyond 2^62";

}  // namespace

AscentCheck ascent_of(const AxisTable& table, Side side) {
    AscentCheck ascent;
    const auto add = [&](const std::vector<AxisRun>& runs) {
        for (const AxisRun& r : runs) ascent.add(r.start(side), r.count, r.step(side), r.length);
    };
    if (table.periods() > 0 && !table.runs().empty()) {
        add(table.runs());
        if (table.periods() > 1) {
            // Each further period begins behind the one before it as the second one does.
            const std::int64_t second = table.runs().front().start(side) + table.period(side);
            ascent.ascends = ascent.ascends && second >= ascent.next;
            ascent.dense = ascent.dense && second == ascent.next;
        }
        ascent.next += (table.periods() - 1) * table.period(side);
    }
    add(table.tail());
    return ascent;
}

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
    Extent e{nest.start[side], nest.start[side]};
    for (const NestAxis& axis : nest.axes) {
        const std::int64_t stride = axis.stride[side];
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

AddressPair reach_of(const AxisTable& table) {
    AddressPair reach;
    for (const Side side : both_sides) {
        Wide all = 0;
        const auto add = [&](const std::vector<AxisRun>& runs, Wide periods) {
            for (const AxisRun& r : runs)
                all = std::max(all, length_of(1, r.start(side)) +
                                        length_of(r.count - 1, r.step(side)) + r.length - 1 +
                                        periods);
        };
        if (table.periods() > 0)
            add(table.runs(), length_of(table.periods() - 1, table.period(side)));
        add(table.tail(), 0);
        reach[side] = all > largest_address ? std::numeric_limits<std::int64_t>::max()
                                            : static_cast<std::int64_t>(all);
    }
    return reach;
}

bool row_fits(std::int64_t start, std::int64_t elems, std::int64_t step) {
    return length_of(1, start) + length_of(elems - 1, step) <= largest_address;
}

const char* excess_of(const Nest& nest, std::span<const AddressPair> reach) {
    std::int64_t elems = 1;
    for (const NestAxis& axis : nest.axes)
        if (__builtin_mul_overflow(elems, axis.count, &elems) || elems > most_elems)
            return too_many_elems;
    for (const Side side : both_sides) {
        Wide total = length_of(1, nest.start[side]);
        for (std::size_t k = 0; k < nest.axes.size() && total <= largest_address; ++k)
            total = reach[k][side] > largest_address
                        ? Wide{reach[k][side]}
                        : total + length_of(reach[k][side], nest.axes[k].stride[side]);
        if (total > largest_address) return too_far;
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
