// SPDX-License-Identifier: BSD-3-Clause
// At which position does a space-filling curve pass each cell of a box?
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/targets.hpp"

namespace datamover {
namespace {

using Coordinates = std::vector<std::uint32_t>;

/// Bit b of dimension d becomes bit b·dims + (dims - 1 - d): the first dimension counts most.
std::uint64_t interleave(const Coordinates& x, int bits) {
    std::uint64_t key = 0;
    for (int b = bits - 1; b >= 0; --b)
        for (const std::uint32_t c : x) key = key << 1 | (c >> b & 1u);
    return key;
}

/// Makes interleaving give Hilbert's order: undoes, from the highest bit down, the exchanges and
/// reflections of each sub-cube, then takes the Gray code off.
/// Source: J. Skilling, Programming the Hilbert Curve, AIP Conf. Proc. 707 (2004).
void to_hilbert(Coordinates& x, int bits) {
    if (bits == 0) return;
    const std::size_t n = x.size();
    for (std::uint32_t q = 1u << (bits - 1); q > 1; q >>= 1) {
        const std::uint32_t below = q - 1;
        for (std::size_t d = 0; d < n; ++d) {
            if (x[d] & q) {
                x[0] ^= below;
            } else {
                const std::uint32_t differing = (x[0] ^ x[d]) & below;
                x[0] ^= differing;
                x[d] ^= differing;
            }
        }
    }
    for (std::size_t d = 1; d < n; ++d) x[d] ^= x[d - 1];
    std::uint32_t flips = 0;
    for (std::uint32_t q = 1u << (bits - 1); q > 1; q >>= 1)
        if (x[n - 1] & q) flips ^= q - 1;
    for (std::uint32_t& c : x) c ^= flips;
}

std::int64_t checked_total(std::span<const std::int64_t> cells) {
    std::int64_t total = 1;
    for (const std::int64_t n : cells) {
        if (n < 1)
            throw Error(ErrorCode::invalid_argument,
                        "a box of " + std::to_string(n) + " cells in a dimension is not possible");
        if (n > std::numeric_limits<std::int32_t>::max() / total)
            throw Error(ErrorCode::out_of_range, "a box has more than 2^31 cells");
        total *= n;
    }
    if (cells.empty() || cells.size() > 8)
        throw Error(ErrorCode::invalid_argument,
                    std::to_string(cells.size()) + " dimensions; a box of cells has 1 to 8");
    return total;
}

int bits_for(std::span<const std::int64_t> cells) {
    const std::int64_t most = *std::max_element(cells.begin(), cells.end());
    return std::bit_width(static_cast<std::uint64_t>(most - 1));
}

void step(Coordinates& x, std::span<const std::int64_t> cells) {
    for (std::size_t d = x.size(); d-- > 0;) {
        if (++x[d] < cells[d]) return;
        x[d] = 0;
    }
}

}  // namespace

CellOrder cell_order_from_name(const std::string& name) {
    if (name == "row_major") return CellOrder::row_major;
    if (name == "morton") return CellOrder::morton;
    if (name == "hilbert") return CellOrder::hilbert;
    throw Error(ErrorCode::invalid_argument,
                "unknown order \"" + name + "\"; known are row_major, morton, hilbert");
}

std::vector<std::int64_t> cell_positions(std::span<const std::int64_t> cells, CellOrder order) {
    const auto total = static_cast<std::size_t>(checked_total(cells));
    std::vector<std::int64_t> positions(total);
    std::iota(positions.begin(), positions.end(), 0);
    if (order == CellOrder::row_major) return positions;
    const int bits = bits_for(cells);
    if (bits * static_cast<int>(cells.size()) > 64)
        throw Error(ErrorCode::out_of_range, "the cells' curve has more than 2^64 positions");
    std::vector<std::pair<std::uint64_t, std::int64_t>> keys(total);
    Coordinates cell(cells.size(), 0);
    for (std::size_t i = 0; i < total; ++i, step(cell, cells)) {
        Coordinates x = cell;
        if (order == CellOrder::hilbert) to_hilbert(x, bits);
        keys[i] = {interleave(x, bits), static_cast<std::int64_t>(i)};
    }
    std::sort(keys.begin(), keys.end());
    for (std::size_t k = 0; k < total; ++k)
        positions[static_cast<std::size_t>(keys[k].second)] = static_cast<std::int64_t>(k);
    return positions;
}

}  // namespace datamover
