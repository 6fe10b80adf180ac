// SPDX-License-Identifier: BSD-3-Clause
// Space-filling curves over the cells of a cube.
#include "space_curve.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/targets.hpp"
#include "geometry/make_error.hpp"

namespace datamover::distribute {

/// Several levels of Hilbert's curve at once: at a state's entry plus the orthants of these levels,
/// the first counts most, stand the place in the low 8 bits, above them the next state's entry.
struct HilbertStrides {
    static constexpr int most_bits = 8;
    /// Beyond this there are too many states: up to 2 · dims! · 2^dims.
    static constexpr int most_dims = 4;

    int levels = 1, bits = 1;
    std::vector<std::uint32_t> entries;
    std::uint32_t after_zeros[most_dims] = {};  ///< entries after so many orthants 0

    explicit HilbertStrides(int dims);
    /// The table for that many dimensions, made once.
    static const HilbertStrides& of(int dims);
};

std::uint32_t HilbertState::place_of(std::uint32_t orthant, int dims) const {
    std::uint32_t place = 0, gray = inverted;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
        gray ^= (orthant >> (dims - 1 - from[d]) & 1u) ^ flipped[d];
        place = place << 1 | gray;
    }
    return place;
}

std::uint32_t HilbertState::orthant_at(std::uint32_t place, int dims) const {
    std::uint32_t orthant = 0, gray = inverted;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
        const std::uint32_t next_gray = place >> (dims - 1 - static_cast<int>(d)) & 1u;
        orthant |= (gray ^ next_gray ^ flipped[d]) << (dims - 1 - from[d]);
        gray = next_gray;
    }
    return orthant;
}

HilbertState HilbertState::within(std::uint32_t orthant, int dims) const {
    HilbertState state = *this;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
        const std::uint32_t bit = (orthant >> (dims - 1 - from[d]) & 1u) ^ flipped[d];
        state.inverted ^= static_cast<std::uint8_t>(bit);
        if (bit) {
            state.flipped[0] ^= 1;
        } else {
            std::swap(state.from[0], state.from[d]);
            std::swap(state.flipped[0], state.flipped[d]);
        }
    }
    return state;
}

HilbertStrides::HilbertStrides(int dims) {
    // All states, and how they follow each other, numbered from 0: at state · 2^dims + orthant.
    std::vector<HilbertState> states{HilbertState{}};
    std::vector<std::uint32_t> next;
    std::map<HilbertState, std::uint32_t> numbers{{states.front(), 0}};
    for (std::size_t s = 0; s < states.size(); ++s)
        for (std::uint32_t orthant = 0; orthant < 1u << dims; ++orthant) {
            const HilbertState state = states[s].within(orthant, dims);
            const auto [place, is_new] =
                numbers.emplace(state, static_cast<std::uint32_t>(states.size()));
            if (is_new) states.push_back(state);
            next.push_back(place->second);
        }
    constexpr std::size_t most_entries = std::size_t{1} << 13;
    levels = std::max(1, most_bits / dims);
    while (levels > 1 && states.size() << (levels * dims) > most_entries) --levels;
    bits = levels * dims;
    entries.resize(states.size() << bits);
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
        std::uint32_t state = i >> bits, place = 0;
        for (int level = levels - 1; level >= 0; --level) {
            const std::uint32_t orthant = i >> (level * dims) & ((1u << dims) - 1);
            place = place << dims | states[state].place_of(orthant, dims);
            state = next[(state << dims) + orthant];
        }
        entries[i] = state << bits << most_bits | place;
    }
    std::uint32_t state = 0;
    for (int zeros = 0; zeros < dims; ++zeros) {
        after_zeros[zeros] = state << bits;
        state = next[state << dims];
    }
}

const HilbertStrides& HilbertStrides::of(int dims) {
    static std::mutex mutex;
    static std::map<int, HilbertStrides> made;
    const std::lock_guard lock(mutex);
    return made.try_emplace(dims, dims).first->second;
}

SpaceCurve::SpaceCurve(CellOrder order, std::span<const std::int64_t> cells)
    : dims_(static_cast<int>(cells.size())),
      cells_(cells.begin(), cells.end()),
      is_hilbert_(order == CellOrder::hilbert) {
    const std::int64_t most = *std::ranges::max_element(cells);
    bits_ = std::bit_width(static_cast<std::uint64_t>(most - 1));
    if (place_bits() > 64)
        throw Error(ErrorCode::out_of_range, "the cells' curve has more than 2^64 positions");
    spread_.resize(spread_mask + 1);
    for (std::size_t i = 0; i < spread_.size(); ++i)
        for (int b = 0; b < spread_bits && b * dims_ < 64; ++b)
            spread_[i] |= std::uint64_t{i >> b & 1u} << (b * dims_);
    if (!is_hilbert_ || dims_ > HilbertStrides::most_dims) return;
    strides_ = &HilbertStrides::of(dims_);
    strides_taken_ = (bits_ + strides_->levels - 1) / strides_->levels;
    // Levels that are there only to make whole strides are entered so that they end in the first
    // state: after dims orthants 0 a state comes again.
    const int added = strides_taken_ * strides_->levels - bits_;
    first_entry_ = strides_->after_zeros[(dims_ - added % dims_) % dims_];
}

SpaceCurve::Cube SpaceCurve::part(const Cube& cube, int level, std::uint32_t place) const {
    std::uint32_t orthant = place;
    Cube half = cube;
    if (is_hilbert_) {
        orthant = cube.state.orthant_at(place, dims_);
        half.state = cube.state.within(orthant, dims_);
    }
    for (int d = 0; d < dims_; ++d)
        half.corner[static_cast<std::size_t>(d)] +=
            static_cast<std::int64_t>(orthant >> (dims_ - 1 - d) & 1u) << level;
    return half;
}

void SpaceCurve::follow(std::uint64_t* places, std::size_t count) const {
    if (!is_hilbert_) return;
    if (!strides_) {
        for (std::size_t i = 0; i < count; ++i) places[i] = followed(places[i]);
        return;
    }
    const int bits = strides_->bits;
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    const std::uint32_t* entries = strides_->entries.data();
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t interleaved = places[i];
        std::uint64_t place = 0;
        std::uint32_t state = first_entry_;
        for (int shift = (strides_taken_ - 1) * bits; shift >= 0; shift -= bits) {
            const std::uint32_t entry = entries[state + (interleaved >> shift & mask)];
            place = place << bits | (entry & 0xff);
            state = entry >> HilbertStrides::most_bits;
        }
        places[i] = place;
    }
}

std::uint64_t SpaceCurve::followed(std::uint64_t interleaved) const {
    HilbertState state;
    std::uint64_t place = 0;
    for (int level = bits_ - 1; level >= 0; --level) {
        const auto orthant =
            static_cast<std::uint32_t>(interleaved >> (level * dims_)) & ((1u << dims_) - 1);
        place = place << dims_ | state.place_of(orthant, dims_);
        state = state.within(orthant, dims_);
    }
    return place;
}

std::int64_t SpaceCurve::cells_in(const Cube& cube, int level) const {
    std::int64_t cells = 1;
    for (std::size_t d = 0; d < cells_.size(); ++d)
        cells *= std::clamp<std::int64_t>(cells_[d] - cube.corner[d], 0, std::int64_t{1} << level);
    return cells;
}

std::uint64_t SpaceCurve::place_of(std::int64_t position) const {
    Cube cube{};
    std::uint64_t place = 0;
    for (int level = bits_ - 1; level >= 0; --level) {
        std::uint32_t here = 0;
        Cube half = part(cube, level, here);
        for (std::int64_t cells = cells_in(half, level); position >= cells;
             cells = cells_in(half, level)) {
            position -= cells;
            half = part(cube, level, ++here);
        }
        place = place << dims_ | here;
        cube = half;
    }
    return place;
}

void SpaceCurve::number_cells(const Cube& cube, int level, std::vector<std::int64_t>& positions,
                              std::int64_t& next) const {
    if (cells_in(cube, level) == 0) return;
    if (level == 0) {
        std::int64_t cell = 0;
        for (std::size_t d = 0; d < cells_.size(); ++d) cell = cell * cells_[d] + cube.corner[d];
        positions[static_cast<std::size_t>(cell)] = next++;
        return;
    }
    for (std::uint32_t place = 0; place < 1u << dims_; ++place)
        number_cells(part(cube, level - 1, place), level - 1, positions, next);
}

std::vector<std::int64_t> SpaceCurve::positions() const {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(cell_total(cells_)));
    std::int64_t next = 0;
    number_cells({}, bits_, positions, next);
    return positions;
}

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
    const std::int64_t total = distribute::cell_total(cells);
    if (order != CellOrder::row_major) return distribute::SpaceCurve(order, cells).positions();
    std::vector<std::int64_t> positions(static_cast<std::size_t>(total));
    std::iota(positions.begin(), positions.end(), std::int64_t{0});
    return positions;
}

}  // namespace datamover
