// SPDX-License-Identifier: BSD-3-Clause
// Which nests of a list walk the same rows of memory, so that one loop had better do both?
#include "fuse_nests.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

#include "product_builder.hpp"

namespace datamover {
namespace {

/// Every pair of nests is looked at.
constexpr std::size_t most_nests = 64;
/// Longer pieces are whole lines of memory already.
constexpr std::int64_t most_piece_bytes = 64;

/// Short pieces at regular distances.
struct Rows {
    std::size_t first_inner_axis = 0;  ///< the axes from here on are one piece
    std::int64_t piece_bytes = 0;
    std::int64_t source_stride = 0;  ///< the least distance between pieces
    std::int64_t destination_stride = 0;
};

std::optional<Rows> rows_of(const std::vector<NestAxis>& axes, std::int64_t elem_bytes) {
    Rows rows{axes.size(), elem_bytes, std::numeric_limits<std::int64_t>::max(),
              std::numeric_limits<std::int64_t>::max()};
    const auto continues = [&](const NestAxis& axis) {
        return axis.table == nullptr && axis.source_stride == rows.piece_bytes &&
               axis.destination_stride == rows.piece_bytes;
    };
    while (rows.first_inner_axis > 0 && continues(axes[rows.first_inner_axis - 1]))
        rows.piece_bytes *= axes[--rows.first_inner_axis].count;
    if (rows.first_inner_axis == 0 || rows.piece_bytes > most_piece_bytes) return std::nullopt;
    for (std::size_t k = 0; k < rows.first_inner_axis; ++k) {
        if (axes[k].table != nullptr) return std::nullopt;
        rows.source_stride = std::min(rows.source_stride, std::abs(axes[k].source_stride));
        rows.destination_stride =
            std::min(rows.destination_stride, std::abs(axes[k].destination_stride));
    }
    return rows;
}

/// Whether a second nest of the same shape, so far from the first, lies in the same rows.
bool share_rows(const Rows& rows, std::int64_t source, std::int64_t destination) {
    const auto within = [&](std::int64_t distance, std::int64_t stride) {
        return std::abs(distance) >= rows.piece_bytes && std::abs(distance) < stride;
    };
    return within(source, rows.source_stride) && within(destination, rows.destination_stride);
}

}  // namespace

std::shared_ptr<const ProductStorage> with_fused_nests(const ProductStorage& product) {
    const auto& nests = product.nests;
    if (nests.size() < 2 || nests.size() > most_nests ||
        product.source_elem_bytes != product.destination_elem_bytes)
        return nullptr;
    ProductBuilder result(product.source_elem_bytes, product.destination_elem_bytes);
    std::vector<bool> done(nests.size(), false);
    for (std::size_t i = 0; i < nests.size(); ++i) {
        if (done[i]) continue;
        Nest nest = product.nest(i);
        const auto rows = rows_of(nest.axes, product.source_elem_bytes);
        for (std::size_t k = i + 1; rows && k < nests.size(); ++k) {
            const std::int64_t source = nests[k].source - nest.source;
            const std::int64_t destination = nests[k].destination - nest.destination;
            if (done[k] || nests[k].shape != nests[i].shape ||
                !share_rows(*rows, source, destination))
                continue;
            nest.axes.insert(
                nest.axes.begin() + static_cast<std::ptrdiff_t>(rows->first_inner_axis),
                {2, source, destination, nullptr});
            done[k] = true;
            break;
        }
        result.append(nest, product.tables);
    }
    if (result.nests() == static_cast<std::int64_t>(nests.size())) return nullptr;
    return result.finish();
}

}  // namespace datamover
