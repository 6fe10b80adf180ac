// SPDX-License-Identifier: BSD-3-Clause
// C's matrix descriptors and process grids, converted to the library's.
#pragma once

#include <algorithm>
#include <array>

#include "datamover/scalapack_descriptor.hpp"
#include "geometry/make_error.hpp"
#include "handles.hpp"

namespace datamover::capi {

inline std::array<int, 9> entries_of(const int* descriptor, const char* name) {
    std::array<int, 9> entries{};
    std::copy_n(&given(descriptor, name), 9, entries.begin());
    return entries;
}

inline ProcessGrid grid_of(const datamover_process_grid* grid, const char* name) {
    const datamover_process_grid& g = given(grid, name);
    if (g.nprow < 1 || g.npcol < 1)
        throw make_error(ErrorCode::invalid_argument, name, " is ", g.nprow, " x ", g.npcol,
                         " processes");
    ProcessGrid result{g.nprow, g.npcol, g.column_major != 0, {}};
    if (g.ranks) result.ranks = values(g.ranks, result.nprow * result.npcol, name);
    return result;
}

}  // namespace datamover::capi
