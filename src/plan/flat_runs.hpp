// SPDX-License-Identifier: BSD-3-Clause
// Runs that a block of flat ranges shares with another block, generated on demand.
//
// Where ranges and rows repeat together only after many rows, products (FlatBox) are as many
// as the pieces of rows. Here none is kept: the runs are worked out one after the other, in the
// order of the flattened array, whenever they are gone through.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "datamover/advanced/pair_part.hpp"
#include "datamover/flat_cyclic.hpp"
#include "datamover/region.hpp"

namespace datamover::plan {

/// One dimension of a box of ranges: the indices of `set`, of which the k-th has its elements
/// k / group * group_step + k % group * step positions further in the block than the first.
struct FlatAxis {
    AxisSet set;
    std::int64_t group = 1;
    std::int64_t group_step = 1;
    std::int64_t step = 1;

    /// The axis of a table whose destinations are numbers of the set: in the axis, they are
    /// positions in the block, the first index at `first`. That is 0 unless group and steps are 1.
    PieceAxis in_block(const AxisTable& numbers, std::int64_t first, int source_dim) const;
};

/// The product of its axes, in the index space of the array.
struct FlatBox {
    std::array<FlatAxis, max_dims> axis;
    std::int64_t position = 0;  ///< in the block, of the first index of each axis
};

/// Counts steps of work; throws unsupported where a plan between ranges of the flattened array and
/// other blocks would take too many.
class FlatWork {
public:
    explicit FlatWork(const FlatCyclic& flat) : flat_(flat) {}
    void step() { count(steps_, most_steps); }
    /// A row or a range is looked at that is kept nowhere.
    void row() { count(rows_, most_rows); }
    void piece() { count(pieces_, most_pieces); }
    /// So many pieces are about to come: refused before they take time.
    void expect(std::int64_t pieces) const {
        if (pieces > most_pieces) refuse(most_pieces);
    }
    static constexpr std::int64_t most_steps = std::int64_t{1} << 25;
    static constexpr std::int64_t most_pieces = std::int64_t{1} << 20;
    static constexpr std::int64_t most_rows = std::int64_t{1} << 28;

private:
    void count(std::int64_t& counter, std::int64_t most) {
        if (++counter > most) refuse(most);
    }
    [[noreturn]] void refuse(std::int64_t most) const;

    const FlatCyclic& flat_;
    std::int64_t steps_ = 0, pieces_ = 0, rows_ = 0;
};

/// Of about how many boxes, and of about how many pieces of rows one behind the other, the ranges
/// of one block consist in `region`. O(dimensions); the same for all blocks.
struct FlatCounts {
    std::int64_t boxes = 0, pieces_of_rows = 0;
};
FlatCounts count_flat_boxes(const FlatCyclic& flat, const Region& region);

/// What a walk over boxes may leave out: indices of the first dimension's rows, say, that the other
/// side does not hold. `wanted(d, set)` may be true of any set, and must be where the other side
/// holds one of its indices along dimension d.
using WantedIndices = std::function<bool(int d, const AxisSet& set)>;

/// Calls visit for boxes that together hold, each once, all elements of the block that lie in
/// `region` (also some that do not), but for those that are not wanted. The boxes and their order
/// depend on nothing but layout, block and region.
void for_each_flat_box(const FlatCyclic& flat, std::int64_t block, const Region& region,
                       const WantedIndices& wanted, FlatWork& work,
                       const std::function<void(const FlatBox&)>& visit);

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
struct FlatRuns {
    using Visit = std::function<void(const FlatRun&)>;

    AxisSet ranges;              ///< of the block of ranges
    Point shape;                 ///< of the array that they are of
    std::vector<HeldAxis> axes;  ///< per dimension of that array
    /// Where that block is one of ranges; then the axes only say which section takes part.
    std::optional<OtherRanges> other{};

    /// Calls visit for the runs at the positions from `first` to `end` - 1, ascending; a run that
    /// reaches further is cut. O(runs and the rows between them), with `other` at worst O(elements
    /// of the block). `work` is counted, where given.
    void for_each(std::int64_t first, std::int64_t end, const Visit& visit,
                  FlatWork* work = nullptr) const;
    /// The dimension of the other block along which runs lie.
    int other_dim() const { return other ? 0 : axes.back().other_dim; }
};

}  // namespace datamover::plan
