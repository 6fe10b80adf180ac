// SPDX-License-Identifier: BSD-3-Clause
// Conversion between ScaLAPACK's array descriptors and block-cyclic layouts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/export.h"
#include "datamover/memory_layout.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// A two-dimensional grid of processes, as in BLACS.
struct ProcessGrid {
    std::int64_t nprow = 0;
    std::int64_t npcol = 0;
    bool column_major = false;
    std::vector<std::int64_t>
        ranks;  ///< rank of each grid position (in grid order); empty: position
};

/// The entries of a dense matrix's descriptor (DTYPE_ = 1), without the context, in elements. A
/// value; every function is local. Source: ScaLAPACK Users' Guide, section 4.3.3.
struct ScalapackDescriptor {
    std::int64_t m = 0;     ///< rows of the whole matrix
    std::int64_t n = 0;     ///< columns of the whole matrix
    std::int64_t mb = 1;    ///< rows of a block
    std::int64_t nb = 1;    ///< columns of a block
    std::int64_t rsrc = 0;  ///< grid row that holds the first row
    std::int64_t csrc = 0;  ///< grid column that holds the first column
    std::int64_t lld = 1;   ///< elements from one local column to the next

    static constexpr int dense_matrix = 1;  ///< DTYPE_, the first entry

    /// Make a descriptor from {1, CTXT, M, N, MB, NB, RSRC, CSRC, LLD}. Throws unsupported for
    /// another DTYPE_ and invalid_argument for entries that are invalid for every grid.
    static ScalapackDescriptor from_entries(std::span<const int, 9> entries);
    /// Return {1, context, M, …}. Throws out_of_range if an entry does not fit in an int.
    std::array<int, 9> to_entries(int context) const;
    /// Describe a rank's part of a two-dimensional layout. An `lld` below the number of local rows
    /// (0, for example) selects the smallest valid one. Throws invalid_argument for layouts of
    /// other dimensions.
    static ScalapackDescriptor of(const BlockCyclic& layout, std::int64_t rank,
                                  std::int64_t lld = 0);

    /// Return the layout of the matrix over a grid. Throws as BlockCyclic does; m and n must be
    /// positive.
    BlockCyclic layout(const ProcessGrid& grid, std::int64_t nprocs) const;
    /// Return the memory of a rank's part: column-major with leading dimension `lld`, from A(1, 1)
    /// of the local array. No blocks for a rank outside the grid. Throws invalid_argument if `lld`
    /// is less than the number of local rows (0 is enough for none).
    MemoryLayout memory(const BlockCyclic& layout, std::int64_t rank,
                        std::int64_t elem_bytes) const;

    bool operator==(const ScalapackDescriptor&) const = default;
};

}  // namespace datamover
