// SPDX-License-Identifier: BSD-3-Clause
// Boxes of processes and the messages of hand-written exchanges.
#pragma once

#include <algorithm>

#include "numbered.hpp"
#include "report.hpp"

namespace apps {

// communication: begin

/// A box's share of `extent` points in `parts` parts that differ by one at most, the larger ones
/// first: its first point, and the number of them.
struct Share {
    std::int64_t lo, extent;
};
inline Share share_of(std::int64_t extent, std::int64_t parts, std::int64_t part) {
    const std::int64_t least = extent / parts, larger = extent % parts;
    return {part * least + std::min(part, larger), least + (part < larger ? 1 : 0)};
}

/// The values of some points of an array.
struct Section {
    Values values;
    Box box;

    std::int64_t elems() const {
        std::int64_t product = values.count;
        for (std::size_t d = 0; d < 3; ++d) product *= box.hi[d] - box.lo[d];
        return product;
    }
};

/// Sections that travel together, to or from a process.
struct Message {
    int peer = MPI_PROC_NULL, tag = 0;
    std::vector<Section> sections;

    std::int64_t elems() const {
        std::int64_t sum = 0;
        for (const Section& section : sections) sum += section.elems();
        return sum;
    }
};

// communication: end

}  // namespace apps
