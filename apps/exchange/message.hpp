// SPDX-License-Identifier: BSD-3-Clause
// What does a message written by hand carry?
#pragma once

#include "numbered.hpp"
#include "report.hpp"

namespace apps {

// communication: begin

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
