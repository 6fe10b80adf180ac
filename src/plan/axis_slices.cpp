// SPDX-License-Identifier: BSD-3-Clause
// Slices of an axis table, most of them equal.
#include "axis_slices.hpp"

#include <algorithm>
#include <utility>

namespace datamover::plan {
namespace {

using Runs = std::vector<AxisRun>;

/// Collects runs until a slice is full, then hands it on.
class Slicer {
public:
    explicit Slicer(std::int64_t most_positions) : most_(most_positions) {}

    /// Cuts a run where slices end: at most a part of a block, whole blocks, a part of a block.
    void push(AxisRun run) {
        while (run.count > 0) {
            const std::int64_t room = most_ - filled_;
            if (run.length > room) {
                push_part_of_block(run, room);
                continue;
            }
            AxisRun whole = run;
            whole.count = std::min(run.count, room / run.length);
            advance(run, whole.count);
            keep(whole);
        }
    }

    /// A slice that is already a table; a translate of one of the last shares its table.
    void push(AxisTable table) {
        constexpr std::size_t looked_at = 8;
        flush();
        const AxisRun first = first_run(table);
        for (std::size_t i = slices_.size(), n = 0; i-- > 0 && n < looked_at; ++n) {
            const auto& known = slices_[i].table;
            const std::int64_t source = first.source - first_run(*known).source;
            const std::int64_t destination = first.destination - first_run(*known).destination;
            if (table.shifted(-source, -destination) != *known) continue;
            slices_.push_back({known, {source, destination}});
            return;
        }
        slices_.push_back({std::make_shared<const AxisTable>(std::move(table)), {}});
    }

    void flush() {
        if (runs_.empty()) return;
        filled_ = 0;
        push(AxisTable(std::exchange(runs_, {})));
    }

    std::vector<AxisSlice> finish() {
        flush();
        return std::move(slices_);
    }

private:
    static const AxisRun& first_run(const AxisTable& table) {
        return table.periods() > 0 ? table.runs().front() : table.tail().front();
    }

    static void advance(AxisRun& run, std::int64_t blocks) {
        run.source += blocks * run.source_step;
        run.destination += blocks * run.destination_step;
        run.count -= blocks;
    }

    /// The first block of a run is longer than the room that is left.
    void push_part_of_block(AxisRun& run, std::int64_t room) {
        AxisRun block{run.source, run.destination, run.length, 1, 0, 0};
        advance(run, 1);
        while (block.length > 0) {
            AxisRun part = block;
            part.length = std::min(block.length, room);
            block.source += part.length;
            block.destination += part.length;
            block.length -= part.length;
            keep(part);
            room = most_ - filled_;
        }
    }

    void keep(const AxisRun& run) {
        AxisRun kept = run;
        if (kept.count == 1) kept.source_step = kept.destination_step = 0;
        runs_.push_back(kept);
        filled_ += run.length * run.count;
        if (filled_ == most_) flush();
    }

    std::int64_t most_, filled_ = 0;
    Runs runs_;
    std::vector<AxisSlice> slices_;
};

Runs moved(Runs runs, std::int64_t source, std::int64_t destination) {
    for (AxisRun& r : runs) {
        r.source += source;
        r.destination += destination;
    }
    return runs;
}

/// Slices of equally many whole periods; the last may hold fewer.
void push_periods(Slicer& slicer, const AxisTable& table, std::int64_t periods_per_slice) {
    for (std::int64_t p = 0; p < table.periods(); p += periods_per_slice)
        slicer.push(AxisTable(
            moved(table.runs(), p * table.source_period(), p * table.destination_period()),
            std::min(periods_per_slice, table.periods() - p), table.source_period(),
            table.destination_period()));
}

}  // namespace

std::vector<AxisSlice> slices_of(const std::shared_ptr<const AxisTable>& table,
                                 std::int64_t most_positions) {
    // Equally long blocks are not cut where they fit.
    if (table->single_run() && table->runs().front().length <= most_positions)
        most_positions -= most_positions % table->runs().front().length;
    Slicer slicer(most_positions);
    const std::int64_t whole_periods =
        table->period_size() > 0 ? most_positions / table->period_size() : 0;
    if (table->size() <= most_positions) {
        slicer.push(*table);
    } else if (whole_periods > 0 && table->periods() > 1) {
        push_periods(slicer, *table, whole_periods);
        for (const AxisRun& run : table->tail()) slicer.push(run);
    } else {
        for (std::int64_t p = 0; p < table->periods(); ++p)
            for (const AxisRun& run :
                 moved(table->runs(), p * table->source_period(), p * table->destination_period()))
                slicer.push(run);
        for (const AxisRun& run : table->tail()) slicer.push(run);
    }
    return slicer.finish();
}

}  // namespace datamover::plan
