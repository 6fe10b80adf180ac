// SPDX-License-Identifier: BSD-3-Clause
// Positions of the cells of a box along a space-filling curve.
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "datamover/targets.hpp"
#include "geometry/make_error.hpp"
#include "space_curve.hpp"

namespace datamover::distribute {

std::int64_t cell_total(std::span<const std::int64_t> cells) {
    if (cells.empty() || cells.size() > SpaceCurve::most_dims)
        throw make_error(ErrorCode::invalid_argument, cells.size(),
                         " dimensions; a box of cells has 1 to 8");
    std::int64_t total = 1;
    for (const std::int64_t n : cells) {
        if (n < 1)
            throw make_error(ErrorCode::invalid_argument, "a box of ", n,
                             " cells in a dimension is not possible");
        if (n > std::numeric_limits<std::int32_t>::max() / total)
            throw Error(ErrorCode::out_of_range, "a box has more than 2^31 cells");
        total *= n;
    }
    return total;
}

}  // namespace datamover::distribute

namespace datamover {

CellOrder cell_order_from_name(const std::string& name) {
    if (name == "row_major") return CellOrder::row_major;
    if (name == "morton") return CellOrder::morton;
    if (name == "hilbert") return CellOrder::hilbert;
    throw make_error(ErrorCode::invalid_argument, "unknown order \"", name,
                     "\"; known are row_major, morton, hilbert");
}

std::vector<std::int64_t> cell_positions(std::span<const std::int64_t> cells, CellOrder order) {
    const auto total = static_cast<std::size_t>(distribute::cell_total(cells));
    std::vector<std::int64_t> positions(total);
    if (order == CellOrder::row_major) {
        std::iota(positions.begin(), positions.end(), std::int64_t{0});
        return positions;
    }
    std::int64_t position = 0;
    distribute::SpaceCurve(order, cells).visit([&](std::int64_t cell) {
        positions[static_cast<std::size_t>(cell)] = position++;
    });
    return positions;
}

}  // namespace datamover
