// SPDX-License-Identifier: BSD-3-Clause
// Target maps by cells of space.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "datamover/targets.hpp"
#include "space_curve.hpp"

namespace datamover::distribute {

/// Lookup of the range of consecutive numbers that contains a number.
class NumberRanges {
public:
    NumberRanges() = default;
    /// `starts` ascend from 0; numbers have so many bits.
    NumberRanges(std::vector<std::uint64_t> starts, int number_bits);

    std::int32_t range_of(std::uint64_t number) const {
        const std::size_t bucket = static_cast<std::size_t>(number >> bucket_shift_);
        std::int32_t low = first_[bucket], high = first_[bucket + 1];
        while (low < high) {
            const std::int32_t middle = low + (high - low + 1) / 2;
            if (starts_[static_cast<std::size_t>(middle)] <= number)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }

private:
    std::vector<std::uint64_t> starts_;
    std::vector<std::int32_t> first_;  ///< per bucket the range of its first number; one more
    int bucket_shift_ = 0;
};

/// Space cut into cells that processes own along an order.
class CellTargets {
public:
    /// Throws what TargetMap::cells does.
    CellTargets(const CellBox& box, CellOrder order, std::int64_t nprocs,
                std::span<const std::int64_t> owners);

    void evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                  std::int64_t* targets) const;

private:
    static constexpr std::size_t most_dims = SpaceCurve::most_dims;
    /// Positions handled at a time: their places stay in the first cache.
    static constexpr std::int64_t block_elems = 1024;

    void set_box(const CellBox& box);
    void deal_equally(const std::vector<std::int64_t>& cells, CellOrder order, std::int64_t total);
    /// The owner of the cell at each position of the order.
    template <class OwnerAt>
    void fill_table(const std::vector<std::int64_t>& cells, CellOrder order, std::int64_t total,
                    OwnerAt&& owner_at);
    template <bool periodic>
    double cells_from_low(double x, std::size_t d) const;
    /// Numbers of cells, in Z order where there is a curve; false where a key is not a number.
    template <class T, std::size_t fixed_dims, bool periodic>
    bool find_places(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                     std::uint64_t* places) const;
    template <class T, bool periodic>
    void mark_unknown(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                      std::int64_t* targets) const;
    template <class T, std::size_t fixed_dims, bool periodic>
    void evaluate_as(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                     std::int64_t* targets) const;
    void find_owners(const std::uint64_t* places, std::int64_t count, std::int64_t* targets) const;

    std::size_t dims_ = 0;
    std::array<double, most_dims> lo_{}, per_length_{}, count_{}, last_{};  ///< in cells
    std::array<std::uint64_t, most_dims> counts_{};
    bool periodic_ = false;

    /// Where it is set, an owner follows from the place along the curve, else from the number of
    /// the cell.
    std::optional<SpaceCurve> curve_;
    /// How it follows: by table, by ranges, or as place · nprocs / 2^place_bits.
    std::vector<std::int32_t> table_;
    std::optional<NumberRanges> ranges_;
    std::int64_t nprocs_ = 1;
    int place_bits_ = 0;
};

}  // namespace datamover::distribute
