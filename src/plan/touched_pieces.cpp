// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a process's blocks that a move touches, for checks and their messages.
#include "touched_pieces.hpp"

#include <string>

#include "compile.hpp"
#include "geometry/make_error.hpp"

namespace datamover::plan {
namespace {

std::string named(const char* side, const Touch& touch) {
    return concat(side, " block ", spans_of(touch.piece, touch.side).block, ", region ",
                  section(*touch.array->layout, touch.piece, touch.side).to_string());
}

std::string written_by(const Touch& w) {
    return concat(named("destination", w), " (from block ", spans_of(w.piece, Side::source).block,
                  " of process ", w.peer, ")");
}

}  // namespace

LocalSpans spans_of(const Piece& piece, Side side) {
    LocalSpans local;
    if (const auto* product = std::get_if<ProductPiece>(&piece.content)) {
        local.block = product->block(side);
        for (const PieceAxis& axis : product->axes) {
            const Extent extent = positions_of(axis, side);
            local.spans.push_back({axis.dim(side), {extent.low, extent.high + 1}});
        }
    } else if (const auto* reshape = std::get_if<ReshapePiece>(&piece.content)) {
        local.block = reshape->block(side);
        const Region& box = reshape->box(side);
        for (int d = 0; d < box.dims(); ++d) local.spans.push_back({d, {box.lo()[d], box.hi()[d]}});
    } else if (const auto* list = std::get_if<BoxList>(&piece.content)) {
        local.block = list->boxes.front().block(side);
        for (const BoxAxis& axis : list->shape_of(list->boxes.front()).axes()) {
            const std::int64_t first = axis.start(side);
            local.spans.push_back({axis.dim(side), {first, first + axis.length}});
        }
    } else {
        if (const auto* indices = std::get_if<IndexPiece>(&piece.content))
            local.block = indices->block(side);
        else
            local.block = std::get<RangesPiece>(piece.content).block(side);
        local.whole = true;
    }
    return local;
}

Region section(const Layout& layout, const Piece& piece, Side side) {
    const LocalSpans local = spans_of(piece, side);
    if (local.whole || !layout.has_products()) return layout.domain();
    const auto sets = layout.axis_sets(local.block);
    Point lo = layout.block_extents(local.block), hi = lo;
    for (const auto& [d, span] : local.spans) {
        const AxisSet& set = sets[static_cast<std::size_t>(d)];
        lo[d] = set.global(span.lo);
        hi[d] = set.global(span.hi - 1) + 1;
    }
    return {lo, hi};
}

void refuse_second_write(std::int64_t rank, const Touch& first, const Touch& second) {
    throw make_error(ErrorCode::invalid_argument, "on process ", rank,
                     " an element is written twice: by ", written_by(first), " and by ",
                     written_by(second));
}

void refuse_read(std::int64_t rank, const Touch& reader, const Touch& writer) {
    throw make_error(ErrorCode::invalid_argument, "on process ", rank,
                     " an element is read while it is written: read by ", named("source", reader),
                     " (for process ", reader.peer, "), written by ", written_by(writer));
}

}  // namespace datamover::plan
