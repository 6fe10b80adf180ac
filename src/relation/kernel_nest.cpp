// SPDX-License-Identifier: BSD-3-Clause
// Canonical nests, and their loops.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "axis_loop.hpp"
#include "copy_program.hpp"
#include "encodings.hpp"
#include "geometry/make_error.hpp"

namespace datamover {

/// A nest whose axes stand in the order of the destination's memory, outermost first, with positive
/// destination strides, folded, and with contiguous inner axes merged into wider elements.
struct CanonicalNest {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t elem_bytes = 0;  ///< contiguous bytes that always move together
    std::vector<NestAxis> axes;

    /// The axis along which the source (the destination) advances in the smallest steps.
    std::size_t fastest_source_axis() const;
    std::size_t fastest_destination_axis() const { return axes.size() - 1; }
};

/// `widen` merges contiguous inner axes into the element; only where bytes are copied unchanged.
CanonicalNest canonical_nest(const Nest& nest, std::int64_t elem_bytes, bool widen);

namespace {

/// Lets an axis be walked from its other end when the destination's addresses fall along it.
void turn_upwards(CanonicalNest& nest, NestAxis& axis) {
    if (axis.table != nullptr) return;
    if (axis.destination_stride > 0 || (axis.destination_stride == 0 && axis.source_stride >= 0))
        return;
    nest.source += (axis.count - 1) * axis.source_stride;
    nest.destination += (axis.count - 1) * axis.destination_stride;
    axis.source_stride = -axis.source_stride;
    axis.destination_stride = -axis.destination_stride;
}

bool outer_of(const NestAxis& a, const NestAxis& b) {
    const std::int64_t da = std::abs(a.destination_stride);
    const std::int64_t db = std::abs(b.destination_stride);
    if (da != db) return da > db;
    return std::abs(a.source_stride) > std::abs(b.source_stride);
}

void widen_element(CanonicalNest& nest) {
    while (!nest.axes.empty()) {
        const NestAxis& inner = nest.axes.back();
        if (inner.table != nullptr || inner.source_stride != nest.elem_bytes ||
            inner.destination_stride != nest.elem_bytes)
            return;
        nest.elem_bytes *= inner.count;
        nest.axes.pop_back();
    }
}

}  // namespace

std::size_t CanonicalNest::fastest_source_axis() const {
    std::size_t best = axes.size() - 1;
    for (std::size_t k = axes.size(); k-- > 0;)
        if (std::abs(axes[k].source_stride) < std::abs(axes[best].source_stride)) best = k;
    return best;
}

CanonicalNest canonical_nest(const Nest& nest, std::int64_t elem_bytes, bool widen) {
    CanonicalNest result{nest.source, nest.destination, elem_bytes, nest.axes};
    for (NestAxis& axis : result.axes) turn_upwards(result, axis);
    std::ranges::stable_sort(result.axes, outer_of);
    fold_axes(result.axes);
    if (widen) widen_element(result);
    return result;
}

namespace {

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
/// Edges of the tiles of an update: a line of the source, a row long enough for its loop.
constexpr std::int64_t update_tile_rows = 8;
constexpr std::int64_t update_tile_columns = 64;
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

/// Two plain loops around pieces of a fixed number of bytes.
struct ShapeLeaf {
    ShapeLoop loop;
    LoopShape shape;
    const char* name;

    void operator()(const char* s, char* d) const { loop(shape, s, d); }
    std::string describe() const { return concat(name, shape.bytes, " B"); }
};

/// Outer axes around a leaf: leaf(source, destination) runs at each of their positions.
template <class Leaf>
class NestStep final : public CopyStep {
public:
    NestStep(const CanonicalNest& nest, std::vector<AxisLoop> outer, Leaf leaf)
        : source_(nest.source),
          destination_(nest.destination),
          outer_(std::move(outer)),
          leaf_(std::move(leaf)) {}

    void run(const char* source, char* destination) const override {
        source += source_;
        destination += destination_;
        if (outer_.empty())
            leaf_(source, destination);
        else
            walk_axes(outer_, 0, source, destination, leaf_);
    }
    std::string describe() const override { return leaf_.describe(); }
    std::optional<LoopCall> only_call() const override {
        if constexpr (std::is_same_v<Leaf, ShapeLeaf>)
            if (outer_.empty()) return LoopCall{leaf_.loop, leaf_.shape, source_, destination_};
        return std::nullopt;
    }

private:
    std::int64_t source_;
    std::int64_t destination_;
    std::vector<AxisLoop> outer_;
    Leaf leaf_;
};

/// Short contiguous pieces listed for one period.
struct PiecesLeaf {
    std::vector<BytePiece> pieces;
    std::vector<BytePiece> tail;
    PieceList list;

    void operator()(const char* s, char* d) const {
        const PiecesLoop loop = copy_loops().pieces;
        PieceList main = list;
        main.pieces = pieces.data();
        loop(main, s, d);
        if (!tail.empty())
            loop({tail.data(), static_cast<std::int64_t>(tail.size()), 1, 0, 0}, s, d);
    }
    std::string describe() const { return concat("listed pieces, ", pieces.size(), " per period"); }
};

/// Single elements listed for one period.
struct ElementsLeaf {
    PairsLoop loop;
    std::vector<std::int64_t> source_at;
    std::vector<std::int64_t> destination_at;
    std::vector<std::int64_t> tail_source_at;
    std::vector<std::int64_t> tail_destination_at;
    std::int64_t periods;
    std::int64_t source_period;
    std::int64_t destination_period;

    void operator()(const char* s, char* d) const {
        for (std::int64_t p = 0; p < periods; ++p)
            loop(source_at.data(), destination_at.data(),
                 static_cast<std::int64_t>(source_at.size()), s + p * source_period,
                 d + p * destination_period);
        loop(tail_source_at.data(), tail_destination_at.data(),
             static_cast<std::int64_t>(tail_source_at.size()), s, d);
    }
    std::string describe() const {
        return concat("listed elements, ", source_at.size(), " per period");
    }
};

/// Two axes that neither side walks together: tiles of the blocks of one by the blocks of the
/// other.
struct TilesLeaf {
    ShapeLoop loop;
    LoopShape shape;
    AxisLoop outer;
    AxisLoop inner;
    const char* name;

    void operator()(const char* s, char* d) const {
        outer.for_each_block(s, d, [&](const char* so, char* od, std::int64_t outers) {
            inner.for_each_block(so, od, [&](const char* si, char* di, std::int64_t inners) {
                LoopShape l = shape;
                l.outer = outers;
                l.inner = inners;
                loop(l, si, di);
            });
        });
    }
    std::string describe() const { return concat(name, shape.bytes, " B"); }
};

/// Pieces along the blocks of one axis.
struct BlocksLeaf {
    ShapeLeaf row;
    AxisLoop along;

    void operator()(const char* s, char* d) const {
        along.for_each_block(s, d, [&](const char* from, char* to, std::int64_t count) {
            LoopShape l = row.shape;
            l.inner = count;
            row.loop(l, from, to);
        });
    }
    std::string describe() const { return row.describe(); }
};

std::vector<BytePiece> pieces_of(const std::vector<AxisBlock>& blocks, std::int64_t elem_bytes) {
    std::vector<BytePiece> pieces;
    for (const AxisBlock& b : blocks)
        pieces.push_back({b.source, b.destination, b.count * elem_bytes});
    return pieces;
}

std::vector<AxisLoop> loops_of(const std::vector<NestAxis>& axes) {
    std::vector<AxisLoop> loops;
    for (const NestAxis& axis : axes) loops.emplace_back(axis);
    return loops;
}

template <class Leaf>
void add_step(StepList& steps, const CanonicalNest& nest, const std::vector<NestAxis>& outer,
              Leaf leaf) {
    steps.push_back(std::make_unique<NestStep<Leaf>>(nest, loops_of(outer), std::move(leaf)));
}

std::int64_t span_bytes(const LoopShape& l) {
    const std::int64_t source =
        l.outer * std::abs(l.outer_source) + l.inner * std::abs(l.inner_source);
    const std::int64_t destination =
        l.outer * std::abs(l.outer_destination) + l.inner * std::abs(l.inner_destination);
    return std::max(source, destination);
}

/// Whether no two elements share a line, on either side: no order of theirs then finds a line
/// again, and the one in which they lie is the best (faces of a block across its rows).
bool each_in_its_line(const LoopShape& l) {
    constexpr std::int64_t line_bytes = 64;
    const std::int64_t strides[] = {l.outer_source, l.inner_source, l.outer_destination,
                                    l.inner_destination};
    return std::all_of(std::begin(strides), std::end(strides),
                       [](std::int64_t stride) { return std::abs(stride) >= line_bytes; });
}

/// Whether pieces fill lines of the destination, and are so many that no cache holds them.
/// `times` is how often all of them go, to other places.
bool streams(const LoopShape& l, std::int64_t times, Stores stores) {
    if (copy_loops().pieces_streaming == nullptr) return false;
    if (stores == Stores::around_caches && l.bytes >= least_streamed_piece) return true;
    return l.bytes % 64 == 0 && l.bytes <= longest_streaming_piece &&
           l.inner_destination % 64 == 0 && l.outer_destination % 64 == 0 &&
           l.bytes * l.inner * l.outer >= streaming_pieces_bytes / times;
}

/// Whether the rows that are packed are longer than a line and come out of so much memory, without
/// what lies between rows, that it is more than about what the last cache holds.
bool packs_much(const LoopShape& l) {
    const std::int64_t row_bytes = l.inner * std::max(std::abs(l.inner_source), l.bytes);
    return l.inner * l.bytes >= 128 && row_bytes >= streaming_rows_bytes / l.outer;
}

/// Whether rows are packed from whole vectors of the source: quick enough one by one (measured).
bool is_picked(const LoopShape& l) {
    return (l.bytes == 4 || l.bytes == 8) && l.inner_destination == l.bytes &&
           (l.inner_source == 2 * l.bytes || l.inner_source == 4 * l.bytes);
}

/// Whether rows are packed of which two elements share a line of the source. Further apart, several
/// rows at once are quicker (measured).
bool packs_near(const LoopShape& l) {
    return l.inner_destination == l.bytes && std::abs(l.inner_source) <= 32;
}

/// One row that is far longer than caches as four, which can then be gone through at once.
LoopShape with_long_row_cut(LoopShape l) {
    constexpr std::int64_t parts = tile_edge / 2;
    if (l.outer != 1 || l.inner % parts != 0 || span_bytes(l) < streaming_rows_bytes) return l;
    l.inner /= parts;
    l.outer = parts;
    l.outer_source = l.inner * l.inner_source;
    l.outer_destination = l.inner * l.inner_destination;
    return l;
}

/// The loop for pieces of any number of bytes at two nested strides, around which others lie.
ShapeLeaf shape_leaf(LoopShape shape, std::int64_t times = 1, Stores stores = Stores::chosen) {
    const CopyLoops& loops = copy_loops();
    const int size = size_class(shape.bytes);
    const bool picked = is_picked(shape);
    if (size >= 0 && packs_near(shape) && packs_much(shape) &&
        loops.rows_streaming[size] != nullptr)
        return {loops.rows_streaming[size], shape, "streamed rows, "};
    if (size >= 0) shape = with_long_row_cut(shape);
    const bool far = !picked && span_bytes(shape) >= far_bytes && shape.inner >= 4 * tile_edge &&
                     shape.outer >= tile_edge / 2 && !each_in_its_line(shape);
    if (size >= 0 && far) {
        const bool low = shape.inner_destination == shape.bytes || shape.outer < tile_edge;
        return {low ? loops.low_tiles[size] : loops.tiles[size], shape,
                "strided rows, several at once, "};
    }
    if (size >= 0) return {loops.strided[size], shape, "strided "};
    if (streams(shape, times, stores))
        return {loops.pieces_streaming, shape, "streamed pieces of "};
    if (shape.bytes <= longest_fixed_piece)
        return {loops.fixed_pieces[shape.bytes], shape, "pieces of "};
    return {loops.long_pieces, shape, "runs of "};
}

std::int64_t num_positions(const NestAxis& axis) {
    return axis.table == nullptr ? axis.count : axis.table->size();
}

/// Takes the next axis into a loop too, where that is plain.
void take_planes(LoopShape& shape, std::vector<NestAxis>& outer) {
    if (outer.empty() || outer.back().table != nullptr) return;
    shape.planes = outer.back().count;
    shape.plane_source = outer.back().source_stride;
    shape.plane_destination = outer.back().destination_stride;
    outer.pop_back();
}

/// Innermost two plain axes, in the order of the destination.
void compile_strided(const CanonicalNest& nest, Stores stores, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    LoopShape shape;
    shape.bytes = nest.elem_bytes;
    if (!outer.empty()) {
        shape.inner = outer.back().count;
        shape.inner_source = outer.back().source_stride;
        shape.inner_destination = outer.back().destination_stride;
        outer.pop_back();
    }
    if (!outer.empty() && outer.back().table == nullptr) {
        shape.outer = outer.back().count;
        shape.outer_source = outer.back().source_stride;
        shape.outer_destination = outer.back().destination_stride;
        outer.pop_back();
    }
    const bool whole_lines = shape.bytes >= 64;
    if (whole_lines && shape.inner < 4 && shape.outer > shape.inner) {
        std::swap(shape.inner, shape.outer);
        std::swap(shape.inner_source, shape.outer_source);
        std::swap(shape.inner_destination, shape.outer_destination);
    }
    if (shape.inner == 2 && go_in_pairs(shape.bytes)) take_planes(shape, outer);
    std::int64_t times = 1;
    for (const NestAxis& axis : outer) times *= num_positions(axis);
    add_step(steps, nest, outer, shape_leaf(shape, times, stores));
}

void compile_pieces(const CanonicalNest& nest, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    outer.pop_back();
    const AxisLoop inner(nest.axes.back());
    PiecesLeaf leaf{pieces_of(inner.blocks, nest.elem_bytes),
                    pieces_of(inner.tail, nest.elem_bytes),
                    {nullptr, static_cast<std::int64_t>(inner.blocks.size()), inner.periods,
                     inner.source_period, inner.destination_period}};
    add_step(steps, nest, outer, std::move(leaf));
}

/// Lists the elements of blocks in periods [first, last).
void list_elements(const AxisLoop& axis, const std::vector<AxisBlock>& blocks, std::int64_t first,
                   std::int64_t last, std::vector<std::int64_t>& source_at,
                   std::vector<std::int64_t>& destination_at) {
    for (std::int64_t p = first; p < last; ++p)
        for (const AxisBlock& b : blocks)
            for (std::int64_t i = 0; i < b.count; ++i) {
                source_at.push_back(p * axis.source_period + b.source + i * axis.source_stride);
                destination_at.push_back(p * axis.destination_period + b.destination +
                                         i * axis.destination_stride);
            }
}

/// Lists several periods as one, so that the loop over a list is long enough to be quick.
ElementsLeaf elements_leaf(const AxisLoop& axis, std::int64_t period_elems, int size) {
    const std::int64_t together =
        std::clamp<std::int64_t>(quick_list_elems / period_elems, 1, axis.periods);
    const std::int64_t repeats = axis.periods / together;
    ElementsLeaf leaf{
        copy_loops().pairs[size],          {}, {}, {}, {}, repeats, together * axis.source_period,
        together * axis.destination_period};
    list_elements(axis, axis.blocks, 0, together, leaf.source_at, leaf.destination_at);
    list_elements(axis, axis.blocks, repeats * together, axis.periods, leaf.tail_source_at,
                  leaf.tail_destination_at);
    list_elements(axis, axis.tail, 0, 1, leaf.tail_source_at, leaf.tail_destination_at);
    return leaf;
}

/// The innermost axis is a table of pieces that are no single elements.
void compile_blocks(const CanonicalNest& nest, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    const NestAxis along = outer.back();
    outer.pop_back();
    LoopShape shape;
    shape.bytes = nest.elem_bytes;
    shape.inner_source = along.source_stride;
    shape.inner_destination = along.destination_stride;
    AxisLoop blocks(along);
    std::int64_t times = 1;
    if (blocks.longest_block() >= least_unlisted_rows)
        for (const NestAxis& axis : nest.axes) times *= num_positions(axis);
    add_step(steps, nest, outer, BlocksLeaf{shape_leaf(shape, times), std::move(blocks)});
}

/// The innermost axis is a table whose positions do not touch.
void compile_listed(const CanonicalNest& nest, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    const int size = size_class(nest.elem_bytes);
    if (size < 0) {
        compile_blocks(nest, steps);
        return;
    }
    const std::int64_t period_elems = nest.axes.back().table->period_size();
    if (period_elems < 1 || period_elems > most_listed_elems) {
        add_step(steps, nest, outer, shape_leaf({nest.elem_bytes}));
        return;
    }
    outer.pop_back();
    const AxisLoop inner(nest.axes.back());
    add_step(steps, nest, outer, elements_leaf(inner, period_elems, size));
}

/// The innermost axis is plain, but so short that a loop along it costs more than its elements.
void compile_short_rows(const CanonicalNest& nest, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    const NestAxis along = outer.back(), across = outer[outer.size() - 2];
    const bool has_planes = outer.size() > 2 && outer[outer.size() - 3].table == nullptr;
    const bool in_planes = has_planes && across.count >= least_rows_of_plane;
    const std::int64_t planes = in_planes ? outer[outer.size() - 3].count : 1;
    if (across.count * planes >= least_short_rows && along.count > 1) {
        outer.resize(outer.size() - 2);
        LoopShape shape{nest.elem_bytes,           across.count, across.source_stride,
                        across.destination_stride, along.count,  along.source_stride,
                        along.destination_stride};
        if (in_planes) take_planes(shape, outer);
        add_step(
            steps, nest, outer,
            ShapeLeaf{copy_loops().short_rows[size_class(nest.elem_bytes)], shape, "short rows "});
        return;
    }
    AxisLoop rows(outer.back());
    std::int64_t listed = outer.back().count;
    outer.pop_back();
    while (!outer.empty() && outer.back().table == nullptr &&
           listed * rows.periods < least_listed_elems) {
        listed *= rows.periods;
        rows.absorb(outer.back());
        outer.pop_back();
    }
    add_step(steps, nest, outer, elements_leaf(rows, listed, size_class(nest.elem_bytes)));
}

bool has_short_rows(const CanonicalNest& nest) {
    const std::size_t n = nest.axes.size();
    return size_class(nest.elem_bytes) >= 0 && n >= 2 && nest.axes[n - 1].table == nullptr &&
           nest.axes[n - 2].table == nullptr && nest.axes[n - 1].count <= longest_short_row;
}

/// The source is fastest along one axis, the destination along another.
void compile_tiles(const CanonicalNest& nest, std::size_t source_axis, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    const NestAxis along_source = outer[source_axis];
    const NestAxis along_destination = outer.back();
    outer.pop_back();
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(source_axis));
    const CopyLoops& loops = copy_loops();
    const int size = size_class(nest.elem_bytes);
    const bool square = along_source.source_stride == nest.elem_bytes &&
                        along_destination.destination_stride == nest.elem_bytes;
    std::int64_t total = nest.elem_bytes;
    for (const NestAxis& axis : nest.axes) total *= axis.count;
    if (square) {
        const bool streams = total >= streaming_bytes && loops.transpose_streaming[size] != nullptr;
        LoopShape shape{nest.elem_bytes,
                        1,
                        along_destination.source_stride,
                        nest.elem_bytes,
                        1,
                        nest.elem_bytes,
                        along_source.destination_stride};
        add_step(steps, nest, outer,
                 TilesLeaf{streams ? loops.transpose_streaming[size] : loops.transpose[size], shape,
                           AxisLoop(along_destination), AxisLoop(along_source), "transpose "});
        return;
    }
    LoopShape shape{nest.elem_bytes,
                    1,
                    along_source.source_stride,
                    along_source.destination_stride,
                    1,
                    along_destination.source_stride,
                    along_destination.destination_stride};
    add_step(steps, nest, outer,
             TilesLeaf{loops.tiles[size], shape, AxisLoop(along_source),
                       AxisLoop(along_destination), "strided tiles "});
}

std::int64_t longest_block(const NestAxis& axis) {
    return axis.table == nullptr ? axis.count : AxisLoop(axis).longest_block();
}

bool pays_tiles(const CanonicalNest& nest) {
    if (nest.axes.empty()) return false;
    const std::size_t source_axis = nest.fastest_source_axis();
    return source_axis != nest.fastest_destination_axis() &&
           longest_block(nest.axes[source_axis]) >= least_tile_elems &&
           longest_block(nest.axes.back()) >= least_tile_elems;
}

void compile_copy(const CanonicalNest& nest, Stores stores, StepList& steps) {
    if (nest.axes.empty()) {
        compile_strided(nest, stores, steps);
        return;
    }
    const NestAxis& inner = nest.axes.back();
    const std::size_t source_axis = nest.fastest_source_axis();
    const bool element = size_class(nest.elem_bytes) >= 0;
    const bool packed =
        inner.source_stride == nest.elem_bytes && inner.destination_stride == nest.elem_bytes;
    if (element && pays_tiles(nest))
        compile_tiles(nest, source_axis, steps);
    else if (has_short_rows(nest))
        compile_short_rows(nest, steps);
    else if (inner.table == nullptr)
        compile_strided(nest, stores, steps);
    else if (packed && (!element || longest_block(inner) * nest.elem_bytes > short_block_bytes))
        compile_pieces(nest, steps);
    else
        compile_listed(nest, steps);
}

/// Rows of elements that are updated, the destination's fastest axis innermost.
struct UpdateLeaf {
    ElementMover mover;
    std::optional<AxisLoop> inner;

    void operator()(const char* s, char* d) const {
        if (!inner) {
            mover.update(s, 0, d, 0, 1);
            return;
        }
        inner->for_each_block(s, d, [&](const char* si, char* di, std::int64_t n) {
            mover.update(si, inner->source_stride, di, inner->destination_stride, n);
        });
    }
    std::string describe() const { return mover.describe(); }
};

/// Updates along two axes that neither side walks together, tile by tile.
struct UpdateTilesLeaf {
    ElementMover mover;
    AxisLoop along_source;
    AxisLoop along_destination;

    void operator()(const char* s, char* d) const {
        along_source.for_each_block(s, d, [&](const char* so, char* od, std::int64_t rows) {
            along_destination.for_each_block(
                so, od, [&](const char* si, char* di, std::int64_t columns) {
                    for (std::int64_t c = 0; c < columns; c += update_tile_columns)
                        for (std::int64_t r = 0; r < rows; r += update_tile_rows)
                            tile(si, di, r, std::min(rows, r + update_tile_rows), c,
                                 std::min(columns - c, update_tile_columns));
                });
        });
    }
    std::string describe() const { return "tiles, " + mover.describe(); }

private:
    void tile(const char* s, char* d, std::int64_t first_row, std::int64_t last_row,
              std::int64_t column, std::int64_t n) const {
        s += column * along_destination.source_stride;
        d += column * along_destination.destination_stride;
        for (std::int64_t r = first_row; r < last_row; ++r)
            mover.update(s + r * along_source.source_stride, along_destination.source_stride,
                         d + r * along_source.destination_stride,
                         along_destination.destination_stride, n);
    }
};

void compile_update(const CanonicalNest& nest, const ElementMover& mover, StepList& steps) {
    std::vector<NestAxis> outer = nest.axes;
    if (pays_tiles(nest)) {
        const std::size_t source_axis = nest.fastest_source_axis();
        UpdateTilesLeaf tiles{mover, AxisLoop(outer[source_axis]), AxisLoop(outer.back())};
        outer.pop_back();
        outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(source_axis));
        add_step(steps, nest, outer, std::move(tiles));
        return;
    }
    UpdateLeaf leaf{mover, std::nullopt};
    if (!outer.empty()) {
        leaf.inner.emplace(outer.back());
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
