// SPDX-License-Identifier: BSD-3-Clause
// Strided rows in a list of address pairs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "storage.hpp"

namespace datamover {

/// Pairs of element addresses, and by what they are multiplied to be byte addresses.
struct PairList {
    const std::int64_t* source = nullptr;
    const std::int64_t* destination = nullptr;
    std::size_t size = 0;
    std::int64_t source_unit = 1;
    std::int64_t destination_unit = 1;
    std::int64_t source_elem_bytes = 1;
    std::int64_t destination_elem_bytes = 1;

    StridedRun single(std::size_t i) const {
        return {source[i] * source_unit, destination[i] * destination_unit, 1, source_elem_bytes,
                destination_elem_bytes};
    }
};

/// Calls emit(const StridedRun&) for rows of equal differences, in order, until it returns false.
/// Two elements make a row only when they touch on both sides: else the second may begin a row.
template <class Emit>
void scan_pairs(const PairList& list, Emit&& emit) {
    const std::int64_t* s = list.source;
    const std::int64_t* d = list.destination;
    const std::size_t n = list.size;
    for (std::size_t first = 0; first < n;) {
        StridedRun run = list.single(first);
        std::size_t next = first + 1;
        if (next < n) {
            const std::int64_t ss = s[next] - s[first];
            const std::int64_t ds = d[next] - d[first];
            ++next;
            while (next < n && s[next] - s[next - 1] == ss && d[next] - d[next - 1] == ds) ++next;
            const bool touch = ss * list.source_unit == list.source_elem_bytes &&
                               ds * list.destination_unit == list.destination_elem_bytes;
            if (next - first == 2 && !touch) {
                --next;
            } else {
                run.source_step = ss * list.source_unit;
                run.destination_step = ds * list.destination_unit;
            }
            run.elems = static_cast<std::int64_t>(next - first);
        }
        if (!emit(run)) return;
        first = next;
    }
}

}  // namespace datamover
