// SPDX-License-Identifier: BSD-3-Clause
// Lengths of the contiguous runs of memory in a part.
#include "compile.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "flat_runs.hpp"
#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

/// Positions along one dimension: how many, in how many unbroken runs, and how far apart.
struct Line {
    std::int64_t stride_bytes = 0;
    std::int64_t positions = 1;
    std::int64_t runs = 1;
};

std::int64_t runs_in(const std::vector<AxisRun>& runs, Side side) {
    std::int64_t count = 0, next = 0;
    for (const AxisRun& r : runs) {
        const std::int64_t first = r.start(side);
        const std::int64_t step = r.step(side);
        const bool continues = &r != runs.data() && first == next;
        count += (r.count > 1 && step != r.length ? r.count : 1) - (continues ? 1 : 0);
        next = first + (r.count - 1) * step + r.length;
    }
    return count;
}

/// Positions of a table that all lie equally far apart: how far, else 1.
std::int64_t even_step(const AxisTable& table, Side side) {
    if (!table.single_run() || table.runs().front().length > 1) return 1;
    const AxisRun& run = table.runs().front();
    return run.count > 1 ? run.step(side) : 1;
}

/// The line along which an axis goes through the memory of a block.
Line line_of(const PieceAxis& axis, const BlockMemory& memory, Side side) {
    const AxisTable& table = *axis.table;
    const std::int64_t stride = axis.sign(side) * memory.strides_bytes[axis.dim(side)];
    if (const std::int64_t step = even_step(table, side); step != 1)
        return {std::abs(stride * step), table.size(), 1};
    return {std::abs(stride), table.size(),
            table.periods() * runs_in(table.runs(), side) + runs_in(table.tail(), side)};
}
Line line_of(const BoxAxis& axis, const BlockMemory& memory, Side side) {
    return {std::abs(memory.strides_bytes[axis.dim(side)]), axis.length, 1};
}

template <class Axes>
std::vector<Line> lines_of(const Axes& axes, const BlockMemory& memory, Side side) {
    std::vector<Line> lines;
    for (const auto& axis : axes) lines.push_back(line_of(axis, memory, side));
    return lines;
}

/// Lines are unbroken together as long as each begins where the one inside it ends.
std::int64_t run_bytes(std::vector<Line> lines, std::int64_t elem_bytes) {
    std::ranges::sort(lines,
                      [](const Line& a, const Line& b) { return a.stride_bytes < b.stride_bytes; });
    std::int64_t run = elem_bytes;
    for (const Line& line : lines) {
        if (line.positions == 1) continue;
        if (line.stride_bytes != run) break;
        run = run * line.positions / line.runs;
        if (line.runs > 1) break;
    }
    return run;
}

/// Sums up the runs of pieces.
class RunCounter {
public:
    RunCounter(const MemoryLayout& memory, Side side, std::int64_t elem_bytes)
        : memory_(memory), side_(side), elem_bytes_(elem_bytes) {}

    void add(const BoxList& list) {
        // Equal shapes in equal blocks have equally many runs.
        struct Known {
            Point strides_bytes;
            std::int64_t elems = 0, runs = 0;
        };
        std::vector<Known> known(list.shapes.size());
        for (const PlacedBox& box : list.boxes) {
            const BlockMemory* block = block_of(box);
            if (block == nullptr) continue;
            Known& k = known[static_cast<std::size_t>(box.shape)];
            if (k.runs == 0 || !(k.strides_bytes == block->strides_bytes)) {
                const BoxShape& shape = list.shape_of(box);
                k = {block->strides_bytes, shape.size(), 0};
                k.runs = runs_of(k.elems, lines_of(shape.axes(), *block, side_));
            }
            elems_ = geometry::add(elems_, k.elems);
            runs_ += k.runs;
        }
    }
    void add(const RangesPiece& ranges) {
        const BlockMemory* block = block_of(ranges);
        if (block == nullptr) return;
        const bool is_flat = ranges.flat_side == side_;
        const int d = is_flat ? 0 : ranges.runs->other_dim();
        const bool unbroken = std::abs(block->strides_bytes[d]) == elem_bytes_;
        elems_ = geometry::add(elems_, ranges.elems);
        runs_ += unbroken ? ranges.count : ranges.elems;
    }
    template <class Content>
    void add(const Content& content) {
        const BlockMemory* block = block_of(content);
        const std::int64_t size = content.size();
        if (size == 0 || block == nullptr) return;
        elems_ = geometry::add(elems_, size);
        runs_ += runs_of(size, lines(content, *block));
    }

    std::int64_t mean_bytes() const {
        return runs_ == 0 ? elem_bytes_
                          : std::max(elem_bytes_, geometry::multiply(elems_, elem_bytes_) / runs_);
    }

private:
    std::vector<Line> lines(const ProductPiece& product, const BlockMemory& block) const {
        return lines_of(product.axes, block, side_);
    }
    std::vector<Line> lines(const ReshapePiece& reshape, const BlockMemory& block) const {
        std::vector<Line> lines;
        const Region& box = reshape.box(side_);
        for (int d = 0; d < box.dims(); ++d)
            lines.push_back({std::abs(block.strides_bytes[d]), box.extent(d), 1});
        return lines;
    }
    std::vector<Line> lines(const IndexPiece&, const BlockMemory&) const { return {}; }
    template <class Blocks>
    const BlockMemory* block_of(const Blocks& b) const {
        return memory_.find(b.block(side_));
    }
    std::int64_t runs_of(std::int64_t elems, std::vector<Line> lines) const {
        return std::max<std::int64_t>(
            1, geometry::multiply(elems, elem_bytes_) / run_bytes(std::move(lines), elem_bytes_));
    }

    const MemoryLayout& memory_;
    Side side_;
    std::int64_t elem_bytes_, elems_ = 0, runs_ = 0;
};

/// The axis along which a block's memory is fastest, of those with more than one position; its
/// number, or -1.
template <class Axes>
int fastest_axis(const Axes& axes, const BlockMemory& block, Side side) {
    int best = -1, k = 0;
    std::int64_t least = 0;
    for (const auto& axis : axes) {
        const Line line = line_of(axis, block, side);
        if (line.positions != 1 && (best < 0 || line.stride_bytes < least)) {
            best = k;
            least = line.stride_bytes;
        }
        ++k;
    }
    return best;
}

}  // namespace

std::int64_t mean_run_bytes(const PairPart& part, const MemoryLayout& memory, Side side,
                            std::int64_t elem_bytes) {
    RunCounter counter(memory, side, elem_bytes);
    for (const Piece& piece : part.pieces)
        std::visit([&](const auto& content) { counter.add(content); }, piece.content);
    return counter.mean_bytes();
}

bool fastest_alike(const PairPart& part, const MemoryLayout& source,
                   const MemoryLayout& destination) {
    const auto alike = [&](const auto& blocks, const auto& axes) {
        const BlockMemory* from = source.find(blocks.source_block);
        const BlockMemory* to = destination.find(blocks.destination_block);
        return from && to &&
               fastest_axis(axes, *from, Side::source) ==
                   fastest_axis(axes, *to, Side::destination);
    };
    return std::ranges::all_of(part.pieces, [&](const Piece& piece) {
        if (const auto* product = std::get_if<ProductPiece>(&piece.content))
            return alike(*product, product->axes);
        const auto* list = std::get_if<BoxList>(&piece.content);
        return !list || std::ranges::all_of(list->boxes, [&](const PlacedBox& box) {
            return alike(box, list->shape_of(box).axes());
        });
    });
}

}  // namespace datamover::plan
