// SPDX-License-Identifier: BSD-3-Clause
// Iteration over the strided rows of a nest.
#pragma once

#include "encodings.hpp"

namespace datamover {

template <class Emit>
void walk_nest_from(const Nest& nest, std::size_t depth, std::int64_t source,
                    std::int64_t destination, std::int64_t source_elem,
                    std::int64_t destination_elem, Emit&& emit) {
    if (depth == nest.axes.size()) {
        emit(StridedRun{source, destination, 1, source_elem, destination_elem});
        return;
    }
    const NestAxis& axis = nest.axes[depth];
    const std::int64_t ss = axis.source_stride;
    const std::int64_t ds = axis.destination_stride;
    const bool innermost = depth + 1 == nest.axes.size();
    auto block = [&](std::int64_t s, std::int64_t d, std::int64_t n) {
        if (innermost) {
            emit(StridedRun{s, d, n, ss, ds});
            return;
        }
        for (std::int64_t i = 0; i < n; ++i)
            walk_nest_from(nest, depth + 1, s + i * ss, d + i * ds, source_elem, destination_elem,
                           emit);
    };
    if (axis.table == nullptr)
        block(source, destination, axis.count);
    else
        axis.table->for_each_block([&](std::int64_t s, std::int64_t d, std::int64_t n) {
            block(source + s * ss, destination + d * ds, n);
        });
}

/// Calls emit(const StridedRun&) for the rows of a nest, in order.
template <class Emit>
void walk_nest(const Nest& nest, std::int64_t source_elem, std::int64_t destination_elem,
               Emit&& emit) {
    walk_nest_from(nest, 0, nest.source, nest.destination, source_elem, destination_elem, emit);
}

}  // namespace datamover
