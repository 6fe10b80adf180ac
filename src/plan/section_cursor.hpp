// SPDX-License-Identifier: BSD-3-Clause
// Iteration over the explicit section copies of a plan.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "plan/redistribution.hpp"
#include "relation/table_cursor.hpp"

namespace datamover::plan {

/// Stands for every rank where sections are asked for.
inline constexpr std::int64_t any_rank = -1;

/// One box of a product piece of a redistribution after the other, the last axis fastest. Nothing
/// is listed: short tables may stand for very many boxes.
class BoxWalk {
public:
    BoxWalk() = default;
    /// The term must outlive it.
    BoxWalk(const MotionPlan& plan, const Redistribution& term, const ProductPiece& product);
    bool next(SectionCopy& section);

private:
    /// One block of an axis's table after the other, in local positions that hold neighbouring
    /// indices on both sides.
    struct Axis {
        PieceAxis piece;  ///< with a table between the positions of `sets`
        PerSide<AxisSet> sets;
        TableCursor cursor;

        std::int64_t length() const;
        /// Goes to the next block, or, after the last one, to the first and returns false.
        bool next();
    };

    const Redistribution* term_ = nullptr;
    BlockPair blocks_;
    std::vector<Axis> axes_;
    bool done_ = true;
};

/// The sections of a plan (of the blocks of one source and/or destination rank) one by one, in
/// ascending order of terms. Holds the pieces of one block at a time. The plan must outlive it.
class SectionCursor {
public:
    /// Throws out_of_range for a rank outside the plan.
    SectionCursor(const MotionPlan& plan, std::int64_t source_rank = any_rank,
                  std::int64_t destination_rank = any_rank);

    /// Sets `section` to the next one and returns true, or returns false at the end. Throws
    /// unsupported where a term has no sections because a layout is an index list.
    bool next(SectionCopy& section);

private:
    void enter_term();
    void expand_next_block();
    bool wanted(const BlockPair& blocks) const;

    void keep(ProductPiece&& piece);

    const MotionPlan& plan_;
    PerSide<std::int64_t> ranks_;
    std::int64_t term_ = -1;
    /// The blocks of one side whose parts of the term are expanded, one after the other.
    Side own_ = Side::source;
    std::vector<std::int64_t> blocks_;
    std::int64_t num_blocks_ = 0, next_block_ = 0;
    bool every_block_ = false;
    std::deque<SectionCopy> sections_;
    std::deque<ProductPiece> pieces_;
    BoxWalk boxes_;
};

}  // namespace datamover::plan
