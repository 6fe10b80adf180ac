// SPDX-License-Identifier: BSD-3-Clause
// Pieces of a process's blocks that a move touches, for checks and their messages.
#include "touched_pieces.hpp"

#include <array>
#include <string>

#include "geometry/make_error.hpp"

namespace datamover::plan {
namespace {

std::string named(const char* side, const Touch& touch) {
    return concat(
        side, " block ", touch.piece().block(touch.side), ", region ",
        section(*touch.array->layout, *touch.part, touch.piece(), touch.side).to_string());
}

std::string written_by(const Touch& w) {
    return concat(named("destination", w), " (from block ", w.piece().source_block, " of process ",
                  w.peer, ")");
}

}  // namespace

Region section(const Layout& layout, const PairPart& part, const PartEntry& piece, Side side) {
    std::array<Extent, max_dims> extents;
    if (piece.is_nest()) {
        extents = extents_of(part.axes(piece), side);
    } else {
        const PartRuns& runs = part.runs(piece);
        const Region* box = runs.generator->box(side_of(runs, side));
        if (!box) return layout.domain();
        for (int d = 0; d < box->dims(); ++d)
            extents[static_cast<std::size_t>(d)] = {box->lo()[d], box->hi()[d] - 1};
    }
    if (!layout.has_products()) return layout.domain();
    const auto sets = layout.axis_sets(piece.block(side));
    Point lo = layout.block_extents(piece.block(side)), hi = lo;
    for (int d = 0; d < lo.dims(); ++d) {
        const auto& [first, last] = extents[static_cast<std::size_t>(d)];
        const AxisSet& set = sets[static_cast<std::size_t>(d)];
        lo[d] = set.global(first);
        hi[d] = set.global(last) + 1;
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
