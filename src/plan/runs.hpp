// SPDX-License-Identifier: BSD-3-Clause
// Generators of runs: elements between two blocks that are not a product of axes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "datamover/pair_part.hpp"
#include "datamover/region.hpp"
#include "relation/extent.hpp"

namespace datamover::plan {

/// Elements along one dimension of each block. They are at `position`, `position` +
/// `position_step`, … of their generator.
struct Run {
    std::int64_t position = 0;
    std::int64_t length = 0;
    std::int64_t position_step = 1;
    PerSide<const std::int64_t*> at{nullptr, nullptr};  ///< local indices of the first element
    PerSide<std::int64_t> step{1, 1};  ///< positions between adjacent elements along the dimension
};

/// Computes runs between a source block and a destination block, in order of ascending positions.
/// Immutable; shared by parts and by their chunks.
class RunGenerator {
public:
    using Visit = std::function<void(const Run&)>;

    virtual ~RunGenerator() = default;
    /// Call visit for the runs at the positions from `first` to `end` - 1; a run that reaches
    /// further is cut.
    virtual void for_each(std::int64_t first, std::int64_t end, const Visit& visit) const = 0;
    /// The dimensions of a side's block, and the one along which runs lie.
    virtual int dims(Side side) const = 0;
    virtual int dim(Side side) const { return dims(side) - 1; }
    /// Whether runs repeat at equal distances, so that nests of them are few. If not, positions are
    /// single elements.
    virtual bool is_regular() const { return true; }
    /// Whether every element has the same local index on both sides.
    virtual bool is_identity() const { return false; }
    /// The local indices that take part on a side, each once, if they are a box; else null.
    virtual const Region* box(Side) const { return nullptr; }
};

/// How many runs are contiguous in both blocks, which one run is.
inline std::int64_t contiguous_runs(const Run& run) {
    return run.step == PerSide<std::int64_t>{1, 1} ? 1 : run.length;
}

/// The runs of a part, its own sides in place of the generator's.
template <class Visit>
void for_each_run(const PartRuns& runs, Visit&& visit) {
    if (!runs.is_exchanged) {
        runs.generator->for_each(runs.first, runs.end, visit);
        return;
    }
    runs.generator->for_each(runs.first, runs.end, [&](Run run) {
        run.at = run.at.exchanged();
        run.step = run.step.exchanged();
        visit(run);
    });
}
inline Side side_of(const PartRuns& runs, Side side) {
    return runs.is_exchanged ? other(side) : side;
}

/// All of a generator that numbers its elements from 0.
inline PartRuns all_of(std::shared_ptr<const RunGenerator> generator, std::int64_t elems,
                       std::int64_t count) {
    return {std::move(generator), false, 0, elems, elems, count};
}

/// Single elements, as flat row-major indices into the blocks' extents, in any order.
class ListedRuns final : public RunGenerator {
public:
    ListedRuns(PerSide<std::vector<std::int64_t>> flat, PerSide<Point> extents)
        : flat_(std::move(flat)), extents_(std::move(extents)) {}

    void for_each(std::int64_t first, std::int64_t end, const Visit& visit) const override;
    int dims(Side side) const override { return extents_[side].dims(); }
    bool is_regular() const override { return false; }
    bool is_identity() const override { return flat_.source == flat_.destination; }

private:
    PerSide<std::vector<std::int64_t>> flat_;
    PerSide<Point> extents_;
};

/// Two boxes with the same number of points, both traversed with the last dimension fastest.
class ReshapedRuns final : public RunGenerator {
public:
    ReshapedRuns(Region source, Region destination)
        : box_{std::move(source), std::move(destination)} {}

    void for_each(std::int64_t first, std::int64_t end, const Visit& visit) const override;
    int dims(Side side) const override { return box_[side].dims(); }
    const Region* box(Side side) const override { return &box_[side]; }

private:
    PerSide<Region> box_;
};

/// The content of an entry: the axes of a nest, or, if `runs` is not null, runs.
struct PieceContent {
    std::span<const PartAxis> axes;
    const PartRuns* runs = nullptr;

    std::int64_t elems() const;
};

inline PieceContent content_of(const PairPart& part, const PartEntry& entry) {
    if (entry.is_nest()) return {part.axes(entry)};
    return {{}, &part.runs(entry)};
}

/// Receives pieces; those of a pair of blocks come in the same order from either side.
using VisitPiece = std::function<void(const BlockPair& blocks, const PieceContent& content)>;

/// Visit a piece with source and destination exchanged; its axes are put in the order of the new
/// destination's dimensions.
void visit_exchanged(const BlockPair& blocks, const PieceContent& content, const VisitPiece& visit);

/// The lowest and highest local index of a nest along each dimension of a side's block; empty for
/// dimensions without an axis. Positions of axes along one dimension add up.
std::array<Extent, max_dims> extents_of(std::span<const PartAxis> axes, Side side);

/// Whether each element goes to itself.
bool is_identity(const BlockPair& blocks, const PieceContent& content);

}  // namespace datamover::plan
