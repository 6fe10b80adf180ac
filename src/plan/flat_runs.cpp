// SPDX-License-Identifier: BSD-3-Clause
// Runs that a block of flat ranges shares with another block, generated on demand.
#include "flat_runs.hpp"

#include <algorithm>
#include <array>

#include "geometry/checked.hpp"
#include "redistribution.hpp"

namespace datamover::plan {

std::int64_t HeldAxis::next(std::int64_t index) const {
    index = set.next(std::max(index, lo));
    return index < hi ? index : none;
}

std::int64_t HeldAxis::end_of_run(std::int64_t index) const {
    const std::int64_t end = std::min(hi, set.end);
    if (is_interval(set) || set.length == set.period || set.length == 1) return end;
    const std::int64_t into = (index - set.first) % set.period;
    return end - index > set.length - into ? index + (set.length - into) : end;
}

namespace {

std::size_t at(int d) {
    return static_cast<std::size_t>(d);
}

/// Goes through ranges and rows at once, from one element that both sides hold to the next.
class FlatRunWalk {
public:
    FlatRunWalk(const FlatRuns& runs, std::int64_t first, std::int64_t end, FlatWork* work)
        : ranges_(runs.ranges),
          shape_(runs.shape),
          axes_(runs.axes),
          other_ranges_(runs.other ? &*runs.other : nullptr),
          work_(work),
          last_(shape_.dims() - 1),
          row_elems_(shape_[last_]),
          at_(ranges_.global(first)),
          end_(ranges_.global(end - 1) + 1) {}

    void operator()(const FlatRuns::Visit& visit) {
        while (at_ < end_) {
            if (work_) work_->row();
            if (at_ >= range_end_) {
                find_range();
                continue;
            }
            if (at_ >= row_end_) {
                if (!find_row()) return;
                continue;  // which may begin behind the range
            }
            const auto [begin, stop, step] = held_from(at_ - row_begin_);
            if (begin == HeldAxis::none) {
                at_ = row_end_;
            } else if (begin > at_ - row_begin_) {
                at_ = row_begin_ + begin;
            } else {
                const std::int64_t run_end = std::min({range_end_, end_, row_begin_ + stop});
                visit({first_position_ + (at_ - range_begin_), (run_end - at_ - 1) / step + 1, step,
                       other_.data()});
                at_ = run_end;
            }
        }
    }

private:
    struct Held {
        std::int64_t begin, end, step;
    };

    /// The range that holds at_, or else the next one, and at_ is where that begins.
    void find_range() {
        std::int64_t number = (at_ - ranges_.first) / ranges_.period;
        if ((at_ - ranges_.first) % ranges_.period >= ranges_.length) ++number;
        range_begin_ = geometry::bounded_add(geometry::bounded_multiply(number, ranges_.period),
                                             ranges_.first);
        range_end_ = std::min(geometry::bounded_add(range_begin_, ranges_.length), ranges_.end);
        first_position_ = number * ranges_.length;
        at_ = std::max(at_, range_begin_);
    }

    /// The row that holds at_, or else the next one of which the other block holds anything, and
    /// at_ is where that begins. False where there is none.
    bool find_row() {
        std::int64_t rest = at_ / row_elems_;
        for (int d = last_ - 1; d >= 0; --d) {
            row_[at(d)] = rest % shape_[d];
            rest /= shape_[d];
        }
        for (int d = 0; d < last_;) {
            const std::int64_t held = axes_[at(d)].next(row_[at(d)]);
            if (held == HeldAxis::none) {
                if (d == 0) return false;
                ++row_[at(d - 1)];
                std::fill(row_.begin() + d, row_.begin() + last_, 0);
                --d;
                continue;
            }
            if (held > row_[at(d)]) {
                row_[at(d)] = held;
                std::fill(row_.begin() + d + 1, row_.begin() + last_, 0);
            }
            ++d;
        }
        begin_row();
        return true;
    }

    void begin_row() {
        std::int64_t number = 0;
        for (int d = 0; d < last_; ++d) number = number * shape_[d] + row_[at(d)];
        row_begin_ = number * row_elems_;
        row_end_ = row_begin_ + row_elems_;
        at_ = std::max(at_, row_begin_);
        if (other_ranges_) {
            other_row_ = other_ranges_->first;
            for (int d = 0; d < last_; ++d)
                other_row_ +=
                    (row_[at(d)] - other_ranges_->lo[at(d)]) * other_ranges_->steps[at(d)];
            return;
        }
        for (int d = 0; d < last_; ++d)
            other_[at(axes_[at(d)].other_dim)] = axes_[at(d)].set.local(row_[at(d)]);
    }

    /// The first indices in the row, from `index` on, that the other block holds one behind the
    /// other; says where.
    Held held_from(std::int64_t index) {
        const HeldAxis& along = axes_.back();
        const std::int64_t begin = along.next(index);
        if (begin == HeldAxis::none) return {begin, begin, 1};
        if (other_ranges_) return held_in_ranges(begin, along.hi);
        other_[at(along.other_dim)] = along.set.local(begin);
        return {begin, along.end_of_run(begin), along.step()};
    }

    Held held_in_ranges(std::int64_t index, std::int64_t hi) {
        const AxisSet& ranges = other_ranges_->ranges;
        const std::int64_t step = other_ranges_->steps.back(), lo = other_ranges_->lo.back();
        if (step == 1) {
            const std::int64_t base = other_row_ - lo;
            const HeldAxis line{ranges, base + index, base + hi, 0};
            const std::int64_t begin = line.next(base + index);
            if (begin == HeldAxis::none) return {begin, begin, 1};
            other_[0] = ranges.local(begin);
            return {begin - base, line.end_of_run(begin) - base, line.step()};
        }
        const std::int64_t stop = std::min({hi, range_end_ - row_begin_, end_ - row_begin_});
        for (; index < stop; ++index) {
            if (work_) work_->row();
            other_[0] = ranges.local(other_row_ + (index - lo) * step);
            if (other_[0] >= 0) return {index, index + 1, 1};
        }
        if (stop < hi) return {stop, stop, 1};
        return {HeldAxis::none, HeldAxis::none, 1};
    }

    const AxisSet& ranges_;
    const Point& shape_;
    const std::vector<HeldAxis>& axes_;
    const OtherRanges* other_ranges_;
    FlatWork* work_;
    int last_;
    std::int64_t row_elems_;
    std::int64_t at_, end_;  // flat indices
    std::int64_t range_begin_ = 0, range_end_ = 0, first_position_ = 0;
    std::int64_t row_begin_ = 0, row_end_ = 0, other_row_ = 0;
    std::array<std::int64_t, max_dims> row_{}, other_{};
};

}  // namespace

void FlatRuns::for_each(std::int64_t first, std::int64_t end, const Visit& visit,
                        FlatWork* work) const {
    if (first < end) FlatRunWalk(*this, first, end, work)(visit);
}

}  // namespace datamover::plan
