// SPDX-License-Identifier: BSD-3-Clause
// Space-filling curves over the cells of a cube.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datamover/targets.hpp"

namespace datamover::distribute {

/// How many cells a box has. Throws invalid_argument (none, or not 1 to 8 dimensions), out_of_range
/// (2^31 or more).
std::int64_t cell_total(std::span<const std::int64_t> cells);

/// How Hilbert's curve passes a cube, as Skilling's algorithm leaves it after the levels above:
/// dimension d is read from dimension `from[d]`, reflected where `flipped` says so, and digits are
/// inverted where `inverted`. J. Skilling, Programming the Hilbert Curve, AIP Conf. Proc. 707
/// (2004).
struct HilbertState {
    static constexpr std::size_t most_dims = 8;
    std::array<std::uint8_t, most_dims> from{0, 1, 2, 3, 4, 5, 6, 7}, flipped{};
    std::uint8_t inverted = 0;
    auto operator<=>(const HilbertState&) const = default;

    /// The place of an orthant in the order in which the curve passes the halved cubes of this one.
    /// Bit dims - 1 - d of an orthant is its half in dimension d.
    std::uint32_t place_of(std::uint32_t orthant, int dims) const;
    /// The orthant at a place.
    std::uint32_t orthant_at(std::uint32_t place, int dims) const;
    /// How the curve passes an orthant.
    HilbertState within(std::uint32_t orthant, int dims) const;
};

struct HilbertStrides;

/// The curve through the smallest cube of 2^bits cells per dimension that holds a box of cells.
class SpaceCurve {
public:
    static constexpr std::size_t most_dims = HilbertState::most_dims;

    /// `order` is morton or hilbert. Throws out_of_range where places exceed 64 bits.
    SpaceCurve(CellOrder order, std::span<const std::int64_t> cells);

    /// log2 of the number of places along the curve.
    int place_bits() const { return dims_ * bits_; }

    /// The place in Z order, where every dimension gives its next bit in turn, of the first counts
    /// most. `fixed_dims` is the number of dimensions, or 0 where it is not known to the compiler.
    template <std::size_t fixed_dims>
    std::uint64_t interleaved(const std::uint32_t* cell) const {
        const std::size_t dims = fixed_dims > 0 ? fixed_dims : static_cast<std::size_t>(dims_);
        std::uint64_t place = 0;
        for (std::size_t d = 0; d < dims; ++d) place = place << 1 | spread_[cell[d] & spread_mask];
        for (int from = spread_bits; from < bits_; from += spread_bits) {
            std::uint64_t high = 0;
            for (std::size_t d = 0; d < dims; ++d)
                high = high << 1 | spread_[cell[d] >> from & spread_mask];
            place |= high << (static_cast<std::size_t>(from) * dims);
        }
        return place;
    }
    /// Turns places in Z order into places along this curve. Hilbert's takes several levels at a
    /// time by table in up to 4 dimensions.
    void follow(std::uint64_t* places, std::size_t count) const;

    /// The numbers along the curve of all cells of the box, which are in row-major order.
    std::vector<std::int64_t> positions() const;
    /// The place of the cell that is number `position` among those of the box along the curve.
    std::uint64_t place_of(std::int64_t position) const;

private:
    std::uint64_t followed(std::uint64_t interleaved) const;

    static constexpr int spread_bits = 11;
    static constexpr std::size_t spread_mask = (std::size_t{1} << spread_bits) - 1;

    struct Cube {
        std::array<std::int64_t, most_dims> corner{};
        HilbertState state;
    };
    /// The halved cube with edges of 2^level cells at a place in a cube.
    Cube part(const Cube& cube, int level, std::uint32_t place) const;
    /// Cells of the box in a cube with edges of 2^level cells.
    std::int64_t cells_in(const Cube& cube, int level) const;

    /// Numbers the cells in a cube with edges of 2^level cells from `next` on.
    void number_cells(const Cube& cube, int level, std::vector<std::int64_t>& positions,
                      std::int64_t& next) const;

    int dims_ = 1, bits_ = 0;
    std::vector<std::int64_t> cells_;
    std::vector<std::uint64_t> spread_;  ///< bits of a number, dims_ apart
    bool is_hilbert_ = false;
    const HilbertStrides* strides_ = nullptr;  ///< null in many dimensions
    int strides_taken_ = 0;
    std::uint32_t first_entry_ = 0;
};

}  // namespace datamover::distribute
