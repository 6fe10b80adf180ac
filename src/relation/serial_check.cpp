// SPDX-License-Identifier: BSD-3-Clause
// What must hold for the words of a relation before anything is computed with them?
#include <limits>
#include <string>

#include "datamover/error.hpp"
#include "serial.hpp"

namespace datamover {
namespace {

/// Sums of a few of these still fit into 64 bits.
constexpr std::int64_t largest_address = std::numeric_limits<std::int64_t>::max() / 16;

/// The magnitude of count * stride, or a refusal.
std::int64_t require_reach(std::int64_t count, std::int64_t stride) {
    std::int64_t reach = 0;
    if (stride < -largest_address || stride > largest_address ||
        __builtin_mul_overflow(count, stride < 0 ? -stride : stride, &reach) ||
        reach > largest_address)
        refuse_serial("addresses beyond 2^59");
    return reach;
}

void require_address(std::int64_t address) {
    if (address < -largest_address || address > largest_address)
        refuse_serial("addresses beyond 2^59");
}

/// The largest magnitude of a position of a table on one side.
std::int64_t reach_of(const AxisTable& table, bool of_source) {
    std::int64_t reach = 0;
    auto add = [&](const std::vector<AxisRun>& runs, std::int64_t periods, std::int64_t period) {
        for (const AxisRun& r : runs) {
            const std::int64_t start = of_source ? r.source : r.destination;
            const std::int64_t step = of_source ? r.source_step : r.destination_step;
            require_address(start);
            std::int64_t total = start < 0 ? -start : start;
            for (const std::int64_t part :
                 {require_reach(r.count, step), require_reach(r.length, 1),
                  require_reach(periods, period)}) {
                total += part;
                require_address(total);
            }
            reach = total > reach ? total : reach;
        }
    };
    add(table.runs(), table.periods(),
        of_source ? table.source_period() : table.destination_period());
    add(table.tail(), 1, 0);
    return reach;
}

void require_side(const Nest& nest, bool of_source) {
    std::int64_t total = of_source ? nest.source : nest.destination;
    require_address(total);
    total = total < 0 ? -total : total;
    for (const NestAxis& axis : nest.axes) {
        const std::int64_t stride = of_source ? axis.source_stride : axis.destination_stride;
        const std::int64_t count =
            axis.table != nullptr ? reach_of(*axis.table, of_source) : axis.count;
        total += require_reach(count, stride);
        require_address(total);
    }
}

}  // namespace

void refuse_serial(const char* what) {
    throw Error(ErrorCode::invalid_argument,
                std::string("these bytes are not those of an address relation: ") + what);
}

void require_row(std::int64_t start, std::int64_t elems, std::int64_t step) {
    require_address(start);
    require_reach(elems, step);
}

void require_nest(const Nest& nest) {
    std::int64_t elems = 1;
    for (const NestAxis& axis : nest.axes) {
        if (axis.count < 1) refuse_serial("an axis without positions");
        if (__builtin_mul_overflow(elems, axis.count, &elems) || elems > largest_address)
            refuse_serial("more than 2^59 elements");
    }
    require_side(nest, true);
    require_side(nest, false);
}

}  // namespace datamover
