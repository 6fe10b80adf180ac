// SPDX-License-Identifier: BSD-3-Clause
// Chunks of a pair's part that fit a small buffer.
#include "part_chunks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "datamover/advanced/axis_table.hpp"
#include "datamover/side.hpp"
#include "flat_runs.hpp"
#include "geometry/checked.hpp"
#include "part_builder.hpp"
#include "redistribution.hpp"
#include "relation/table_cursor.hpp"

namespace datamover::plan {

namespace {

/// A slice of a table: a table, and by how many positions it is to be moved.
struct AxisSlice {
    std::shared_ptr<const AxisTable> table;  ///< shared between slices that are alike; then the
                                             ///< first of them is not moved
    PerSide<std::int64_t> shift;
};

/// Collects runs until a slice is full, then hands it on.
class Slicer {
public:
    explicit Slicer(std::int64_t most_positions) : most_(most_positions) {}

    /// Cuts a table where slices end: at most a part of a block, whole blocks, a part of a block.
    void cut(const AxisTable& table) {
        for (TableCursor cursor(table); !cursor.done();) {
            const std::int64_t room = most_ - filled_;
            const std::int64_t length = std::min(cursor.left_in_block(), room);
            keep(cursor.take(length, std::min(cursor.pieces_of(length), room / length)));
        }
    }

    /// A slice that is already a table; a translate of one of the last shares its table.
    void push(AxisTable table) {
        constexpr std::size_t looked_at = 8;
        flush();
        const AxisRun first = first_run(table);
        for (std::size_t i = slices_.size(), n = 0; i-- > 0 && n < looked_at; ++n) {
            const auto& known = slices_[i].table;
            const std::int64_t source = first.source - first_run(*known).source;
            const std::int64_t destination = first.destination - first_run(*known).destination;
            if (table.shifted(-source, -destination) != *known) continue;
            slices_.push_back({known, {source, destination}});
            return;
        }
        slices_.push_back({std::make_shared<const AxisTable>(std::move(table)), {}});
    }

    void flush() {
        if (runs_.empty()) return;
        filled_ = 0;
        push(AxisTable(std::exchange(runs_, {})));
    }

    std::vector<AxisSlice> finish() {
        flush();
        return std::move(slices_);
    }

private:
    static const AxisRun& first_run(const AxisTable& table) {
        return table.periods() > 0 ? table.runs().front() : table.tail().front();
    }

    void keep(const AxisRun& run) {
        runs_.push_back(run);
        filled_ += run.length * run.count;
        if (filled_ == most_) flush();
    }

    std::int64_t most_, filled_ = 0;
    std::vector<AxisRun> runs_;
    std::vector<AxisSlice> slices_;
};

/// Slices of equally many whole periods; the last may hold fewer.
void push_periods(Slicer& slicer, const AxisTable& table, std::int64_t periods_per_slice) {
    const std::int64_t source = table.source_period(), destination = table.destination_period();
    for (std::int64_t p = 0; p < table.periods(); p += periods_per_slice)
        slicer.push(AxisTable(table.runs(), std::min(periods_per_slice, table.periods() - p),
                              source, destination)
                        .shifted(p * source, p * destination));
}

/// Cuts a table, in its order, into slices of at most `most_positions` (>= 1). Where a period fits,
/// slices are whole periods. O(runs + slices).
std::vector<AxisSlice> slices_of(const std::shared_ptr<const AxisTable>& table,
                                 std::int64_t most_positions) {
    // Equally long blocks are not cut where they fit.
    if (table->single_run() && table->runs().front().length <= most_positions)
        most_positions -= most_positions % table->runs().front().length;
    Slicer slicer(most_positions);
    const std::int64_t whole_periods =
        table->period_size() > 0 ? most_positions / table->period_size() : 0;
    if (table->size() <= most_positions) {
        slicer.push(*table);
    } else if (whole_periods > 0 && table->periods() > 1) {
        push_periods(slicer, *table, whole_periods);
        slicer.cut(AxisTable(table->tail()));
    } else {
        slicer.cut(*table);
    }
    return slicer.finish();
}

using Extents = std::vector<std::int64_t>;

/// The axis along which the source is fastest, if its memory is ordered as the message is.
std::size_t innermost_of_source(const ProductPiece& product, MessageOrder order) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < product.axes.size(); ++k) {
        const int d = product.axes[k].source_dim, b = product.axes[best].source_dim;
        // If several axes lie along one dimension, the last one is the fastest.
        if (order == MessageOrder::row_major ? d >= b : d <= b) best = k;
    }
    return best;
}

/// Cuts of about equal length, whole cache lines long where they are long.
std::int64_t even_cut(std::int64_t size, std::int64_t most) {
    constexpr std::int64_t line_elems = 16;
    if (size <= most) return size;
    const std::int64_t even = size / (size / most + 1) + 1;
    const std::int64_t lines = geometry::divide_up(even, line_elems) * line_elems;
    return lines <= most ? lines : std::min(even, most);
}

/// How many positions of each axis a chunk of a product of at most `room` elements spans.
Extents chunk_extents(const ProductPiece& product, std::int64_t room, MessageOrder order,
                      ChunkForm form) {
    Extents extents(product.axes.size(), 0);
    const auto take = [&](std::size_t axis, auto&& cut, std::int64_t most) {
        if (extents[axis] > 0) return;
        extents[axis] = cut(product.axes[axis].table->size(), most);
        room /= extents[axis];
    };
    const bool row_major = order == MessageOrder::row_major;
    std::size_t a = row_major ? extents.size() - 1 : 0, b = innermost_of_source(product, order);
    if (form == ChunkForm::tiles && a != b) {
        // A square of the two axes, or an oblong where one is short.
        if (product.axes[a].table->size() > product.axes[b].table->size()) std::swap(a, b);
        const auto edge = static_cast<std::int64_t>(std::sqrt(static_cast<double>(room)));
        take(a, even_cut, std::max<std::int64_t>(edge, 1));
        take(b, even_cut, room);
    }
    for (std::size_t k = 0; k < extents.size(); ++k)
        take(
            row_major ? extents.size() - 1 - k : k,
            [](std::int64_t size, std::int64_t most) { return std::min(size, most); }, room);
    return extents;
}

/// The longest box of at most `most` points that begins at number `first` of a box that is walked
/// with the last dimension fastest.
Region box_from(const Region& box, std::int64_t first, std::int64_t most) {
    Point lo = box.lo(), hi = lo;
    bool rows_are_whole = true;  // of all dimensions within
    for (int d = box.dims() - 1; d >= 0; --d) {
        const std::int64_t extent = box.extent(d), at = first % extent;
        const std::int64_t n = rows_are_whole ? std::min(most, extent - at) : 1;
        first /= extent;
        most /= extent;
        lo[d] += at;
        hi[d] = lo[d] + n;
        rows_are_whole = rows_are_whole && n == extent;
    }
    return {lo, hi};
}

class Cutter {
public:
    Cutter(std::int64_t most_elems, MessageOrder order, ChunkForm form)
        : most_(most_elems), order_(order), form_(form) {}

    ChunkedPart operator()(const PairPart& part) {
        for (const Piece& piece : part.pieces)
            std::visit([&](const auto& content) { gather_or_cut(content); }, piece.content);
        flush();
        return std::move(result_);
    }

private:
    void gather_or_cut(const BoxList& list) {
        if (gathered_elems_ + list.size() <= most_) {  // usual, and then no box is looked at
            gather_whole(list);
            return;
        }
        for (const PlacedBox& box : list.boxes) {
            const BoxShape& shape = list.shape_of(box);
            const std::int64_t elems = shape.size();
            if (gathered_elems_ + elems > most_) flush();
            if (elems > most_) {
                cut(product_of(box, shape));
                continue;
            }
            boxes_.add(box, shape);
            gathered_elems_ += elems;
        }
    }

    template <class Content>
    void gather_or_cut(const Content& content) {
        const std::int64_t elems = content.size();
        if (elems == 0) return;
        if (gathered_elems_ + elems > most_) flush();
        if (elems <= most_)
            gather_whole(content);
        else
            cut(content);
    }

    template <class Content>
    void gather_whole(const Content& content) {
        flush_boxes();
        gathered_.pieces.push_back({content});
        gathered_elems_ += content.size();
    }

    void flush_boxes() {
        if (!boxes_.empty()) gathered_.pieces.push_back({std::exchange(boxes_, {}).finish()});
    }

    void flush() {
        flush_boxes();
        if (gathered_.pieces.empty()) return;
        add(std::exchange(gathered_, {}));
        gathered_elems_ = 0;
    }

    /// A shape that is one chunk.
    void add(PairPart part) { result_.chunks.push_back({add_shape(std::move(part))}); }
    static PairPart only(Piece piece) {
        PairPart part;
        part.pieces.push_back(std::move(piece));
        return part;
    }

    std::size_t add_shape(PairPart part) {
        result_.shape_elems.push_back(part.size());
        result_.shapes.push_back(std::move(part));
        return result_.shapes.size() - 1;
    }

    /// All combinations of the axes' slices, in the message's order. Shapes of a piece differ only
    /// in their tables.
    void cut(const ProductPiece& product) {
        const Extents extents = chunk_extents(product, most_, order_, form_);
        std::vector<std::vector<AxisSlice>> slices;
        for (std::size_t k = 0; k < product.axes.size(); ++k)
            slices.push_back(slices_of(product.axes[k].table, extents[k]));
        std::map<std::vector<const AxisTable*>, std::size_t> shapes;
        std::vector<std::size_t> number(slices.size(), 0);
        for (bool more = true; more; more = next(number, slices)) {
            PartChunk chunk;
            std::vector<const AxisTable*> tables;
            for (std::size_t k = 0; k < slices.size(); ++k) {
                const AxisSlice& slice = slices[k][number[k]];
                const PieceAxis& axis = product.axes[k];
                tables.push_back(slice.table.get());
                for (const Side side : both_sides)
                    chunk.shift[side][axis.dim(side)] += axis.sign(side) * slice.shift[side];
            }
            const auto [shape, is_new] = shapes.try_emplace(tables, result_.shapes.size());
            if (is_new) {
                ProductPiece chosen = product;
                for (std::size_t k = 0; k < slices.size(); ++k)
                    chosen.axes[k].table = slices[k][number[k]].table;
                add_shape(only({std::move(chosen)}));
            }
            chunk.shape = shape->second;
            result_.chunks.push_back(chunk);
        }
    }

    bool next(std::vector<std::size_t>& number,
              const std::vector<std::vector<AxisSlice>>& slices) const {
        const std::size_t n = number.size();
        for (std::size_t k = 0; k < n; ++k) {
            const std::size_t axis = order_ == MessageOrder::row_major ? n - 1 - k : k;
            if (++number[axis] < slices[axis].size()) return true;
            number[axis] = 0;
        }
        return false;
    }

    /// The two walks are cut at the same numbers of points, and where either box has a corner.
    void cut(const ReshapePiece& reshape) {
        const std::int64_t elems = reshape.source.size();
        for (std::int64_t i = 0; i < elems;) {
            PairPart chunk;
            for (const std::int64_t end = std::min(elems, i + most_); i < end;) {
                ReshapePiece some = reshape;
                std::int64_t n = end - i;
                do {
                    some.source = box_from(reshape.source, i, n);
                    some.destination = box_from(reshape.destination, i, some.source.size());
                    n = some.destination.size();
                } while (some.source.size() > n);
                chunk.pieces.push_back({std::move(some)});
                i += n;
            }
            add(std::move(chunk));
        }
    }

    void cut(const IndexPiece& indices) {
        const auto elems = static_cast<std::int64_t>(indices.source.size());
        for (std::int64_t i = 0; i < elems; i += most_) {
            const std::int64_t end = std::min(elems, i + most_);
            IndexPiece some{indices,
                            {indices.source.begin() + i, indices.source.begin() + end},
                            {indices.destination.begin() + i, indices.destination.begin() + end}};
            add(only({std::move(some)}));
        }
    }

    /// At positions of the ranges.
    void cut(const RangesPiece& ranges) {
        RangesPiece some = ranges;
        some.elems = some.count = 0;
        const auto end_at = [&](std::int64_t position) {
            some.end = position;
            add(only({some}));
            some.first = position;
            some.elems = some.count = 0;
        };
        ranges.runs->for_each(ranges.first, ranges.end, [&](FlatRun run) {
            while (some.elems + run.length > most_) {
                const std::int64_t taken = most_ - some.elems;
                some.elems = most_;
                if (taken > 0) some.count += run.step == 1 ? 1 : taken;
                run.position += taken * run.step;
                run.length -= taken;
                end_at(run.position);
            }
            some.elems += run.length;
            some.count += run.unbroken();
        });
        end_at(ranges.end);
    }

    std::int64_t most_;
    MessageOrder order_;
    ChunkForm form_;
    PairPart gathered_;
    BoxListBuilder boxes_;  // the last of what is gathered
    std::int64_t gathered_elems_ = 0;
    ChunkedPart result_;
};

}  // namespace

ChunkedPart cut_into_chunks(const PairPart& part, std::int64_t most_elems, MessageOrder order,
                            ChunkForm form) {
    return Cutter(most_elems, order, form)(part);
}

std::int64_t shift_bytes(const ChunkedPart& part, const PartChunk& chunk, Side side,
                         const MemoryLayout& memory) {
    const Piece& first = part.shapes[chunk.shape].pieces.front();
    const auto* product = std::get_if<ProductPiece>(&first.content);
    const BlockMemory* b = product ? memory.find(product->block(side)) : nullptr;
    std::int64_t bytes = 0;
    for (int d = 0; b && d < b->strides_bytes.dims(); ++d)
        bytes += chunk.shift[side][d] * b->strides_bytes[d];
    return bytes;
}

// Piece length of a message that is packed and unpacked at the same time.

std::int64_t pipelined_piece_bytes(std::int64_t message_bytes, std::int64_t most_bytes,
                                   std::int64_t piece_bytes) {
    constexpr std::int64_t most_pieces = 1024;
    const std::int64_t all_bytes = piece_bytes * most_pieces;
    const std::int64_t longer = message_bytes / all_bytes + (message_bytes % all_bytes != 0);
    return std::min(
        std::max<std::int64_t>(1, std::min(longer, most_bytes / piece_bytes)) * piece_bytes,
        most_bytes);
}

// Axis order of a part that keeps the runs of a memory whole.

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
        builder.add(box, shape);
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
