// SPDX-License-Identifier: BSD-3-Clause
// Target maps: the target process of an element by its key or by its cell of space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "datamover/element_update.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Keys of elements in memory: `dims` adjacent scalars of one type, `stride_bytes` from element to
/// element.
struct ElementKeys {
    const void* data = nullptr;
    ScalarType type = ScalarType::float64;
    std::int64_t dims = 1;
    std::int64_t stride_bytes = 8;
};

/// The order in which cells are assigned to processes.
enum class CellOrder : std::uint8_t { row_major, morton, hilbert };
/// Convert "row_major", "morton" or "hilbert" to CellOrder. Throws invalid_argument.
CellOrder cell_order_from_name(const std::string& name);

/// Return the position of every cell along the curve, cells in row-major order. If the numbers of
/// cells are not powers of two, the curve covers the enclosing power and skips positions outside.
/// Throws invalid_argument (no cells), out_of_range (more than 2^31). O(cells log cells).
std::vector<std::int64_t> cell_positions(std::span<const std::int64_t> cells, CellOrder order);

/// A box of space, divided into equal cells.
struct CellBox {
    std::vector<double> lo, hi;
    std::vector<std::int64_t> cells;  ///< per dimension
    bool periodic = false;  ///< whether positions outside are wrapped; otherwise they belong to the
                            ///< nearest cell
};

/// A map from keys to target ranks, evaluated once per element, in loops without calls.
class TargetMap {
public:
    /// Map integer keys: key modulo the number of processes, never negative. Throws
    /// invalid_argument if that number is not 1 to 2^31 - 1.
    static TargetMap modulo(std::int64_t nprocs);
    /// Map `total` integer keys from `first_key` in blocks of ceil(total / nprocs), HPF's BLOCK;
    /// other keys have no target and are an error. Throws invalid_argument (a negative total, a
    /// number of processes as for modulo), out_of_range (keys beyond 64 bits).
    static TargetMap block(std::int64_t total, std::int64_t nprocs, std::int64_t first_key = 0);
    /// Map keys by search among ascending values: keys below values[0] go to process 0, and so on.
    /// Number is double, std::int64_t or std::uint64_t; integers, as values or as keys, are
    /// compared exactly. Throws invalid_argument if values do not ascend or are not numbers,
    /// mismatch if there are not nprocs - 1 of them. O(log nprocs) per key.
    template <class Number = double>
    static TargetMap splitters(const std::vector<Number>& values, std::int64_t nprocs);
    /// Map positions in space to the owners of their cells. `owners` holds the process of each cell
    /// along the order, or -1 to drop; empty: equal contiguous parts of the order. Throws
    /// invalid_argument, mismatch (owners do not fit the cells), out_of_range (2^31 cells or more,
    /// an owner that is not a rank).
    static TargetMap cells(const CellBox& box, CellOrder order, std::int64_t nprocs,
                           std::span<const std::int64_t> owners = {});

    /// The rank of a key without a target (not a number, a block number outside); a Migration
    /// rejects it.
    static constexpr std::int64_t no_target = -2;

    /// Write the targets of `count` elements from `first`. Throws wrong_type if the keys are not of
    /// the kind that the map requires.
    void evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                  std::int64_t* targets) const;

private:
    using Loop = std::function<void(const ElementKeys&, std::int64_t, std::int64_t, std::int64_t*)>;
    explicit TargetMap(Loop loop) : loop_(std::move(loop)) {}
    Loop loop_;
};

}  // namespace datamover
