// SPDX-License-Identifier: BSD-3-Clause
// Chunks of a pair's part that fit a small buffer.
#include "part_chunks.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "axis_slices.hpp"
#include "datamover/side.hpp"
#include "part_builder.hpp"
#include "runs.hpp"

namespace datamover::plan {
namespace {

using Extents = std::vector<std::int64_t>;

/// How many positions of each axis a chunk of a nest spans.
class ChunkExtents {
public:
    ChunkExtents(std::span<const PartAxis> axes, std::int64_t most_elems, MessageOrder order,
                 ChunkForm form)
        : axes_(axes), order_(order), room_(most_elems) {
        extents_.assign(axes.size(), 0);
        const std::size_t inner = innermost();
        const std::size_t source_inner = innermost_of_source();
        if (form == ChunkForm::tiles && inner != source_inner) take_tile(inner, source_inner);
        for (std::size_t k = 0; k < extents_.size(); ++k)
            take(order == MessageOrder::row_major ? extents_.size() - 1 - k : k);
    }

    const Extents& extents() const { return extents_; }

private:
    std::int64_t size(std::size_t axis) const { return axes_[axis].length; }

    std::size_t innermost() const {
        return order_ == MessageOrder::row_major ? extents_.size() - 1 : 0;
    }

    /// The axis along which the source is fastest, if its memory is ordered as the message is.
    std::size_t innermost_of_source() const {
        std::size_t best = 0;
        for (std::size_t k = 1; k < extents_.size(); ++k) {
            const int d = axes_[k].dim.source, b = axes_[best].dim.source;
            // Of several axes along one dimension the last is the fastest.
            if (order_ == MessageOrder::row_major ? d >= b : d <= b) best = k;
        }
        return best;
    }

    void take(std::size_t axis) {
        if (extents_[axis] > 0) return;
        extents_[axis] = std::min(size(axis), room_);
        room_ /= extents_[axis];
    }

    /// A square of the two axes, or an oblong where one is short.
    void take_tile(std::size_t a, std::size_t b) {
        if (size(a) > size(b)) std::swap(a, b);
        const auto edge = static_cast<std::int64_t>(std::sqrt(static_cast<double>(room_)));
        extents_[a] = even_cut(size(a), std::max<std::int64_t>(edge, 1));
        room_ /= extents_[a];
        extents_[b] = even_cut(size(b), room_);
        room_ /= extents_[b];
    }

    /// Cuts of about equal length, whole cache lines long where they are long.
    static std::int64_t even_cut(std::int64_t size, std::int64_t most) {
        constexpr std::int64_t line_elems = 16;
        if (size <= most) return size;
        const std::int64_t even = size / (size / most + 1) + 1;
        const std::int64_t lines = (even + line_elems - 1) / line_elems * line_elems;
        return lines <= most ? lines : std::min(even, most);
    }

    std::span<const PartAxis> axes_;
    MessageOrder order_;
    std::int64_t room_;
    Extents extents_;
};

class Cutter {
public:
    Cutter(std::int64_t most_elems, MessageOrder order, ChunkForm form)
        : most_(most_elems), order_(order), form_(form) {}

    ChunkedPart operator()(const PairPart& part) {
        for (const PartEntry& entry : part.entries()) {
            const std::int64_t elems = part.elems(entry);
            if (gathered_.elems() + elems > most_) flush();
            if (elems <= most_)
                gathered_.add(entry, content_of(part, entry));
            else if (entry.is_nest())
                cut(entry, part.axes(entry));
            else
                cut(entry, part.runs(entry));
        }
        flush();
        return std::move(result_);
    }

private:
    void flush() {
        if (!gathered_.empty()) add(gathered_.finish());
    }

    /// A shape that is one chunk.
    void add(PairPart part) {
        result_.chunks.push_back({add_shape(std::move(part)), Point{}, Point{}});
    }

    std::size_t add_shape(PairPart part) {
        result_.shape_elems.push_back(part.size());
        result_.shapes.push_back(std::move(part));
        return result_.shapes.size() - 1;
    }

    /// All combinations of the axes' slices, in the message's order.
    void cut(const BlockPair& blocks, std::span<const PartAxis> axes) {
        const Extents extents = ChunkExtents(axes, most_, order_, form_).extents();
        std::vector<std::vector<AxisSlice>> slices;
        for (std::size_t k = 0; k < axes.size(); ++k)
            slices.push_back(slices_of(axes[k], extents[k]));
        const std::size_t first_shape = result_.shapes.size();
        std::vector<std::size_t> number(slices.size(), 0);
        for (bool more = true; more; more = next(number, slices))
            add_nest(blocks, {axes.begin(), axes.end()}, slices, number, first_shape);
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

    void add_nest(const BlockPair& blocks, std::vector<PartAxis> axes,
                  const std::vector<std::vector<AxisSlice>>& slices,
                  const std::vector<std::size_t>& number, std::size_t first_shape) {
        PartChunk chunk;
        for (const Side side : both_sides) {
            int dims = 0;
            for (const PartAxis& axis : axes) dims = std::max(dims, axis.dim[side] + 1);
            chunk.shift[side] = Point::filled(dims, 0);
        }
        for (std::size_t k = 0; k < slices.size(); ++k) {
            const AxisSlice& slice = slices[k][number[k]];
            axes[k].table = slice.table;
            axes[k].length = slice.table->size();
            for (const Side side : both_sides)
                chunk.shift[side][axes[k].dim[side]] += slice.shift[side] * axes[k].step[side];
        }
        chunk.shape = shape_of(blocks, axes, first_shape);
        result_.chunks.push_back(chunk);
    }

    /// Shapes of a nest differ only in their tables. The last few are the likely ones.
    std::size_t shape_of(const BlockPair& blocks, std::span<const PartAxis> axes,
                         std::size_t first_shape) {
        constexpr std::size_t looked_at = 16;
        for (std::size_t i = result_.shapes.size(), n = 0; i-- > first_shape && n < looked_at; ++n)
            if (std::ranges::equal(result_.shapes[i].shape(0), axes)) return i;
        PairPartBuilder shape;
        shape.add(blocks, {axes});
        return add_shape(shape.finish());
    }

    /// At positions of the generator.
    void cut(const BlockPair& blocks, const PartRuns& runs) {
        PartRuns some = runs;
        some.elems = some.count = 0;
        const auto end_at = [&](std::int64_t position) {
            some.end = position;
            PairPartBuilder chunk;
            chunk.add(blocks, {{}, &some});
            add(chunk.finish());
            some.first = position;
            some.elems = some.count = 0;
        };
        if (!runs.generator->is_regular()) {  // single elements
            while (runs.end - some.first > most_) {
                some.elems = some.count = most_;
                end_at(some.first + most_);
            }
            some.elems = some.count = runs.end - some.first;
            return end_at(runs.end);
        }
        for_each_run(runs, [&](Run run) {
            while (some.elems + run.length > most_) {
                const std::int64_t taken = most_ - some.elems;
                some.elems = most_;
                if (taken > 0) some.count += contiguous_runs({0, taken, 1, {}, run.step});
                run.position += taken * run.position_step;
                run.length -= taken;
                end_at(run.position);
            }
            some.elems += run.length;
            some.count += contiguous_runs(run);
        });
        end_at(runs.end);
    }

    std::int64_t most_;
    MessageOrder order_;
    ChunkForm form_;
    PairPartBuilder gathered_;
    ChunkedPart result_;
};

}  // namespace

ChunkedPart cut_into_chunks(const PairPart& part, std::int64_t most_elems, MessageOrder order,
                            ChunkForm form) {
    return Cutter(most_elems, order, form)(part);
}

std::int64_t shift_bytes(const ChunkedPart& part, const PartChunk& chunk, Side side,
                         const MemoryLayout& memory) {
    const Point& shift = chunk.shift[side];
    std::int64_t bytes = 0;
    if (shift.dims() == 0) return bytes;
    const PartEntry& nest = part.shapes[chunk.shape].entries().front();
    const BlockMemory* b = memory.find(nest.block(side));
    for (int d = 0; d < shift.dims(); ++d) bytes += shift[d] * b->strides_bytes[d];
    return bytes;
}

}  // namespace datamover::plan
