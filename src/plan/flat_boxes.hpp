// SPDX-License-Identifier: BSD-3-Clause
// Ranges of the flattened array as products of index sets.
//
// A range of the flattened array is part of a row, whole rows, and part of a row again, and so on
// within the rows. Ranges repeat together with the rows after their common period: what lies one
// such period of rows further along a dimension lies a fixed number of positions further in the
// block. So a few products describe all ranges where rows and ranges share a short period; else
// there are at most as many as there are pieces of rows, and those need no products
// (flat_runs.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <functional>

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

    /// The table with the set's numbers, which are its destinations, turned into positions in the
    /// block.
    AxisTable in_block(const AxisTable& table) const;
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
    void step() {
        if (++steps_ > most_steps) refuse(most_steps);
    }
    /// A row or a range is looked at that is kept nowhere.
    void row() {
        if (++rows_ > most_rows) refuse(most_rows);
    }
    void piece() {
        if (++pieces_ > most_pieces) refuse(most_pieces);
    }
    /// So many pieces are about to come: refused before they take time.
    void expect(std::int64_t pieces) const {
        if (pieces > most_pieces) refuse(most_pieces);
    }
    static constexpr std::int64_t most_steps = std::int64_t{1} << 25;
    static constexpr std::int64_t most_pieces = std::int64_t{1} << 20;
    static constexpr std::int64_t most_rows = std::int64_t{1} << 28;

private:
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

}  // namespace datamover::plan
