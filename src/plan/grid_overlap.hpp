// SPDX-License-Identifier: BSD-3-Clause
// Elements shared by two processes, or ranges of processes, in a block-cyclic redistribution.
#pragma once

#include <optional>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "plan/axis_overlap.hpp"

namespace datamover::plan {

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
    void for_each_destination(const Point& source, const std::vector<Point>& destinations,
                              Visit&& visit) const {
        std::vector<std::int64_t> factors(axes_.size(), 0);
        for (std::size_t i = 0; i < destinations.size(); ++i) {
            std::int64_t product = 1;
            for (std::size_t k = 0; k < axes_.size(); ++k) {
                const int d = static_cast<int>(k);
                if (i == 0 || destinations[i][d] != destinations[i - 1][d])
                    factors[k] = axes_[k].shared(source[source_dim_[k]], destinations[i][d]);
                product *= factors[k];
            }
            if (product > 0) visit(i, product);
        }
    }
    std::int64_t source_elems(const Point& source) const;
    std::int64_t destination_elems(const Point& destination) const;
    /// Number of positions of the other side with which a position shares something.
    std::int64_t source_peers(const Point& source) const;
    std::int64_t destination_peers(const Point& destination) const;
    /// Elements from positions [source_lo, source_hi) to [destination_lo, destination_hi).
    std::int64_t elems(std::int64_t source_lo, std::int64_t source_hi, std::int64_t destination_lo,
                       std::int64_t destination_hi) const;
    /// Number of pairs of positions for each number (> 0) of elements; empty when there are more
    /// than a million different numbers.
    std::map<std::int64_t, std::int64_t> sizes() const;
    /// The bounds of those numbers, always known; 0 when nothing moves.
    std::int64_t smallest() const;
    std::int64_t largest() const;

    const BlockCyclic& source() const { return source_; }
    const BlockCyclic& destination() const { return destination_; }

private:
    struct Box {
        Point lo, hi;
    };
    static std::vector<Box> boxes(const BlockCyclic& layout, std::int64_t lo, std::int64_t hi);
    /// Of a factor of each dimension: factor(axis, the source's dimension, the destination's).
    template <class Factor>
    std::int64_t product(Factor&& factor) const {
        std::int64_t all = 1;
        for (std::size_t k = 0; k < axes_.size() && all > 0; ++k)
            all *= factor(axes_[k], source_dim_[k], static_cast<int>(k));
        return all;
    }

    BlockCyclic source_, destination_;
    std::vector<AxisOverlap> axes_;  ///< one per dimension of the destination
    std::vector<int> source_dim_;    ///< the source's dimension for each of them
};

}  // namespace datamover::plan
