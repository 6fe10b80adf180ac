// SPDX-License-Identifier: BSD-3-Clause
// Join of two axis tables over their common message positions.
#include "axis_join.hpp"

#include <algorithm>

namespace datamover {
namespace {

/// Walks the blocks of a list of runs; a block may be consumed in pieces.
class RunCursor {
public:
    RunCursor(const std::vector<AxisRun>& runs, Side side) : runs_(runs), side_(side) {}

    bool done() const { return run_ == runs_.size(); }
    bool at_block_start() const { return within_ == 0; }
    std::int64_t length() const { return runs_[run_].length; }
    std::int64_t left_in_block() const { return length() - within_; }
    std::int64_t blocks_left() const { return runs_[run_].count - block_; }
    std::int64_t step() const { return runs_[run_].step(side_); }
    std::int64_t position() const { return runs_[run_].start(side_) + block_ * step() + within_; }
    void take_blocks(std::int64_t n) {
        block_ += n;
        close_run();
    }
    void take_positions(std::int64_t n) {
        within_ += n;
        if (within_ < length()) return;
        within_ = 0;
        take_blocks(1);
    }

private:
    void close_run() {
        if (block_ < runs_[run_].count) return;
        block_ = 0;
        ++run_;
    }

    const std::vector<AxisRun>& runs_;
    Side side_;
    std::size_t run_ = 0;
    std::int64_t block_ = 0;
    std::int64_t within_ = 0;
};

/// The next joint run, as many blocks at once as both sides allow.
AxisRun next_run(RunCursor& a, RunCursor& b) {
    AxisRun run{a.position(), b.position(), 1, 1, 0, 0};
    if (a.at_block_start() && b.at_block_start() && a.length() == b.length()) {
        run.length = a.length();
        run.count = std::min(a.blocks_left(), b.blocks_left());
        run.source_step = a.step();
        run.destination_step = b.step();
        a.take_blocks(run.count);
        b.take_blocks(run.count);
    } else if (b.at_block_start() && b.length() < a.left_in_block()) {
        run.length = b.length();
        run.count = std::min(b.blocks_left(), a.left_in_block() / b.length());
        run.source_step = run.length;
        run.destination_step = b.step();
        a.take_positions(run.count * run.length);
        b.take_blocks(run.count);
    } else if (a.at_block_start() && a.length() < b.left_in_block()) {
        run.length = a.length();
        run.count = std::min(a.blocks_left(), b.left_in_block() / a.length());
        run.source_step = a.step();
        run.destination_step = run.length;
        a.take_blocks(run.count);
        b.take_positions(run.count * run.length);
    } else {
        run.length = std::min(a.left_in_block(), b.left_in_block());
        a.take_positions(run.length);
        b.take_positions(run.length);
    }
    if (run.count == 1) run.source_step = run.destination_step = 0;
    return run;
}

std::vector<AxisRun> join_runs(const std::vector<AxisRun>& a, const std::vector<AxisRun>& b) {
    RunCursor left(a, Side::source);
    RunCursor right(b, Side::destination);
    std::vector<AxisRun> joined;
    while (!left.done() && !right.done()) joined.push_back(next_run(left, right));
    return fold_runs(std::move(joined));
}

/// All runs of a table with its periods written out.
std::vector<AxisRun> all_runs(const AxisTable& t) {
    std::vector<AxisRun> runs;
    for (std::int64_t p = 0; p < t.periods(); ++p)
        for (AxisRun r : t.runs()) {
            r.source += p * t.source_period();
            r.destination += p * t.destination_period();
            runs.push_back(r);
        }
    runs.insert(runs.end(), t.tail().begin(), t.tail().end());
    return runs;
}

/// The positions 0, 1, 2, … with the periods of another table.
AxisTable counting_like(const AxisTable& t) {
    const std::int64_t period = t.period_size();
    const std::int64_t rest = t.size() - period * t.periods();
    std::vector<AxisRun> tail;
    if (rest > 0) tail.push_back({period * t.periods(), period * t.periods(), rest, 1, 0, 0});
    std::vector<AxisRun> runs;
    if (period > 0) runs.push_back({0, 0, period, 1, 0, 0});
    return AxisTable(runs, t.periods(), period, period, tail);
}

}  // namespace

AxisTable join_tables(const AxisTable* a, const AxisTable* b, std::int64_t size) {
    if (a == nullptr && b == nullptr) return AxisTable::interval(0, 0, size);
    const AxisTable left = a != nullptr ? *a : counting_like(*b);
    const AxisTable right = b != nullptr ? *b : counting_like(*a);
    if (left.periods() == right.periods() && left.period_size() == right.period_size())
        return AxisTable(join_runs(left.runs(), right.runs()), left.periods(), left.source_period(),
                         right.destination_period(), join_runs(left.tail(), right.tail()));
    return AxisTable(join_runs(all_runs(left), all_runs(right)));
}

}  // namespace datamover
