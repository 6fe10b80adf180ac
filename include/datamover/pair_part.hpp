// SPDX-License-Identifier: BSD-3-Clause
// The part of a plan between one pair of processes, in the local indices of their blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "datamover/axis_table.hpp"
#include "datamover/export.h"
#include "datamover/point.hpp"
#include "datamover/side.hpp"

// Declared outside of the public part, so that shared libraries do not export them.
namespace datamover::plan {
class RunGenerator;
class PairPartBuilder;
}  // namespace datamover::plan

namespace datamover DATAMOVER_PUBLIC {

/// A source block and a destination block, by their numbers in the layouts.
struct BlockPair {
    std::int64_t source_block = 0;
    std::int64_t destination_block = 0;

    std::int64_t block(Side side) const {
        return side == Side::source ? source_block : destination_block;
    }
    BlockPair exchanged() const { return {destination_block, source_block}; }
};

/// One axis of a nest: `length` local positions along a dimension of the source block, paired with
/// as many along a dimension of the destination block: `start` + k * `step` for k = 0, 1, …, or, if
/// there is a table, for the k in its order. Positions of axes along the same dimension add up.
/// Ghosts are at negative positions, or beyond the block's extents.
struct PartAxis {
    PerSide<std::int64_t> start;
    std::int64_t length = 1;
    PerSide<std::int32_t> dim;
    std::shared_ptr<const AxisTable> table;  ///< null, or of `length` pairs; shared by many axes
    PerSide<std::int64_t> step{1, 1};        ///< at least 1

    bool operator==(const PartAxis&) const = default;
};

/// Elements between two blocks that are not a product of axes, such as those of an index list or of
/// ranges that hardly repeat. A generator computes them, run by run; they are not stored.
struct PartRuns {
    std::shared_ptr<const plan::RunGenerator> generator;
    bool is_exchanged = false;  ///< the generator's source is the destination
    std::int64_t first = 0;     ///< first position of the generator that takes part
    std::int64_t end = 0;       ///< one past the last position
    std::int64_t elems = 0;
    std::int64_t count = 0;  ///< number of runs that are contiguous in both blocks, at least
};

/// One nest or one generator of runs of a part.
struct PartEntry : BlockPair {
    /// The number of the nest's shape, or -1 - the number of the generator.
    std::int64_t content = 0;

    bool is_nest() const { return content >= 0; }
};

/// All elements sent from one process to another, as a list of nests and generators of runs. Both
/// processes derive the same list from the plan: its order is the order of the message. Nests with
/// the same position in their blocks share a shape, so that the halo of many equal blocks has as
/// many shapes as a block has neighbors. A value that is never changed; plan::PairPartBuilder makes
/// it.
class PairPart {
public:
    std::int64_t size() const { return elems_; }  ///< elements
    bool empty() const { return entries_.empty(); }
    std::span<const PartEntry> entries() const { return entries_; }

    /// Return the axes of a nest, in the order of the message, outermost first: by default in order
    /// of the destination's dimensions. Without axes: one element.
    std::span<const PartAxis> axes(const PartEntry& nest) const { return shape(nest.content); }
    /// Return the generator of an entry that is not a nest.
    const PartRuns& runs(const PartEntry& entry) const {
        return runs_[static_cast<std::size_t>(-1 - entry.content)];
    }
    std::int64_t elems(const PartEntry& entry) const {
        return entry.is_nest() ? shape_at(entry.content).elems : runs(entry).elems;
    }

    std::int64_t num_shapes() const {
        return first_shape_.elems < 0 ? 0 : 1 + static_cast<std::int64_t>(further_shapes_.size());
    }
    std::span<const PartAxis> shape(std::int64_t number) const {
        const Shape& s = shape_at(number);
        return std::span(axes_).subspan(s.first_axis, s.num_axes);
    }
    /// Return the part that has only the entry with this number.
    PairPart only(std::size_t entry) const;

    /// Call visit for every element, in the order of the message (row-major), with its blocks and
    /// its local index in each. O(elements): for inspection and tests.
    using VisitElement =
        std::function<void(const BlockPair& blocks, const PerSide<Point>& local_index)>;
    void for_each_element(const VisitElement& visit) const;

private:
    friend class plan::PairPartBuilder;
    struct Shape {
        std::size_t first_axis = 0, num_axes = 0;  ///< of axes_
        std::int64_t elems = -1;
    };
    const Shape& shape_at(std::int64_t number) const {
        return number == 0 ? first_shape_ : further_shapes_[static_cast<std::size_t>(number - 1)];
    }

    std::vector<PartAxis> axes_;
    Shape first_shape_;  ///< in place, since most parts have one; none if its `elems` is -1
    std::vector<Shape> further_shapes_;
    std::vector<PartEntry> entries_;
    std::vector<PartRuns> runs_;
    std::int64_t elems_ = 0;
};

/// One peer of a process, and the elements exchanged with it.
struct PeerPart {
    std::int64_t rank = 0;
    PairPart part;
};

}  // namespace datamover
