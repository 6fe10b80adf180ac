// SPDX-License-Identifier: BSD-3-Clause
// Axis tables: count, halve, reverse, shift.
#include "datamover/advanced/axis_table.hpp"

#include <utility>

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

std::int64_t checked_pairs(const std::vector<AxisRun>& runs) {
    std::int64_t total = 0;
    for (const AxisRun& r : runs) {
        if (r.length < 1 || r.count < 1)
            throw make_error(ErrorCode::invalid_argument,
                             "an axis run needs length >= 1 and count >= 1, got length ", r.length,
                             " and count ", r.count);
        std::int64_t pairs = 0;
        if (__builtin_mul_overflow(r.length, r.count, &pairs) ||
            __builtin_add_overflow(total, pairs, &total))
            throw Error(ErrorCode::invalid_argument,
                        "an axis table holds more than 2^63 pairs of positions");
    }
    return total;
}

template <class Change>
std::vector<AxisRun> changed(std::vector<AxisRun> runs, Change&& change) {
    for (AxisRun& r : runs) change(r);
    return runs;
}

/// Appends block b to block a when it goes on where a ends, on both sides.
bool join(AxisRun& a, const AxisRun& b) {
    if (a.count != 1 || b.count != 1 || a.source + a.length != b.source ||
        a.destination + a.length != b.destination)
        return false;
    a.length += b.length;
    return true;
}

/// Appends run b to run a when b holds the next equally spaced blocks.
bool extend(AxisRun& a, const AxisRun& b) {
    if (a.length != b.length) return false;
    const std::int64_t ds = a.count > 1 ? a.source_step : b.source - a.source;
    const std::int64_t dd = a.count > 1 ? a.destination_step : b.destination - a.destination;
    if (b.source != a.source + a.count * ds || b.destination != a.destination + a.count * dd)
        return false;
    if (b.count > 1 && (b.source_step != ds || b.destination_step != dd)) return false;
    a.source_step = ds;
    a.destination_step = dd;
    a.count += b.count;
    return true;
}

/// Keeps, in place, the runs that `append` did not append to the run before them.
template <class Append>
void keep_unless(std::vector<AxisRun>& runs, Append&& append) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < runs.size(); ++i)
        if (kept == 0 || !append(runs[kept - 1], runs[i])) runs[kept++] = runs[i];
    runs.resize(kept);
}

}  // namespace

AxisTable::AxisTable(std::vector<AxisRun> runs, std::int64_t periods, std::int64_t source_period,
                     std::int64_t destination_period, std::vector<AxisRun> tail)
    : runs_(std::move(runs)),
      tail_(std::move(tail)),
      period_{periods, source_period, destination_period, checked_pairs(runs_)} {
    if (periods < 0)
        throw make_error(ErrorCode::invalid_argument, "an axis table needs periods >= 0, got ",
                         periods);
    const std::int64_t tail_size = checked_pairs(tail_);
    if (__builtin_mul_overflow(period_.size, periods, &size_) ||
        __builtin_add_overflow(size_, tail_size, &size_))
        throw Error(ErrorCode::invalid_argument,
                    "an axis table holds more than 2^63 pairs of positions");
}

AxisTable AxisTable::interval(std::int64_t source, std::int64_t destination, std::int64_t length) {
    if (length < 0)
        throw make_error(ErrorCode::invalid_argument, "an interval needs length >= 0, got ",
                         length);
    if (length == 0) return AxisTable();
    return AxisTable({AxisRun{source, destination, length, 1, 0, 0}});
}

AxisTable AxisTable::half(Side kept) const {
    std::int64_t position = 0;
    const auto count_up = [&](AxisRun& r) {
        r.start(other(kept)) = position;
        r.step(other(kept)) = r.count > 1 ? r.length : 0;
        position += r.length * r.count;
    };
    std::vector<AxisRun> runs = changed(runs_, count_up);
    position = period_.count * period_.size;
    PerSide<std::int64_t> period{period_.size, period_.size};
    period[kept] = this->period(kept);
    return AxisTable(std::move(runs), period_.count, period.source, period.destination,
                     changed(tail_, count_up));
}

AxisTable AxisTable::reversed() const {
    const auto exchange = [](AxisRun& r) {
        std::swap(r.source, r.destination);
        std::swap(r.source_step, r.destination_step);
    };
    return AxisTable(changed(runs_, exchange), period_.count, period_.destination, period_.source,
                     changed(tail_, exchange));
}

AxisTable AxisTable::shifted(std::int64_t source_shift, std::int64_t destination_shift) const {
    const auto shift = [=](AxisRun& r) {
        r.source += source_shift;
        r.destination += destination_shift;
    };
    return AxisTable(changed(runs_, shift), period_.count, period_.source, period_.destination,
                     changed(tail_, shift));
}

std::int64_t AxisTable::nbytes() const {
    const auto runs = static_cast<std::int64_t>(runs_.size() + tail_.size());
    return runs * static_cast<std::int64_t>(sizeof(AxisRun)) + 3 * 8;
}

std::vector<AxisRun> fold_runs(std::vector<AxisRun> blocks) {
    keep_unless(blocks, join);
    keep_unless(blocks, extend);
    // Tables are kept: not with the room of the blocks that they fold.
    if (blocks.size() < blocks.capacity() / 4) blocks.shrink_to_fit();
    return blocks;
}

}  // namespace datamover
