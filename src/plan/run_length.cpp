// SPDX-License-Identifier: BSD-3-Clause
// How long are the unbroken runs of memory that a part touches?
#include "run_length.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

/// Positions along one dimension: how many, in how many unbroken runs, and how far apart.
struct Line {
    std::int64_t stride_bytes = 0;
    std::int64_t positions = 1;
    std::int64_t runs = 1;
};

std::int64_t runs_in(const std::vector<AxisRun>& runs, bool of_source) {
    std::int64_t count = 0, next = 0;
    for (const AxisRun& r : runs) {
        const std::int64_t first = of_source ? r.source : r.destination;
        const std::int64_t step = of_source ? r.source_step : r.destination_step;
        const bool continues = &r != runs.data() && first == next;
        count += (r.count > 1 && step != r.length ? r.count : 1) - (continues ? 1 : 0);
        next = first + (r.count - 1) * step + r.length;
    }
    return count;
}

Line line_of(const AxisTable& table, std::int64_t stride_bytes, bool of_source) {
    return {std::abs(stride_bytes), table.size(),
            table.periods() * runs_in(table.runs(), of_source) + runs_in(table.tail(), of_source)};
}

/// Lines are unbroken together as long as each begins where the one inside it ends.
std::int64_t run_bytes(std::vector<Line> lines, std::int64_t elem_bytes) {
    std::sort(lines.begin(), lines.end(),
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

}  // namespace

std::int64_t mean_run_bytes(const PairPart& part, const MemoryLayout& memory, bool of_source,
                            std::int64_t elem_bytes) {
    std::int64_t elems = 0, runs = 0;
    for (const Piece& piece : part.pieces) {
        const std::int64_t size = piece.size();
        const BlockMemory* block =
            memory.find(of_source ? piece.source_block : piece.destination_block);
        if (size == 0 || block == nullptr) continue;
        std::vector<Line> lines;
        if (const auto* product = std::get_if<ProductPiece>(&piece.content)) {
            for (const PieceAxis& axis : product->axes)
                lines.push_back(line_of(
                    *axis.table,
                    block->strides_bytes[of_source ? axis.source_dim : axis.destination_dim],
                    of_source));
        } else if (const auto* reshape = std::get_if<ReshapePiece>(&piece.content)) {
            const Region& box = of_source ? reshape->source : reshape->destination;
            for (int d = 0; d < box.dims(); ++d)
                lines.push_back({std::abs(block->strides_bytes[d]), box.extent(d), 1});
        }
        elems = geometry::add(elems, size);
        runs += std::max<std::int64_t>(
            1, geometry::multiply(size, elem_bytes) / run_bytes(lines, elem_bytes));
    }
    return runs == 0 ? elem_bytes
                     : std::max(elem_bytes, geometry::multiply(elems, elem_bytes) / runs);
}

bool fastest_alike(const PairPart& part, const MemoryLayout& source,
                   const MemoryLayout& destination) {
    const auto fastest = [](const ProductPiece& product, const BlockMemory& block, bool of_source) {
        const PieceAxis* best = nullptr;
        std::int64_t least = 0;
        for (const PieceAxis& axis : product.axes) {
            const std::int64_t stride =
                std::abs(block.strides_bytes[of_source ? axis.source_dim : axis.destination_dim]);
            if (axis.table->size() == 1 || (best && stride >= least)) continue;
            best = &axis;
            least = stride;
        }
        return best;
    };
    return std::all_of(part.pieces.begin(), part.pieces.end(), [&](const Piece& piece) {
        const auto* product = std::get_if<ProductPiece>(&piece.content);
        const BlockMemory* from = source.find(piece.source_block);
        const BlockMemory* to = destination.find(piece.destination_block);
        return !product ||
               (from && to && fastest(*product, *from, true) == fastest(*product, *to, false));
    });
}

}  // namespace datamover::plan
