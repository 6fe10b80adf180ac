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

/// What besides the layout may be said of an array; all optional.
struct XArrayOptions {
    ScalarType type = ScalarType::opaque;  ///< needed only for updates
    ElementOrder order = ElementOrder::row_major;
    /// Extra elements per side of each dimension of each block.
    Point ghost_lower{}, ghost_upper{};
};

/// A distributed array: every process's blocks of a layout, with ghosts, in one allocation that the
/// processes of a node can reach (private memory where shared memory is too small). Contents are
/// undefined at first. Copies refer to the same memory; it goes back to a pool, locally, with the
/// last copy and the last mover bound to it. Source: KeLP's XArray.
class XArray {
public:
    XArray() = default;
    /// Collective over `comm`, whose size is the layout's nprocs. Throws mismatch,
    /// invalid_argument, no_memory: on all processes or none.
    XArray(MPI_Comm comm, const Layout& layout, std::int64_t elem_bytes,
           const XArrayOptions& options = {});

    const Layout& layout() const { return layout_; }
    const ArrayPart& part() const { return part_; }
    std::int64_t elem_bytes() const { return part_.elem_bytes; }
    int rank() const { return rank_; }
    /// Whether this process's memory can be reached by the others on its node.
    bool shared() const;
    /// The memory of a local block and the address of its element with local index 0. Throws
    /// out_of_range when this process does not hold the block.
    const BlockMemory& block_memory(std::int64_t block) const;
    std::byte* origin(std::int64_t block) const;
    /// The elements of a local block by index: `auto u = array.grid<double>(block); u(i, j, k) =
    /// 1;`. Throws wrong_type when a T has not the size of an element, out_of_range when this
    /// process does not hold the block, invalid_state for an array that was freed. Local,
    /// O(dimensions).
    template <class T>
    GridView<T> grid(std::int64_t block) const {
        const GridView<std::byte> bytes = byte_grid(block, sizeof(T));
        Point strides = bytes.strides();
        for (int d = 0; d < strides.dims(); ++d) strides[d] /= std::int64_t{sizeof(T)};
        // An array's elements begin at multiples of 64 bytes and follow each other.
        return {reinterpret_cast<T*>(bytes.data()), bytes.shape(), strides, bytes.valid()};
    }
    /// The one block of this process, as by `grid`; empty, with extents of 0, where it has none.
    /// Throws invalid_state when it holds several; else errors as of `grid`. Local, O(dimensions).
    template <class T>
    GridView<T> local() const {
        if (const auto block = only_block()) return grid<T>(*block);
        const Point none = Point::filled(layout_.dims(), 0);
        return {nullptr, none, none, Region::from_shape(none)};
    }
    bool holds(std::int64_t block) const { return part_.memory.find(block) != nullptr; }
    /// Drops this reference to the memory. Local.
    void free();

private:
    std::optional<std::int64_t> only_block() const;
    /// Strides in bytes.
    GridView<std::byte> byte_grid(std::int64_t block, std::size_t elem_bytes) const;

    Layout layout_;
    ArrayPart part_;
    int rank_ = 0;
};

}  // namespace datamover
