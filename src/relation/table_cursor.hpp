// SPDX-License-Identifier: BSD-3-Clause
// Walk over the blocks of an axis table, of which pieces may be taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datamover/advanced/axis_table.hpp"

namespace datamover {

/// Takes the pairs of a table in order: several blocks at once, one, or a part of one. The table
/// must outlive it.
class TableCursor {
public:
    explicit TableCursor(const AxisTable& table)
        : table_(&table), in_tail_(table.periods() == 0 || table.runs().empty()) {}

    bool done() const { return in_tail_ && run_ == table_->tail().size(); }
    /// The position of the next pair on a side.
    std::int64_t position(Side side) const {
        return run().start(side) + block_ * run().step(side) + within_ +
               (in_tail_ ? 0 : period_ * table_->period(side));
    }
    std::int64_t left_in_block() const { return run().length - within_; }
    /// How many pieces of `length` positions, at most left_in_block(), come next at equal
    /// distances.
    std::int64_t pieces_of(std::int64_t length) const {
        return is_block(length) ? run().count - block_ : left_in_block() / length;
    }
    /// Takes `count` of them.
    AxisRun take(std::int64_t length, std::int64_t count) {
        const bool blocks = is_block(length);
        AxisRun taken{position(Side::source), position(Side::destination), length, count, 0, 0};
        if (count > 1) {
            taken.source_step = blocks ? run().source_step : length;
            taken.destination_step = blocks ? run().destination_step : length;
        }
        if (blocks)
            block_ += count;
        else
            within_ += length * count;
        if (within_ == run().length) {
            within_ = 0;
            ++block_;
        }
        if (block_ == run().count) begin_next_run();
        return taken;
    }

private:
    const std::vector<AxisRun>& runs() const { return in_tail_ ? table_->tail() : table_->runs(); }
    const AxisRun& run() const { return runs()[run_]; }
    bool is_block(std::int64_t length) const { return within_ == 0 && length == run().length; }

    void begin_next_run() {
        block_ = 0;
        if (++run_ < runs().size() || in_tail_) return;
        run_ = 0;
        in_tail_ = ++period_ == table_->periods();
    }

    const AxisTable* table_;
    bool in_tail_;
    std::int64_t period_ = 0;
    std::size_t run_ = 0;
    std::int64_t block_ = 0;   ///< of the run
    std::int64_t within_ = 0;  ///< positions of the block that have been taken
};

}  // namespace datamover
