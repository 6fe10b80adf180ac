// SPDX-License-Identifier: BSD-3-Clause
// Axis order of a part that keeps the runs of a memory whole.
#include "part_order.hpp"

#include <cstdlib>
#include <utility>
#include <vector>

#include "part_builder.hpp"

namespace datamover::plan {

PairPart ordered_along(const PairPart& part, const MemoryLayout& memory, Side side) {
    PairPartBuilder ordered;
    for (const PartEntry& entry : part.entries()) {
        const BlockMemory* block = memory.find(entry.block(side));
        if (!entry.is_nest() || !block) {
            ordered.add(entry, content_of(part, entry));
            continue;
        }
        std::vector<PartAxis> axes(part.axes(entry).begin(), part.axes(entry).end());
        const auto stride = [&](const PartAxis& axis) {
            return std::abs(block->strides_bytes[axis.dim[side]] * axis.step[side]);
        };
        // A few at most: each moves outwards past those that are faster.
        for (std::size_t i = 1; i < axes.size(); ++i)
            for (std::size_t k = i; k > 0 && stride(axes[k]) > stride(axes[k - 1]); --k)
                std::swap(axes[k], axes[k - 1]);
        ordered.add(entry, {axes});
    }
    return ordered.finish();
}

}  // namespace datamover::plan
