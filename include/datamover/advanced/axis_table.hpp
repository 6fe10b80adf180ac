// SPDX-License-Identifier: BSD-3-Clause
// Pairs of matching source and destination positions along one dimension.
#pragma once

#include <cstdint>
#include <vector>

#include "datamover/export.h"
#include "datamover/side.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// `count` blocks of `length` adjacent positions each; block k starts at position `source + k *
/// source_step` and is paired with the block at `destination + k * destination_step`.
struct AxisRun {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t length = 1;
    std::int64_t count = 1;
    std::int64_t source_step = 0;
    std::int64_t destination_step = 0;

    std::int64_t start(Side side) const { return side == Side::source ? source : destination; }
    std::int64_t& start(Side side) { return side == Side::source ? source : destination; }
    std::int64_t step(Side side) const {
        return side == Side::source ? source_step : destination_step;
    }
    std::int64_t& step(Side side) { return side == Side::source ? source_step : destination_step; }
    bool operator==(const AxisRun&) const = default;
};

/// A one-dimensional relation between positions: the `runs` of one period, repeated `periods` times
/// (each repetition shifted by `source_period` and `destination_period`), then the runs of `tail`.
/// The pairs have an order: run by run, block by block, position by position. The size in memory is
/// proportional to the number of runs, not of positions. Source: block-cyclic regularity as in the
/// paper on compact address relations, section 3.
class AxisTable {
public:
    AxisTable() = default;

    /// Make a table. All runs must have length >= 1 and count >= 1; `periods` may be 0. Throws
    /// invalid_argument.
    explicit AxisTable(std::vector<AxisRun> runs, std::int64_t periods = 1,
                       std::int64_t source_period = 0, std::int64_t destination_period = 0,
                       std::vector<AxisRun> tail = {});

    /// Make a table that pairs `length` positions from `source` with those from `destination`.
    static AxisTable interval(std::int64_t source, std::int64_t destination, std::int64_t length);

    /// Return the number of pairs of positions. O(1).
    std::int64_t size() const { return size_; }
    /// Return the number of pairs in one period (without the tail).
    std::int64_t period_size() const { return period_.size; }
    bool empty() const { return size_ == 0; }

    const std::vector<AxisRun>& runs() const { return runs_; }
    const std::vector<AxisRun>& tail() const { return tail_; }
    std::int64_t periods() const { return period_.count; }
    std::int64_t source_period() const { return period_.source; }
    std::int64_t destination_period() const { return period_.destination; }
    std::int64_t period(Side side) const {
        return side == Side::source ? period_.source : period_.destination;
    }

    /// Return whether one run describes all pairs (no repetition of periods and no tail).
    bool single_run() const { return tail_.empty() && runs_.size() == 1 && period_.count == 1; }

    /// Return one side. Source: the same sources, in the same order, paired with 0, 1, 2, …: the
    /// positions in a message. Destination: 0, 1, 2, … paired with the same destinations in the
    /// same order.
    AxisTable half(Side kept) const;
    AxisTable source_half() const { return half(Side::source); }
    AxisTable destination_half() const { return half(Side::destination); }
    /// Return the table with source and destination exchanged, in the same order.
    AxisTable reversed() const;
    /// Return the table with both sides shifted by constants.
    AxisTable shifted(std::int64_t source_shift, std::int64_t destination_shift) const;

    /// Return the size of this table in bytes.
    std::int64_t nbytes() const;

    bool operator==(const AxisTable&) const = default;

    /// Call `visit(source, destination, length)` for every block in order.
    template <class Visit>
    void for_each_block(Visit&& visit) const {
        auto all = [&](const std::vector<AxisRun>& runs, std::int64_t ds, std::int64_t dd) {
            for (const AxisRun& r : runs)
                for (std::int64_t k = 0; k < r.count; ++k)
                    visit(r.source + ds + k * r.source_step,
                          r.destination + dd + k * r.destination_step, r.length);
        };
        for (std::int64_t p = 0; p < period_.count; ++p)
            all(runs_, p * period_.source, p * period_.destination);
        all(tail_, 0, 0);
    }

private:
    /// How often the runs are there, how far a repetition is shifted, and its number of pairs.
    struct Period {
        std::int64_t count = 0, source = 0, destination = 0, size = 0;
        bool operator==(const Period&) const = default;
    };

    std::vector<AxisRun> runs_, tail_;
    Period period_;
    std::int64_t size_ = 0;  ///< of all, the tail included
};

/// Fold equal, equally spaced adjacent blocks of a list of runs into runs with a count, keeping the
/// order of the pairs. O(number of runs).
std::vector<AxisRun> fold_runs(std::vector<AxisRun> blocks);

}  // namespace datamover
