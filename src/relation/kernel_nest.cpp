// SPDX-License-Identifier: BSD-3-Clause
// Canonical nests, and their loops.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "nest_leaves.hpp"

namespace datamover {
namespace {

/// A nest whose axes stand in the order of the destination's memory, outermost first, with positive
/// destination strides, folded, and with contiguous inner axes merged into wider elements.
struct CanonicalNest : Nest {
    std::int64_t elem_bytes = 0;  ///< contiguous bytes that always move together

    /// The axis along which the source advances in the smallest steps.
    std::size_t fastest_source_axis() const {
        const auto faster = [](const NestAxis& a, const NestAxis& b) {
            return std::abs(a.stride.source) < std::abs(b.stride.source);
        };
        return static_cast<std::size_t>(axes.rend() -
                                        std::min_element(axes.rbegin(), axes.rend(), faster) - 1);
    }
};

/// Lets an axis be walked from its other end when the destination's addresses fall along it.
void turn_upwards(CanonicalNest& nest, NestAxis& axis) {
    const auto [source, destination] = axis.stride;
    if (axis.table != nullptr || destination > 0 || (destination == 0 && source >= 0)) return;
    nest.start += (axis.count - 1) * axis.stride;
    axis.stride = -1 * axis.stride;
}

void widen_element(CanonicalNest& nest) {
    while (!nest.axes.empty()) {
        const NestAxis& inner = nest.axes.back();
        if (inner.table != nullptr || inner.stride != AddressPair{nest.elem_bytes, nest.elem_bytes})
            return;
        nest.elem_bytes *= inner.count;
        nest.axes.pop_back();
    }
}

/// `widen` merges contiguous inner axes into the element; only where bytes are copied unchanged.
CanonicalNest canonical_nest(const Nest& nest, std::int64_t elem_bytes, bool widen) {
    CanonicalNest result{nest, elem_bytes};
    for (NestAxis& axis : result.axes) turn_upwards(result, axis);
    std::ranges::stable_sort(result.axes, std::greater<>(), [](const NestAxis& axis) {
        return std::pair(std::abs(axis.stride.destination), std::abs(axis.stride.source));
    });
    fold_axes(result.axes);
    if (widen) widen_element(result);
    return result;
}

/// Above this many bytes, stores of a transposition go around the caches (measured).
constexpr std::int64_t streaming_bytes = std::int64_t{3} << 19;
/// Above this many bytes, pieces of whole lines do: more than the last cache holds.
constexpr std::int64_t streaming_pieces_bytes = std::int64_t{1} << 25;
/// Rows that are packed do where they lie over so many: about what the last cache holds.
constexpr std::int64_t streaming_rows_bytes = std::int64_t{1} << 24;
/// Longer pieces are copied by the C library, which goes around the caches by itself (measured).
constexpr std::int64_t longest_streaming_piece = 2048;
/// Above this span (a second-level cache), several strided rows are gone through at once: more of
/// them are then on their way from memory (measured).
constexpr std::int64_t far_bytes = std::int64_t{1} << 21;
/// Up to here a list of element addresses is made for one period of a table.
constexpr std::int64_t most_listed_elems = 8192;
constexpr std::int64_t quick_list_elems = 256;
constexpr std::int64_t least_listed_elems = 64;
/// From so many short rows on, a loop over them beats a list of their elements (measured).
constexpr std::int64_t least_unlisted_rows = 16;
/// The same of rows of a few elements, and of rows in each of several planes (both measured).
constexpr std::int64_t least_short_rows = 8, least_rows_of_plane = 6;
/// Blocks of a table up to this length are moved element by element, in bytes; along two axes,
/// blocks shorter than this many elements are not worth a tile (both measured).
constexpr std::int64_t short_block_bytes = 32;
constexpr std::int64_t least_tile_elems = 8;

std::vector<Block> pieces_of(const std::vector<Block>& blocks, std::int64_t elem_bytes) {
    std::vector<Block> pieces;
    for (const Block& b : blocks) pieces.push_back({b.start, b.count * elem_bytes});
    return pieces;
}

template <class Leaf>
void add_step(StepList& steps, const CanonicalNest& nest, const std::vector<NestAxis>& outer,
              Leaf leaf) {
    steps.push_back(std::make_unique<NestStep<Leaf>>(nest.start, outer, std::move(leaf)));
}

std::int64_t span_bytes(const LoopShape& l) {
    const auto span = [&](Side side) {
        return l.outer.count * std::abs(l.outer.stride[side]) +
               l.inner.count * std::abs(l.inner.stride[side]);
    };
    return std::max(span(Side::source), span(Side::destination));
}

/// Whether no two elements share a line, on either side: no order of theirs then finds a line
/// again, and the one in which they lie is the best (faces of a block across its rows).
bool each_in_its_line(const LoopShape& l) {
    constexpr std::int64_t line_bytes = 64;
    return std::ranges::all_of(both_sides, [&](Side side) {
        return std::abs(l.outer.stride[side]) >= line_bytes &&
               std::abs(l.inner.stride[side]) >= line_bytes;
    });
}

/// Whether pieces fill lines of the destination, and are so many that no cache holds them.
/// `times` is how often all of them go, to other places.
bool streams(const LoopShape& l, std::int64_t times, Stores stores) {
    if (copy_loops().pieces_streaming == nullptr) return false;
    if (stores == Stores::around_caches && l.bytes >= least_streamed_piece) return true;
    return l.bytes % 64 == 0 && l.bytes <= longest_streaming_piece &&
           l.inner.stride.destination % 64 == 0 && l.outer.stride.destination % 64 == 0 &&
           l.bytes * l.inner.count * l.outer.count >= streaming_pieces_bytes / times;
}

/// Whether the rows that are packed are longer than a line and come out of so much memory, without
/// what lies between rows, that it is more than about what the last cache holds.
bool packs_much(const LoopShape& l) {
    const std::int64_t row_bytes =
        l.inner.count * std::max(std::abs(l.inner.stride.source), l.bytes);
    return l.inner.count * l.bytes >= 128 && row_bytes >= streaming_rows_bytes / l.outer.count;
}

/// Whether rows are packed from whole vectors of the source: quick enough one by one (measured).
bool is_picked(const LoopShape& l) {
    const auto [source, destination] = l.inner.stride;
    return (l.bytes == 4 || l.bytes == 8) && destination == l.bytes &&
           (source == 2 * l.bytes || source == 4 * l.bytes);
}

/// Whether rows are packed of which two elements share a line of the source. Further apart, several
/// rows at once are quicker (measured).
bool packs_near(const LoopShape& l) {
    return l.inner.stride.destination == l.bytes && std::abs(l.inner.stride.source) <= 32;
}

/// One row that is far longer than caches as four, which can then be gone through at once.
LoopShape with_long_row_cut(LoopShape l) {
    constexpr std::int64_t parts = tile_edge / 2;
    if (l.outer.count != 1 || l.inner.count % parts != 0 || span_bytes(l) < streaming_rows_bytes)
        return l;
    l.inner.count /= parts;
    l.outer = {parts, l.inner.count * l.inner.stride};
    return l;
}

/// The loop for pieces of any number of bytes at two nested strides, around which others lie.
ShapeLeaf shape_leaf(LoopShape shape, std::int64_t times = 1, Stores stores = Stores::chosen) {
    const CopyLoops& loops = copy_loops();
    const int size = size_class(shape.bytes);
    if (size >= 0 && packs_near(shape) && packs_much(shape) &&
        loops.rows_streaming[size] != nullptr)
        return {loops.rows_streaming[size], shape, "streamed rows, "};
    if (size >= 0) {
        const bool picked = is_picked(shape);
        shape = with_long_row_cut(shape);
        const std::int64_t rows = shape.outer.count;
        if (picked || span_bytes(shape) < far_bytes || shape.inner.count < 4 * tile_edge ||
            rows < tile_edge / 2 || each_in_its_line(shape))
            return {loops.strided[size], shape, "strided "};
        const bool low = shape.inner.stride.destination == shape.bytes || rows < tile_edge;
        return {low ? loops.low_tiles[size] : loops.tiles[size], shape,
                "strided rows, several at once, "};
    }
    if (streams(shape, times, stores))
        return {loops.pieces_streaming, shape, "streamed pieces of "};
    if (shape.bytes <= longest_fixed_piece)
        return {loops.fixed_pieces[shape.bytes], shape, "pieces of "};
    return {loops.long_pieces, shape, "runs of "};
}

/// Takes the innermost axis that is left into a loop, where it is plain.
void take_plain(std::vector<NestAxis>& axes, LoopAxis& loop) {
    if (axes.empty() || axes.back().table != nullptr) return;
    loop = axes.back();
    axes.pop_back();
}

/// Innermost two plain axes, in the order of the destination.
void compile_strided(const CanonicalNest& nest, Stores stores, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    LoopShape shape{nest.elem_bytes, {}, {}};
    take_plain(outer, shape.inner);
    take_plain(outer, shape.outer);
    const bool whole_lines = shape.bytes >= 64;
    if (whole_lines && shape.inner.count < 4 && shape.outer.count > shape.inner.count)
        std::swap(shape.inner, shape.outer);
    if (shape.inner.count == 2 && go_in_pairs(shape.bytes)) take_plain(outer, shape.planes);
    const std::int64_t times =
        nest.size() / (shape.inner.count * shape.outer.count * shape.planes.count);
    add_step(steps, nest, outer, shape_leaf(shape, times, stores));
}

void compile_pieces(const CanonicalNest& nest, StepList& steps) {
    const AxisLoop inner(nest.axes.back());
    add_step(steps, nest, {nest.axes.begin(), nest.axes.end() - 1},
             PiecesLeaf{pieces_of(inner.blocks, nest.elem_bytes),
                        pieces_of(inner.tail, nest.elem_bytes), inner.periods});
}

/// Lists the elements of blocks in periods [first, last).
void list_elements(const AxisLoop& axis, const std::vector<Block>& blocks, std::int64_t first,
                   std::int64_t last, AddressLists& at) {
    for (std::int64_t p = first; p < last; ++p)
        for (const Block& b : blocks)
            for (std::int64_t i = 0; i < b.count; ++i)
                for (const Side side : both_sides)
                    at[side].push_back(p * axis.periods.stride[side] + b.start[side] +
                                       i * axis.stride[side]);
}

/// Lists several periods as one, so that the loop over a list is long enough to be quick.
ElementsLeaf elements_leaf(const AxisLoop& axis, std::int64_t period_elems, int size) {
    const std::int64_t together =
        std::clamp<std::int64_t>(quick_list_elems / period_elems, 1, axis.periods.count);
    const std::int64_t repeats = axis.periods.count / together;
    ElementsLeaf leaf{copy_loops().pairs[size], {}, {}, {repeats, together * axis.periods.stride}};
    list_elements(axis, axis.blocks, 0, together, leaf.at);
    list_elements(axis, axis.blocks, repeats * together, axis.periods.count, leaf.tail);
    list_elements(axis, axis.tail, 0, 1, leaf.tail);
    return leaf;
}

/// The innermost axis is a table whose positions do not touch, or are no single elements.
void compile_listed(const CanonicalNest& nest, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    const NestAxis along = outer.back();
    outer.pop_back();
    AxisLoop blocks(along);
    const int size = size_class(nest.elem_bytes);
    if (size < 0) {
        const LoopShape shape{nest.elem_bytes, {}, {1, along.stride}};
        const std::int64_t times = blocks.longest_block() >= least_unlisted_rows ? nest.size() : 1;
        add_step(steps, nest, outer,
                 TilesLeaf{shape_leaf(shape, times), AxisLoop(), std::move(blocks)});
        return;
    }
    const std::int64_t period_elems = along.table->period_size();
    if (period_elems < 1 || period_elems > most_listed_elems)
        add_step(steps, nest, nest.axes, shape_leaf({nest.elem_bytes, {}, {}}));
    else
        add_step(steps, nest, outer, elements_leaf(blocks, period_elems, size));
}

/// The innermost axis is plain, but so short that a loop along it costs more than its elements.
void compile_short_rows(const CanonicalNest& nest, StepList& steps) {
    const int size = size_class(nest.elem_bytes);
    std::vector<NestAxis> outer = nest.axes;
    LoopShape shape{nest.elem_bytes, {}, {}};
    take_plain(outer, shape.inner);
    take_plain(outer, shape.outer);
    if (shape.outer.count >= least_rows_of_plane) take_plain(outer, shape.planes);
    if (shape.outer.count * shape.planes.count >= least_short_rows && shape.inner.count > 1) {
        add_step(steps, nest, outer,
                 ShapeLeaf{copy_loops().short_rows[size][shape.inner.count], shape, "short rows "});
        return;
    }
    AxisLoop rows(nest.axes.back());
    std::int64_t listed = nest.axes.back().count;
    outer = {nest.axes.begin(), nest.axes.end() - 1};
    while (!outer.empty() && outer.back().table == nullptr &&
           listed * rows.periods.count < least_listed_elems) {
        listed *= rows.periods.count;
        rows.absorb(outer.back());
        outer.pop_back();
    }
    add_step(steps, nest, outer, elements_leaf(rows, listed, size));
}

bool has_short_rows(const CanonicalNest& nest) {
    const std::size_t n = nest.axes.size();
    return size_class(nest.elem_bytes) >= 0 && n >= 2 && nest.axes[n - 1].table == nullptr &&
           nest.axes[n - 2].table == nullptr && nest.axes[n - 1].count <= longest_short_row;
}

/// The axes around those along which the source and the destination are fastest.
std::vector<NestAxis> around_tiles(const CanonicalNest& nest) {
    std::vector<NestAxis> outer = nest.axes;
    outer.pop_back();
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(nest.fastest_source_axis()));
    return outer;
}

/// The source is fastest along one axis, the destination along another: neither side walks them
/// together.
void compile_tiles(const CanonicalNest& nest, StepList& steps) {
    NestAxis rows = nest.axes[nest.fastest_source_axis()], along = nest.axes.back();
    const CopyLoops& loops = copy_loops();
    const int size = size_class(nest.elem_bytes);
    ShapeLeaf tile{loops.tiles[size], {}, "strided tiles "};
    if (rows.stride.source == nest.elem_bytes && along.stride.destination == nest.elem_bytes) {
        const bool streams = nest.elem_bytes * nest.size() >= streaming_bytes &&
                             loops.transpose_streaming[size] != nullptr;
        tile.loop = streams ? loops.transpose_streaming[size] : loops.transpose[size];
        tile.name = "transpose ";
        std::swap(rows, along);
    }
    tile.shape = {nest.elem_bytes, rows, along};
    add_step(steps, nest, around_tiles(nest), TilesLeaf{tile, AxisLoop(rows), AxisLoop(along)});
}

std::int64_t longest_block(const NestAxis& axis) {
    return axis.table == nullptr ? axis.count : AxisLoop(axis).longest_block();
}

bool pays_tiles(const CanonicalNest& nest) {
    if (nest.axes.empty()) return false;
    const std::size_t source_axis = nest.fastest_source_axis();
    return source_axis != nest.axes.size() - 1 &&
           longest_block(nest.axes[source_axis]) >= least_tile_elems &&
           longest_block(nest.axes.back()) >= least_tile_elems;
}

void compile_copy(const CanonicalNest& nest, Stores stores, StepList& steps) {
    if (nest.axes.empty()) return compile_strided(nest, stores, steps);
    const NestAxis& inner = nest.axes.back();
    const bool element = size_class(nest.elem_bytes) >= 0;
    const bool packed = inner.stride == AddressPair{nest.elem_bytes, nest.elem_bytes};
    if (element && pays_tiles(nest))
        compile_tiles(nest, steps);
    else if (has_short_rows(nest))
        compile_short_rows(nest, steps);
    else if (inner.table == nullptr)
        compile_strided(nest, stores, steps);
    else if (packed && (!element || longest_block(inner) * nest.elem_bytes > short_block_bytes))
        compile_pieces(nest, steps);
    else
        compile_listed(nest, steps);
}

void compile_update(const CanonicalNest& nest, const ElementMover& mover, StepList& steps) {
    if (pays_tiles(nest)) {
        const AxisLoop rows(nest.axes[nest.fastest_source_axis()]);
        add_step(steps, nest, around_tiles(nest),
                 UpdateTilesLeaf{mover, rows, AxisLoop(nest.axes.back())});
        return;
    }
    std::vector<NestAxis> outer = nest.axes;
    UpdateLeaf leaf{mover, AxisLoop()};
    if (!outer.empty()) {
        leaf.along = AxisLoop(outer.back());
        outer.pop_back();
    }
    add_step(steps, nest, outer, std::move(leaf));
}

}  // namespace

void compile_nest(const Nest& nest, const ElementMover& mover, Stores stores, StepList& steps) {
    for (const Nest& part : without_long_tables(nest)) {
        const CanonicalNest canonical =
            canonical_nest(part, mover.source_elem_bytes(), mover.copies_bytes());
        if (mover.copies_bytes())
            compile_copy(canonical, stores, steps);
        else
            compile_update(canonical, mover, steps);
    }
}

}  // namespace datamover
