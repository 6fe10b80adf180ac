// SPDX-License-Identifier: BSD-3-Clause
// Ranges of the flattened array as products of index sets.
#include "flat_boxes.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

namespace datamover::plan {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// Whether whole rows of one range are no number of rows further in the block than those of
/// another: then each is a box of its own, or, if there are more than a few, each range is.
bool rows_are_askew(const AxisSet& ranges, std::int64_t row_elems) {
    return ranges.length % std::gcd(row_elems, ranges.period) != 0;
}
bool ranges_are_listed(const AxisSet& ranges, std::int64_t row_elems) {
    constexpr std::int64_t few_rows = 64;
    return rows_are_askew(ranges, row_elems) && ranges.length / row_elems > few_rows;
}

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
        if (rows >= region_.extent(d) || ranges_are_listed(ranges_, strides_[d])) return {};
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
            FlatAxis& axis = box_.axis[static_cast<std::size_t>(d)];
            axis = {};
            axis.set = ranges_;
            axis.set.first = ranges_.first + skipped * ranges_.period - base;
            axis.set.end = std::min(ranges_.end - base, shape_[d]);
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
        FlatAxis& axis = box_.axis[static_cast<std::size_t>(d)];
        axis = {};
        axis.set = AxisSet::interval(x - base, y - base);
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
        const auto whole_rows = [&](std::int64_t first, std::int64_t last_row) {
            if (!take_rows(d, first, last_row, period)) return;
            for (int k = d + 1; k <= last(); ++k) {
                FlatAxis& axis = box_.axis[static_cast<std::size_t>(k)];
                axis = {};
                axis.set = AxisSet::interval(0, shape_[k]);
                axis.step = strides_[k];
            }
            emit(last(), position + (base + first * stride - x));
        };
        if (period.rows != never && rows_are_askew(ranges_, stride))
            for (; row < end; ++row) whole_rows(row, row + 1);
        else if (row < end)
            whole_rows(row, end);
        if (end * stride + base < y) part_of_row(end, end * stride + base, y);
    }

    /// Rows [begin, end) along a dimension, and those one or more periods further; false where
    /// nobody wants them.
    bool take_rows(int d, std::int64_t begin, std::int64_t end, const Period& period) {
        FlatAxis& axis = box_.axis[static_cast<std::size_t>(d)];
        axis = {};
        const std::int64_t n = end - begin;
        if (period.rows == never) {
            axis.set = AxisSet::interval(begin, end);
            axis.step = strides_[d];
        } else {
            axis.set = n == period.rows ? AxisSet::interval(begin, region_.hi()[d])
                                        : AxisSet{begin, n, period.rows, region_.hi()[d]};
            axis.step = n == 1 ? period.positions : strides_[d];
            axis.pitch = period.positions / axis.step;
        }
        return wanted_(d, axis.set);
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
        const std::int64_t repeats_after =
            ranges_are_listed(ranges, stride) ? never : round / std::gcd(stride, round);
        const std::int64_t looked_at = std::min(repeats_after, region.extent(d - 1));
        const bool alone = repeats_after == looked_at && rows_are_askew(ranges, stride);
        const std::int64_t of_one = of_range + (alone ? ranges.length / stride : 0);
        counts.boxes = stride > round
                           ? geometry::bounded_multiply(counts.boxes, looked_at)
                           : geometry::bounded_multiply(
                                 geometry::bounded_multiply(looked_at, stride) / round + 1, of_one);
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
