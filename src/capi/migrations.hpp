// SPDX-License-Identifier: BSD-3-Clause
// C interface of migrations: targets, columns and results.
#pragma once

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
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

}  // namespace datamover::capi
