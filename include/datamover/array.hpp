// SPDX-License-Identifier: BSD-3-Clause
// Distributed arrays in memory that the library allocates.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "datamover/array_part.hpp"
#include "datamover/export.h"
#include "datamover/grid_view.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// Properties of an array besides its layout, all with defaults.
struct ArrayOptions {
    ScalarType type = ScalarType::opaque;  ///< needed only for updates
    ElementOrder order = ElementOrder::row_major;
    /// Extra elements per side of each dimension of each block.
    Point ghost_lower{}, ghost_upper{};
};

/// A distributed array: the blocks of a layout that each process owns, with ghosts, in one
/// allocation that the processes of a node can access (private memory if shared memory is too
/// small). Contents are initially undefined. Copies refer to the same memory, which is returned to
/// a pool, locally, with the last copy and the last mover bound to it. Source: KeLP's XArray.
class Array {
public:
    Array() = default;
    /// Allocate an array of elements of `elem_bytes` bytes. The size of `comm` must be the layout's
    /// nprocs. Throws mismatch, invalid_argument, no_memory, on all processes or on none.
    /// Collective over `comm`.
    Array(MPI_Comm comm, const Layout& layout, std::int64_t elem_bytes,
          const ArrayOptions& options = {});

    const Layout& layout() const { return layout_; }
    const ArrayPart& part() const { return part_; }
    std::int64_t elem_bytes() const { return part_.elem_bytes; }
    int rank() const { return rank_; }
    /// Return whether the other processes on the node can access this process's memory.
    bool shared() const;
    /// Return the memory of a local block, or the address of its element with local index 0. Throws
    /// out_of_range if this process does not hold the block.
    const BlockMemory& block_memory(std::int64_t block) const;
    std::byte* origin(std::int64_t block) const;
    /// Return the elements of a local block by index: `auto u = array.grid<double>(block); u(i, j,
    /// k) = 1;`. Throws wrong_type if T does not have the size of an element, out_of_range if this
    /// process does not hold the block, invalid_state if the array was closed. Local,
    /// O(dimensions).
    template <class T>
    GridView<T> grid(std::int64_t block) const {
        const GridView<std::byte> bytes = byte_grid(block, sizeof(T));
        Point strides = bytes.strides();
        for (int d = 0; d < strides.dims(); ++d) strides[d] /= std::int64_t{sizeof(T)};
        // An array's elements begin at multiples of 64 bytes and are adjacent.
        return {reinterpret_cast<T*>(bytes.data()), bytes.shape(), strides, bytes.valid()};
    }
    /// Return the one block of this process, as `grid` does; if it has none, an empty view with
    /// extents of 0. Throws invalid_state if the process holds several blocks; otherwise as `grid`.
    /// Local, O(dimensions).
    template <class T>
    GridView<T> local() const {
        if (const auto block = only_block()) return grid<T>(*block);
        const Point none = Point::filled(layout_.dims(), 0);
        return {nullptr, none, none, Region::from_shape(none)};
    }
    bool holds(std::int64_t block) const { return part_.memory.find(block) != nullptr; }
    /// Release this reference to the memory. Local.
    void close();

private:
    std::optional<std::int64_t> only_block() const;
    /// Strides in bytes.
    GridView<std::byte> byte_grid(std::int64_t block, std::size_t elem_bytes) const;

    Layout layout_;
    ArrayPart part_;
    int rank_ = 0;
};

}  // namespace datamover
