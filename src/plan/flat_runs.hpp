// SPDX-License-Identifier: BSD-3-Clause
// Runs that a block of flat ranges shares with another block, generated on demand.
//
// Where ranges and rows repeat together only after many rows, products (flat_boxes.hpp) are as many
// as the pieces of rows. Here none is kept: the runs are worked out one after the other, in the
// order of the flattened array, whenever they are gone through.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "datamover/flat_cyclic.hpp"
#include "flat_boxes.hpp"

namespace datamover::plan {

/// What the other block holds along one dimension of the flat layout's array: the indices of `set`
/// from lo to hi - 1.
struct HeldAxis {
    AxisSet set;
    std::int64_t lo = 0, hi = 0;
    int other_dim = 0;  ///< of the other block; the local index there is the set's

    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    /// The first index that is held, from `index` on, or `none`. O(1).
    std::int64_t next(std::int64_t index) const;
    /// Where the held indices at equal distances from `index` on, which is one of them, end.
    std::int64_t end_of_run(std::int64_t index) const;
    /// That distance.
    std::int64_t step() const { return set.length == 1 ? set.period : 1; }
};

/// Another block of ranges of a flattened array, and where an element of the first array lies in
/// it: at flat index first + the sum over the first array's dimensions of (index - lo) times step.
struct OtherRanges {
    AxisSet ranges;
    std::int64_t first = 0;
    std::vector<std::int64_t> steps, lo;
};

/// Elements of one row, at `position`, `position` + `step`, … in the block of ranges, that lie one
/// behind the other in the other block, along the last dimension of the array.
struct FlatRun {
    std::int64_t position = 0;
    std::int64_t length = 0;
    std::int64_t step = 1;
    const std::int64_t* other = nullptr;  ///< local index of the first in the other block

    /// How many times elements that lie side by side in both blocks.
    std::int64_t unbroken() const { return step == 1 ? 1 : length; }
};

/// A value, O(dimensions) in memory.
class FlatRuns {
public:
    using Visit = std::function<void(const FlatRun&)>;

    /// `axes`: per dimension of the flat layout's array. With `other` that block is one of ranges,
    /// and the axes only say which section takes part.
    FlatRuns(const FlatCyclic& flat, std::int64_t block, std::vector<HeldAxis> axes,
             std::optional<OtherRanges> other = {});

    /// Calls visit for the runs at the positions from `first` to `end` - 1, ascending; a run that
    /// reaches further is cut. O(runs and the rows between them), with `other` at worst O(elements
    /// of the block). `work` is counted, where given.
    void for_each(std::int64_t first, std::int64_t end, const Visit& visit,
                  FlatWork* work = nullptr) const;
    /// The dimension of the other block along which runs lie.
    int other_dim() const { return other_ ? 0 : axes_.back().other_dim; }
    /// The number of positions of the block of ranges.
    std::int64_t positions() const { return ranges_.size(); }

private:
    friend class FlatRunWalk;

    AxisSet ranges_;
    Point shape_;
    std::vector<HeldAxis> axes_;
    std::optional<OtherRanges> other_;
};

}  // namespace datamover::plan
