// SPDX-License-Identifier: BSD-3-Clause
// Rounds in which an array is moved to or from a flat file.
#pragma once

#include <cstdint>

#include "datamover/region.hpp"

namespace datamover::io {

/// Boxes of an array of `shape` that follow each other in the flattened array, last dimension
/// fastest, each contiguous there and of at most `most_elems` elements: single rows or planes, or
/// some of them. Nothing is stored. Throws invalid_argument unless most_elems is at least 1.
class FlatRounds {
public:
    FlatRounds(const Point& shape, std::int64_t most_elems);

    std::int64_t count() const { return rounds_; }
    Region box(std::int64_t round) const;
    /// Where the box begins in the flattened array.
    std::int64_t first_elem(std::int64_t round) const;

private:
    Point shape_;
    int cut_ = 0;             // the dimension that is cut; those before it go one index at a time
    std::int64_t thick_ = 1;  // so many of its indices are in a box
    std::int64_t per_row_ = 1, rounds_ = 0;
};

}  // namespace datamover::io
