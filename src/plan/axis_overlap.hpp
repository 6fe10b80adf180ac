// SPDX-License-Identifier: BSD-3-Clause
// Numbers of indices that source and destination coordinates share, by dimension and by grid.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "geometry/checked.hpp"

namespace datamover::plan {

/// One dimension of a block-cyclic layout, counted from the lower end of the section that moves:
/// position t (0 <= t < extent) lies at coordinate ((t + lo) / block + first) mod coordinates.
struct BlockCyclicAxis {
    std::int64_t block = 1;
    std::int64_t coordinates = 1;
    std::int64_t first = 0;  ///< coordinate that has the first block
    std::int64_t lo = 0;     ///< index where the section begins

    std::int64_t coordinate_at(std::int64_t t) const {
        return ((t + lo) / block + first) % coordinates;
    }
    /// How many positions of its block lie before t, and how many behind it.
    std::int64_t before_in_block(std::int64_t t) const { return (t + lo) % block; }
    std::int64_t behind_in_block(std::int64_t t) const { return block - 1 - (t + lo) % block; }
    /// Where the block that holds t ends, or the largest integer.
    std::int64_t block_end(std::int64_t t) const {
        return geometry::bounded_add(t, behind_in_block(t) + 1);
    }
    /// The length of a round of blocks, or the largest integer.
    std::int64_t period() const { return geometry::bounded_multiply(block, coordinates); }
    /// The positions below `extent` at coordinates [begin, end). Coordinates that follow each other
    /// in the order of distribution are one set, and so are all coordinates. The sets may begin
    /// before position 0.
    std::array<AxisSet, 2> held(std::int64_t begin, std::int64_t end, std::int64_t extent) const;
};

/// What the pairs of coordinates of one dimension share. The coordinates of all dimensions together
/// give the pairs of processes: numbers of messages and their sizes are products over dimensions.
class AxisOverlap {
public:
    /// The cost follows the number of blocks within one common period where those are at most
    /// `max_walked_blocks` (10^8: about two seconds), else the number of coordinates where one side
    /// has one block each. Throws unsupported where neither holds.
    AxisOverlap(const BlockCyclicAxis& source, const BlockCyclicAxis& destination,
                std::int64_t extent, std::int64_t max_walked_blocks = 100'000'000);

    /// Positions that two coordinates share. Cost and limit are those of the next.
    std::int64_t shared(std::int64_t source, std::int64_t destination) const {
        if (below_.empty()) return shared(source, source + 1, destination, destination + 1);
        const std::int64_t row_length = axes_.destination.coordinates + 1;
        const std::int64_t* const row = &below_[to_index(source * row_length + destination)];
        return row[row_length + 1] - row[row_length] - row[1] + row[0];
    }
    /// Positions that two half-open ranges of coordinates share. O(1) for small grids, and where
    /// one range is all coordinates; otherwise cost and limit are those of intersect().
    std::int64_t shared(std::int64_t source_begin, std::int64_t source_end,
                        std::int64_t destination_begin, std::int64_t destination_end) const;
    /// Positions of the section at a coordinate of a side.
    std::int64_t elems(Side side, std::int64_t c) const {
        return side == Side::source ? shared(c, c + 1, 0, axes_.destination.coordinates)
                                    : shared(0, axes_.source.coordinates, c, c + 1);
    }
    /// Number of coordinates of the other side with which a coordinate shares something.
    std::int64_t peers(Side side, std::int64_t c) const { return peers_[side][to_index(c)]; }
    /// Number of pairs of coordinates for each number (> 0) of shared positions.
    const std::map<std::int64_t, std::int64_t>& sizes() const { return sizes_; }

private:
    static std::size_t to_index(std::int64_t i) { return static_cast<std::size_t>(i); }
    void count_by_walking(std::int64_t period);
    /// `whole` is the side that has one block each.
    void count_by_intervals(Side whole);

    PerSide<BlockCyclicAxis> axes_;
    std::int64_t extent_ = 0;
    PerSide<std::vector<std::int64_t>> peers_;
    std::map<std::int64_t, std::int64_t> sizes_;
    /// Where the grids are small: what the coordinates below one of the source and below one of the
    /// destination share, row by row.
    std::vector<std::int64_t> below_;
};

// Elements shared by two processes, or ranges of processes, in a block-cyclic redistribution.

/// The pairs of processes of one redistribution between block-cyclic layouts as a product over the
/// dimensions: nothing here is as large as the number of pairs.
class GridOverlap {
public:
    /// Empty when the plan is anything but one such redistribution of some elements, without
    /// replicas or flips.
    static std::optional<GridOverlap> of(const MotionPlan& plan);

    /// Elements that go from one grid position to another, given by their coordinates.
    std::int64_t elems(const Point& source, const Point& destination) const;
    /// Calls visit(i, elems) for those of the destinations to which something goes from `source`.
    /// Neighbours in the list that share coordinates are quick.
    template <class Visit>
    void for_each_destination(const Point& source,
                              const std::vector<std::optional<Point>>& destinations,
                              Visit&& visit) const {
        std::vector<std::int64_t> factors(axes_.size(), 0);
        Point last = Point::filled(static_cast<int>(axes_.size()), -1);
        for (std::size_t i = 0; i < destinations.size(); ++i) {
            if (!destinations[i]) continue;
            std::int64_t product = 1;
            for (std::size_t k = 0; k < axes_.size(); ++k) {
                const std::int64_t at = (*destinations[i])[static_cast<int>(k)];
                if (std::exchange(last[static_cast<int>(k)], at) != at)
                    factors[k] = axes_[k].shared(source[source_dim_[k]], at);
                product *= factors[k];
            }
            if (product > 0) visit(i, product);
        }
    }
    std::int64_t elems(Side side, const Point& position) const;
    /// Number of positions of the other side with which a position shares something.
    std::int64_t peers(Side side, const Point& position) const;
    /// Positions of a grid, from a corner to before another one.
    struct Box {
        Point lo, hi;
    };
    /// The positions of a side below one, in the order of the grid, of which there may be fewer: at
    /// most a box for each dimension.
    std::vector<Box> boxes_below(Side side, std::int64_t position) const;
    /// Elements that go from the positions in some boxes to those in others.
    std::int64_t elems(const std::vector<Box>& source, const std::vector<Box>& destination) const;
    /// Number of pairs of positions for each number (> 0) of elements; empty when there are more
    /// than a million different numbers.
    std::map<std::int64_t, std::int64_t> sizes() const;
    /// The smallest and the largest of those numbers, always known; 0 when nothing moves.
    std::pair<std::int64_t, std::int64_t> size_bounds() const;

    const BlockCyclic& layout(Side side) const { return layouts_[side]; }

private:
    /// Of a factor of each dimension: factor(axis, the dimension of each side).
    template <class Factor>
    std::int64_t product(Factor&& factor) const {
        std::int64_t all = 1;
        for (std::size_t k = 0; k < axes_.size() && all > 0; ++k)
            all *= factor(axes_[k], PerSide<int>{source_dim_[k], static_cast<int>(k)});
        return all;
    }

    PerSide<BlockCyclic> layouts_;
    std::vector<AxisOverlap> axes_;  ///< one per dimension of the destination
    std::vector<int> source_dim_;    ///< the source's dimension for each of them
};

}  // namespace datamover::plan
