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

/// Keys of elements in memory: `dims` scalars of one type next to each other, `stride_bytes` from
/// element to element.
struct ElementKeys {
    const void* data = nullptr;
    ScalarType type = ScalarType::float64;
    std::int64_t dims = 1;
    std::int64_t stride_bytes = 8;
};

/// In which order processes get the cells.
enum class CellOrder : std::uint8_t { row_major, morton, hilbert };
/// "row_major", "morton", "hilbert" to CellOrder. Throws invalid_argument.
CellOrder cell_order_from_name(const std::string& name);

/// The position of every cell along the curve, cells in row-major order. For cells that are no
/// power of two the curve runs through the enclosing power and skips what is outside. O(cells log
/// cells). Throws invalid_argument (no cells), out_of_range (more than 2^31).
std::vector<std::int64_t> cell_positions(std::span<const std::int64_t> cells, CellOrder order);

/// A box of space, cut into equal cells.
struct CellBox {
    std::vector<double> lo, hi;
    std::vector<std::int64_t> cells;  ///< per dimension
    bool periodic = false;  ///< positions outside are wrapped; else the nearest cell counts
};

/// A map from keys to target ranks, evaluated once per element, in loops without calls.
class TargetMap {
public:
    /// Integer keys: key modulo the number of processes, never negative. Throws invalid_argument
    /// where that is not 1 to 2^31 - 1.
    static TargetMap modulo(std::int64_t nprocs);
    /// `total` integer keys from `first_key` on, in blocks of ceil(total / nprocs), HPF's BLOCK;
    /// others have no target and are an error. Throws invalid_argument (a negative total, a number
    /// of processes as for modulo), out_of_range (keys beyond 64 bits).
    static TargetMap block(std::int64_t total, std::int64_t nprocs, std::int64_t first_key = 0);
    /// Keys up to (not including) values[0] go to process 0, and so on. Number is double,
    /// std::int64_t or std::uint64_t; integers, as values or as keys, are compared exactly. By
    /// search: O(log) each. Throws invalid_argument where values do not ascend or are not numbers,
    /// mismatch where they are not one fewer than processes.
    template <class Number = double>
    static TargetMap splitters(const std::vector<Number>& values, std::int64_t nprocs);
    /// Positions in space: the owner of the cell. `owners` tells the process of each cell along the
    /// order, or -1 to drop; empty: equal parts of the order, one after the other. Throws
    /// invalid_argument, mismatch (owners do not fit the cells), out_of_range (2^31 cells or more,
    /// an owner that is no rank).
    static TargetMap cells(const CellBox& box, CellOrder order, std::int64_t nprocs,
                           std::span<const std::int64_t> owners = {});

    /// What a key without a target gets (not a number, a block number outside); a Distribution
    /// refuses it.
    static constexpr std::int64_t no_target = -2;

    /// Writes the targets of `count` elements from `first` on. Throws wrong_type where the keys
    /// are not of the kind that the map wants.
    void evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                  std::int64_t* targets) const;

private:
    using Loop = std::function<void(const ElementKeys&, std::int64_t, std::int64_t, std::int64_t*)>;
    explicit TargetMap(Loop loop) : loop_(std::move(loop)) {}
    Loop loop_;
};

}  // namespace datamover
