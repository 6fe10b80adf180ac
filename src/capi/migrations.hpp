// SPDX-License-Identifier: BSD-3-Clause
// C interface of migrations: targets and maps that give them, columns and results.
#pragma once

#include "distribute/space_curve.hpp"
#include "distribute/target_codes.hpp"
#include "geometry/checked.hpp"
#include "handles.hpp"

namespace datamover::capi {

inline TargetList target_list(const datamover_targets& targets) {
    if (targets.elems < 0 || targets.targets_per_elem < 0)
        throw make_error(ErrorCode::invalid_argument, targets.elems, " elements with ",
                         targets.targets_per_elem, " targets each make no sense");
    TargetList list;
    list.elems = targets.elems;
    list.targets_per_elem = targets.targets_per_elem == 0 ? 1 : targets.targets_per_elem;
    const std::int64_t entries = geometry::multiply(list.elems, list.targets_per_elem);
    list.data = memory_for(entries, targets.data, "targets");
    list.type = scalar_type(targets.type);
    list.stride_bytes = targets.stride_bytes == 0 ? scalar_bytes(list.type) : targets.stride_bytes;
    return list;
}

inline std::vector<ElementColumn> columns_of(std::int64_t elems, std::int64_t num_columns,
                                             const datamover_column* columns) {
    std::vector<ElementColumn> all;
    for (const datamover_column& c : values(columns, num_columns, "columns")) {
        if (c.elems != elems)
            throw make_error(ErrorCode::mismatch, "a column has ", c.elems,
                             " elements; it must have ", elems);
        ElementColumn& column = all.emplace_back();
        column.data = c.data;
        column.elem_bytes = c.elem_bytes;
        if (c.stride_bytes != 0) column.stride_bytes = c.stride_bytes;
        column.type = scalar_type(c.type);
    }
    return all;
}

/// Room for the elements of columns.
inline std::vector<ElementBuffer> results_of(std::int64_t num_columns,
                                             const datamover_column* columns,
                                             const datamover_room* results) {
    std::vector<ElementBuffer> all;
    const auto given_columns = values(columns, num_columns, "columns");
    for (const datamover_room& room : values(results, num_columns, "results")) {
        if (room.elems < 0)
            throw make_error(ErrorCode::invalid_argument, "a result has room for ", room.elems,
                             " elements");
        const std::int64_t elem_bytes =
            std::max<std::int64_t>(given_columns[all.size()].elem_bytes, 0);
        all.push_back(
            {static_cast<std::byte*>(room.data), geometry::multiply(room.elems, elem_bytes), {}});
    }
    return all;
}

/// Starts a move; one whose arguments are invalid ends with the error in test or wait.
inline void start(Migration& migration, std::int64_t num_columns, const datamover_column* columns,
                  const datamover_room* results) {
    std::vector<ElementColumn> moved;
    std::vector<ElementBuffer> arriving;
    try {
        moved = columns_of(migration.elems(), num_columns, columns);
        arriving = results_of(num_columns, columns, results);
    } catch (const Error& e) {
        return migration.start_refused(e);
    } catch (const std::exception&) {
        return migration.start_refused(Error(ErrorCode::no_memory, "out of memory"));
    }
    migration.start(moved, arriving);
}

template <class Number>
TargetMap splitters(const void* numbers, std::int64_t nprocs) {
    const auto count = std::max<std::int64_t>(0, nprocs - 1);
    return TargetMap::splitters(values(static_cast<const Number*>(numbers), count, "values"),
                                nprocs);
}

inline TargetMap splitters(datamover_type type, const void* numbers, std::int64_t nprocs) {
    switch (scalar_type(type)) {
        case ScalarType::float64:
            return splitters<double>(numbers, nprocs);
        case ScalarType::int64:
            return splitters<std::int64_t>(numbers, nprocs);
        case ScalarType::uint64:
            return splitters<std::uint64_t>(numbers, nprocs);
        default:
            throw make_error(ErrorCode::wrong_type,
                             "splitters must be of float64, int64 or uint64, not of ",
                             scalar_name(scalar_type(type)));
    }
}

inline TargetMap cells(const datamover_cell_box& given_box, const char* order,
                       const std::int64_t* owners, std::int64_t nprocs) {
    const int dims = checked_dims(given_box.dims);
    const CellBox box{values(given_box.lo, dims, "lo"), values(given_box.hi, dims, "hi"),
                      values(given_box.cells, dims, "cells"), given_box.periodic != 0};
    const CellOrder along = order ? cell_order_from_name(order) : CellOrder::row_major;
    if (!owners) return TargetMap::cells(box, along, nprocs);
    const auto table = values(owners, distribute::cell_total(box.cells), "owners");
    return TargetMap::cells(box, along, nprocs, table);
}

inline ElementKeys element_keys(const datamover_keys& given_keys) {
    if (given_keys.elems < 0 || given_keys.dims < 0)
        throw make_error(ErrorCode::invalid_argument, given_keys.elems, " elements with keys of ",
                         given_keys.dims, " numbers make no sense");
    ElementKeys keys;
    keys.data = memory_for(given_keys.elems, given_keys.data, "keys");
    keys.type = scalar_type(given_keys.type);
    keys.dims = given_keys.dims == 0 ? 1 : given_keys.dims;
    const std::int64_t key_bytes = scalar_bytes(keys.type) * keys.dims;
    keys.stride_bytes = given_keys.stride_bytes == 0 ? key_bytes : given_keys.stride_bytes;
    distribute::check_addresses(keys.data, given_keys.elems, keys.stride_bytes, key_bytes);
    return keys;
}

inline TargetList targets_of(const TargetMap& map, const datamover_keys& keys) {
    TargetList list;
    list.elems = keys.elems;
    list.evaluate = [map, described = element_keys(keys)](std::int64_t first, std::int64_t count,
                                                          std::int64_t* targets) {
        map.evaluate(described, first, count, targets);
    };
    return list;
}
inline void write_ranks(const TargetMap& map, const datamover_keys& keys, std::int64_t* ranks) {
    map.evaluate(element_keys(keys), 0, keys.elems, memory_for(keys.elems, ranks, "ranks"));
}

}  // namespace datamover::capi
