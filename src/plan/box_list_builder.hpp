// SPDX-License-Identifier: BSD-3-Clause
// Builder of box lists with shared shapes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "datamover/advanced/pair_part.hpp"
#include "geometry/record_index.hpp"

namespace datamover::plan {

/// Appends boxes to a list; those that are alike get one shape.
class BoxListBuilder {
public:
    /// The number of a shape. O(1).
    std::int64_t shape_of(const BoxShape& shape);
    /// Boxes without elements are left out. O(1). Throws out_of_range
    /// beyond 63 bits of elements.
    void add(std::int64_t source_block, std::int64_t destination_block, const BoxShape& shape);

    BoxList& list() { return list_; }
    bool empty() const { return list_.boxes.empty(); }
    std::int64_t elems() const { return list_.elems; }
    /// The list, once.
    BoxList finish() { return std::move(list_); }

private:
    BoxList list_;
    std::vector<std::int64_t> shape_elems_;
    geometry::RecordIndex known_;
};

}  // namespace datamover::plan
