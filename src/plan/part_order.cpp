// SPDX-License-Identifier: BSD-3-Clause
// Axis order of a part that keeps the runs of a memory whole.
#include "part_order.hpp"

#include <cstdlib>
#include <span>
#include <utility>

#include "box_list_builder.hpp"

namespace datamover::plan {
namespace {

template <class Axis>
void order_axes(std::span<Axis> axes, const BlockMemory& memory, Side side) {
    const auto stride = [&](const Axis& axis) {
        return std::abs(memory.strides_bytes[axis.dim(side)]);
    };
    // A few at most: each moves outwards past those that are faster.
    for (std::size_t i = 1; i < axes.size(); ++i)
        for (std::size_t k = i; k > 0 && stride(axes[k]) > stride(axes[k - 1]); --k)
            std::swap(axes[k], axes[k - 1]);
}

BoxList ordered(const BoxList& list, const MemoryLayout& memory, Side side) {
    BoxListBuilder builder;
    for (const PlacedBox& box : list.boxes) {
        BoxShape shape = list.shape_of(box);
        if (const BlockMemory* block = memory.find(box.block(side)))
            order_axes(std::span(shape.axis).first(static_cast<std::size_t>(shape.dims)), *block,
                       side);
        builder.add(box.source_block, box.destination_block, shape);
    }
    return builder.finish();
}

}  // namespace

PairPart ordered_along(PairPart part, const MemoryLayout& memory, Side side) {
    for (Piece& piece : part.pieces) {
        if (auto* list = std::get_if<BoxList>(&piece.content)) {
            *list = ordered(*list, memory, side);
        } else if (auto* product = std::get_if<ProductPiece>(&piece.content)) {
            if (const BlockMemory* block = memory.find(product->block(side)))
                order_axes(std::span(product->axes), *block, side);
        }
    }
    return part;
}

}  // namespace datamover::plan
