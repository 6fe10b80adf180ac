// SPDX-License-Identifier: BSD-3-Clause
// Ranges of the flattened array as products of index sets.
//
// A range of the flattened array is part of a row, whole rows, and part of a row again, and so on
// within the rows. Ranges repeat together with the rows after their common period: what lies one
// such period of rows further along a dimension lies a fixed number of positions further in the
// block. So a few products describe all ranges where rows and ranges share a short period; else
// there are at most as many as there are pieces of rows, and those need no products
// (flat_runs.cpp).
#include "flat_runs.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "relation/extent.hpp"
#include "relation/table_cursor.hpp"

namespace datamover::plan {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// Turns the numbers of a set that are grouped into positions in a block.
class Spread {
public:
    explicit Spread(const FlatAxis& axis) : axis_(axis) {}

    std::vector<AxisRun> operator()(const AxisTable& numbers) {
        made_.clear();
        for (TableCursor cursor(numbers); !cursor.done();) {
            const std::int64_t number = cursor.position(Side::destination);
            const std::int64_t length =
                std::min(cursor.left_in_block(), axis_.group - number % axis_.group);
            TableCursor ahead = cursor;
            AxisRun run = ahead.take(length, cursor.pieces_of(length));
            const std::int64_t step = run.destination_step;
            const bool by_groups = step % axis_.group == 0;
            const bool in_one_group =
                step >= 0 && number % axis_.group + (run.count - 1) * step + length <= axis_.group;
            if (by_groups || in_one_group)
                cursor = ahead;
            else
                run = cursor.take(length, 1);
            keep(run, by_groups ? step / axis_.group * axis_.group_step : step * axis_.step);
        }
        return std::move(made_);
    }

private:
    std::int64_t position(std::int64_t number) const {
        return number / axis_.group * axis_.group_step + number % axis_.group * axis_.step;
    }

    /// Blocks each within one group, their first positions `block_step` apart.
    void keep(const AxisRun& run, std::int64_t block_step) {
        const std::int64_t first = position(run.destination);
        if (run.length == 1 || axis_.step == 1)
            return push({run.source, first, run.length, run.count, run.source_step, block_step});
        if (run.length <= run.count)
            for (std::int64_t i = 0; i < run.length; ++i)
                push({run.source + i, first + i * axis_.step, 1, run.count, run.source_step,
                      block_step});
        else
            for (std::int64_t k = 0; k < run.count; ++k)
                push({run.source + k * run.source_step, first + k * block_step, 1, run.length, 1,
                      axis_.step});
    }

    void push(AxisRun run) {
        constexpr std::size_t most_runs = std::size_t{1} << 20;
        if (made_.size() == most_runs)
            throw make_error(ErrorCode::unsupported,
                             "blocks of rows meet ranges of the flattened array in more than ",
                             most_runs, " runs along one dimension");
        if (run.count == 1) run.source_step = run.destination_step = 0;
        made_.push_back(run);
    }

    const FlatAxis& axis_;
    std::vector<AxisRun> made_;
};

/// Walks over the ranges of a block dimension by dimension, the first outermost.
class Walk {
public:
    Walk(const FlatCyclic& flat, std::int64_t block, const Region& region,
         const WantedIndices& wanted, FlatWork& work,
         const std::function<void(const FlatBox&)>& visit)
        : shape_(flat.shape()),
          strides_(flat.shape()),
          ranges_(flat.flat_set(block)),
          region_(region),
          wanted_(wanted),
          work_(work),
          visit_(visit) {
        std::int64_t stride = 1;
        for (int d = shape_.dims() - 1; d >= 0; --d) {
            strides_[d] = stride;
            stride *= shape_[d];
        }
        rounds_ = ranges_.end - ranges_.first > ranges_.period;
    }

    void operator()() {
        if (ranges_.size() == 0) return;
        if (rounds_)
            rounds(0, 0);
        else
            part(0, 0, ranges_.lower(), ranges_.upper(), 0);
    }

private:
    int last() const { return shape_.dims() - 1; }

    /// One period of rows along a dimension: the rows that begin with it, and how much further in
    /// the block the next period lies.
    struct Period {
        std::int64_t rows = never;
        std::int64_t positions = 0;
    };

    Period period_of(int d) const {
        const std::int64_t common = std::gcd(strides_[d], ranges_.period);
        const std::int64_t rows = ranges_.period / common;
        // Where one period does not fit the dimension, nothing repeats.
        if (rows >= region_.extent(d)) return {};
        return {rows, strides_[d] / common * ranges_.length};
    }

    /// All ranges within the elements of the dimensions from d on, of which the first in the whole
    /// array is `base`.
    void rounds(int d, std::int64_t base) {
        work_.step();
        if (d == last()) {
            // The set counts from the range that the row begins in, or from the next before it.
            const std::int64_t before = std::max<std::int64_t>(base - ranges_.first, 0);
            const std::int64_t skipped = before / ranges_.period;
            begin_axis(d, {ranges_.first + skipped * ranges_.period - base, ranges_.length,
                           ranges_.period, std::min(ranges_.end - base, shape_[d])});
            emit(d, skipped * ranges_.length);
            return;
        }
        const Period period = period_of(d);
        const std::int64_t first = region_.lo()[d];
        const std::int64_t end =
            period.rows < region_.extent(d) ? first + period.rows : region_.hi()[d];
        if (strides_[d] > ranges_.period) {
            work_.expect(end - first);
            for (std::int64_t row = first; row < end; ++row) {
                work_.step();
                if (!take_rows(d, row, row + 1, period)) continue;
                rounds(d + 1, base + row * strides_[d]);
            }
            return;
        }
        // The ranges that reach into these rows, cut off where the rows begin and end.
        const std::int64_t from = base + first * strides_[d], to = base + end * strides_[d];
        std::int64_t number = from > ranges_.first ? (from - ranges_.first) / ranges_.period : 0;
        work_.expect((to - from) / ranges_.period);
        for (;; ++number) {
            const std::int64_t begin = geometry::bounded_add(
                geometry::bounded_multiply(number, ranges_.period), ranges_.first);
            if (begin >= std::min(to, ranges_.end)) return;
            const std::int64_t x = std::max(begin, from);
            const std::int64_t y =
                std::min({geometry::bounded_add(begin, ranges_.length), to, ranges_.end});
            if (x < y) rows(d, base, x, y, number * ranges_.length + (x - begin), period);
        }
    }

    /// The range [x, y) of the flattened array, within the elements of the dimensions from d on;
    /// x has this position in the block.
    void part(int d, std::int64_t base, std::int64_t x, std::int64_t y, std::int64_t position) {
        if (d < last()) {
            rows(d, base, x, y, position, {});
            return;
        }
        work_.step();
        begin_axis(d, AxisSet::interval(x - base, y - base));
        emit(d, position);
    }

    /// The same range, which comes again after each period of rows: part of a row, whole rows, part
    /// of a row.
    void rows(int d, std::int64_t base, std::int64_t x, std::int64_t y, std::int64_t position,
              const Period& period) {
        work_.step();
        const std::int64_t stride = strides_[d];
        const auto row_of = [&](std::int64_t flat) { return (flat - base) / stride; };
        const auto part_of_row = [&](std::int64_t row, std::int64_t from, std::int64_t to) {
            if (take_rows(d, row, row + 1, period))
                part(d + 1, base + row * stride, from, to, position + (from - x));
        };
        std::int64_t row = row_of(x);
        const std::int64_t end = row_of(y), whole_begin = base + row * stride;
        if (x != whole_begin) {
            const std::int64_t row_end = row == end ? y : whole_begin + stride;
            part_of_row(row, x, std::min(y, row_end));
            if (row == end) return;
            ++row;
        }
        if (row < end && take_rows(d, row, end, period)) {
            for (int k = d + 1; k <= last(); ++k)
                begin_axis(k, AxisSet::interval(0, shape_[k])).group_step = strides_[k];
            emit(last(), position + (base + row * stride - x));
        }
        if (end * stride + base < y) part_of_row(end, end * stride + base, y);
    }

    /// Rows [begin, end) along a dimension, and those one or more periods further; false where
    /// nobody wants them.
    bool take_rows(int d, std::int64_t begin, std::int64_t end, const Period& period) {
        FlatAxis& axis = begin_axis(d, AxisSet::interval(begin, end));
        axis.group_step = strides_[d];
        if (period.rows != never) {
            const std::int64_t n = end - begin;
            axis.set = n == period.rows ? AxisSet::interval(begin, region_.hi()[d])
                                        : AxisSet{begin, n, period.rows, region_.hi()[d]};
            const bool even = n * strides_[d] == period.positions;
            axis.group = even ? 1 : n;
            axis.group_step = even ? strides_[d] : period.positions;
            axis.step = strides_[d];
        }
        return wanted_(d, axis.set);
    }

    FlatAxis& begin_axis(int d, const AxisSet& set) {
        return box_.axis[static_cast<std::size_t>(d)] = FlatAxis{set};
    }

    void emit(int d, std::int64_t position) {
        if (!wanted_(d, box_.axis[static_cast<std::size_t>(d)].set)) return;
        box_.position = position;
        visit_(box_);
    }

    Point shape_, strides_;
    AxisSet ranges_;
    Region region_;
    const WantedIndices& wanted_;
    FlatWork& work_;
    const std::function<void(const FlatBox&)>& visit_;
    bool rounds_ = false;  ///< whether the block holds more than one range
    FlatBox box_;
};

}  // namespace

PieceAxis FlatAxis::in_block(const AxisTable& numbers, std::int64_t first, int source_dim) const {
    const auto axis = [&](const AxisTable& table, std::int64_t factor) {
        return PieceAxis{std::make_shared<const AxisTable>(table), source_dim, 0, 1, factor};
    };
    if (group == 1) {
        // The step does not matter to a single row, and might be beyond all addresses.
        const bool one = numbers.empty() || extent_of(numbers, Side::destination).high == 0;
        return axis(first == 0 ? numbers : numbers.shifted(0, first), one ? 1 : group_step);
    }
    Spread spread(*this);
    if (numbers.periods() <= 1 || numbers.destination_period() % group == 0)
        return axis(
            AxisTable(spread(AxisTable(numbers.runs())), numbers.periods(), numbers.source_period(),
                      numbers.destination_period() / group * group_step,
                      spread(AxisTable(numbers.tail()))),
            1);
    return axis(AxisTable(spread(numbers)), 1);
}

FlatCounts count_flat_boxes(const FlatCyclic& flat, const Region& region) {
    const Point shape = flat.shape();
    const int last = shape.dims() - 1;
    if (region.empty() || flat.num_filled_blocks() == 0) return {};
    const AxisSet ranges = flat.flat_set(0);
    const bool rounds = ranges.end - ranges.first > ranges.period;
    // Elements from one of a block's ranges to its next.
    const std::int64_t round = rounds ? ranges.period : flat.elems();
    const std::int64_t of_range = 2 * last + 1;  // parts of rows, and rows, of each dimension
    FlatCounts counts{rounds ? 1 : of_range, 1};
    std::int64_t stride = 1, rows = 1;
    for (int d = last; d > 0; --d) {
        stride *= shape[d];
        rows *= region.extent(d - 1);
        if (!rounds) continue;
        const std::int64_t repeats_after = round / std::gcd(stride, round);
        const std::int64_t looked_at = std::min(repeats_after, region.extent(d - 1));
        counts.boxes =
            stride > round
                ? geometry::bounded_multiply(counts.boxes, looked_at)
                : geometry::bounded_multiply(
                      geometry::bounded_multiply(looked_at, stride) / round + 1, of_range);
    }
    const auto share = [&](std::int64_t of) {
        const geometry::Wide all = geometry::Wide{rows} * of / round;
        return static_cast<std::int64_t>(std::min(all, geometry::Wide{never / 4}));
    };
    counts.pieces_of_rows = 1 + share(ranges.length) + share(shape[last]);
    return counts;
}

void FlatWork::refuse(std::int64_t most) const {
    throw make_error(ErrorCode::unsupported, "ranges of ", flat_.block_elems(), " elements on ",
                     flat_.num_blocks(), " processes and the rows of shape ", flat_.shape(),
                     " repeat together so late that a process would have to look at more than ",
                     most,
                     " pieces of them: choose ranges that share more factors with the length of a "
                     "row, or longer ones");
}

void for_each_flat_box(const FlatCyclic& flat, std::int64_t block, const Region& region,
                       const WantedIndices& wanted, FlatWork& work,
                       const std::function<void(const FlatBox&)>& visit) {
    Walk(flat, block, region, wanted, work, visit)();
}

}  // namespace datamover::plan
