// SPDX-License-Identifier: BSD-3-Clause
// Rounds in which an array is moved to or from a flat file.
#include "flat_rounds.hpp"

#include <algorithm>

#include "geometry/make_error.hpp"

namespace datamover::io {

FlatRounds::FlatRounds(const Point& shape, std::int64_t most_elems) : shape_(shape) {
    if (most_elems < 1)
        throw make_error(ErrorCode::invalid_argument, "a round of ", most_elems,
                         " elements holds none");
    const std::int64_t elems = shape.product();
    if (elems == 0) return;
    // Elements for each index of the dimension that is cut.
    std::int64_t inner = elems / shape[0];
    while (inner > most_elems) inner /= shape[++cut_];
    thick_ = std::min(shape[cut_], most_elems / inner);
    per_row_ = (shape[cut_] + thick_ - 1) / thick_;
    rounds_ = elems / inner / shape[cut_] * per_row_;
}

Region FlatRounds::box(std::int64_t round) const {
    Point lo = Point::filled(shape_.dims(), 0), hi = shape_;
    lo[cut_] = round % per_row_ * thick_;
    hi[cut_] = std::min(shape_[cut_], lo[cut_] + thick_);
    std::int64_t row = round / per_row_;
    for (int d = cut_ - 1; d >= 0; --d) {
        lo[d] = row % shape_[d];
        hi[d] = lo[d] + 1;
        row /= shape_[d];
    }
    return {lo, hi};
}

std::int64_t FlatRounds::first_elem(std::int64_t round) const {
    const Point lo = box(round).lo();
    std::int64_t at = 0;
    for (int d = 0; d < shape_.dims(); ++d) at = at * shape_[d] + lo[d];
    return at;
}

}  // namespace datamover::io
