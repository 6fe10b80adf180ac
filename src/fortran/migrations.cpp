// SPDX-License-Identifier: BSD-3-Clause
// Fortran arrays as element columns, keys and result buffers.

#include <climits>
#include <cstdint>
#include <vector>

#include "datamover/distribute.h"
#include "fortran_calls.hpp"

using namespace datamover;
using datamover::fortran::check;
using datamover::fortran::guarded;

namespace {

/// An array as elements: the last dimension counts them, those before it make up one.
struct Elements {
    std::int64_t elems = 1, elem_bytes = 0, stride_bytes = 0;
};

Elements elements_of(const datamover_memory& a, const char* name) {
    Elements found{1, a.elem_bytes, a.elem_bytes};
    // Its extents are undefined then; an array without elements has an address.
    if (!a.first) throw make_error(ErrorCode::invalid_argument, name, " is not allocated");
    for (int d = 0; d < a.dims; ++d) {
        if (a.extents[d] < 0)
            throw make_error(ErrorCode::invalid_argument, name,
                             " is of assumed size: its last extent is not known here");
        if (d == a.dims - 1) {
            found.elems = a.extents[d];
            if (a.extents[d] > 1) found.stride_bytes = a.strides_bytes[d];
            break;
        }
        if (a.extents[d] > 1 && a.strides_bytes[d] != found.elem_bytes)
            throw make_error(ErrorCode::invalid_argument, name,
                             " has gaps inside its elements, which are all but the last of its "
                             "dimensions");
        if (__builtin_mul_overflow(found.elem_bytes, a.extents[d], &found.elem_bytes))
            throw make_error(ErrorCode::out_of_range, name, " is too large");
        found.stride_bytes = found.elem_bytes;
    }
    return found;
}

/// Throws mismatch unless an array has one dimension, or two.
void check_dims(const datamover_memory& a, const char* name, const char* where_two) {
    if (a.dims < 1 || a.dims > 2)
        throw make_error(ErrorCode::mismatch, name, " has ", a.dims,
                         " dimensions; it has one, or two where ", where_two);
}

/// One datamover_memory, or a vector of them.
std::vector<const datamover_memory*> all_of(const CFI_cdesc_t* list) {
    std::vector<const datamover_memory*> all;
    const std::int64_t count = list->rank == 0 ? 1 : list->dim[0].extent;
    const auto* first = static_cast<const char*>(list->base_addr);
    for (std::int64_t k = 0; k < count; ++k)
        all.push_back(reinterpret_cast<const datamover_memory*>(
            first + (list->rank == 0 ? 0 : k * list->dim[0].sm)));
    return all;
}

struct Arrays {
    std::vector<datamover_column> columns;
    std::vector<datamover_room> results;
};

Arrays arrays_of(const CFI_cdesc_t* columns, const CFI_cdesc_t* results) {
    if (columns->rank > 1 || results->rank > 1)
        throw Error(ErrorCode::invalid_argument,
                    "columns and results are each one datamover_memory, or a vector of them");
    const auto from = all_of(columns), to = all_of(results);
    if (from.size() != to.size())
        throw make_error(ErrorCode::mismatch, "there are ", from.size(), " columns and ", to.size(),
                         " results");
    Arrays arrays;
    for (std::size_t k = 0; k < from.size(); ++k) {
        const Elements given = elements_of(*from[k], "a column");
        const Elements arriving = elements_of(*to[k], "a result");
        if (given.elem_bytes != arriving.elem_bytes || from[k]->elem_type != to[k]->elem_type)
            throw make_error(ErrorCode::wrong_type, "a column has elements of ", given.elem_bytes,
                             " bytes, its result of ", arriving.elem_bytes,
                             ", or they are of two types");
        if (arriving.stride_bytes != arriving.elem_bytes)
            throw Error(ErrorCode::invalid_argument, "a result has gaps between its elements");
        arrays.columns.push_back({from[k]->first, given.elems, given.elem_bytes, given.stride_bytes,
                                  static_cast<datamover_type>(from[k]->elem_type)});
        arrays.results.push_back({to[k]->first, arriving.elems});
    }
    return arrays;
}

/// Calls `move` with the arrays, or `join_as_failed` with the code of the error in them.
template <class Move>
int moved(datamover_migration* migration, const CFI_cdesc_t* columns, const CFI_cdesc_t* results,
          decltype(&datamover_migration_join_as_failed) join_as_failed, Move&& move) {
    Arrays arrays;
    if (const int code = guarded([&] { arrays = arrays_of(columns, results); }))
        return join_as_failed(migration, code, nullptr);
    return move(static_cast<std::int64_t>(arrays.columns.size()), arrays.columns.data(),
                arrays.results.data());
}

}  // namespace

extern "C" {

int datamover_fortran_keys(const datamover_memory* memory, datamover_keys* keys) {
    return guarded([&] {
        const Elements elements = elements_of(*memory, "the array of keys");
        check_dims(*memory, "the array of keys", "keys have several numbers");
        const std::int64_t dims = memory->dims == 2 ? memory->extents[0] : 1;
        if (dims < 1 || dims > INT_MAX)
            throw make_error(ErrorCode::invalid_argument, "keys of ", dims, " numbers");
        *keys = {elements.elems, static_cast<int>(dims), memory->first,
                 static_cast<datamover_type>(memory->elem_type), elements.stride_bytes};
    });
}

int datamover_fortran_target_map_ranks(const datamover_target_map* map,
                                       const datamover_memory* memory, std::int64_t num_ranks,
                                       std::int64_t* ranks) {
    return guarded([&] {
        datamover_keys described{};
        check(datamover_fortran_keys(memory, &described));
        if (described.elems != num_ranks)
            throw make_error(ErrorCode::mismatch, "there are keys of ", described.elems,
                             " elements, and ranks has ", num_ranks);
        check(datamover_target_map_ranks(map, &described, ranks));
    });
}

int datamover_fortran_targets(const datamover_memory* ranks, datamover_targets* targets) {
    return guarded([&] {
        const Elements rows = elements_of(*ranks, "the array of ranks");
        check_dims(*ranks, "the array of ranks", "elements have several ranks");
        const bool several = ranks->dims == 2;
        if (several && rows.elems > 1 && rows.stride_bytes != rows.elem_bytes)
            throw Error(ErrorCode::invalid_argument, "the array of ranks has gaps");
        if (several && ranks->extents[0] == 0)
            throw Error(ErrorCode::invalid_argument, "the array of ranks has none for an element");
        *targets = {rows.elems, several ? ranks->extents[0] : 1, ranks->first,
                    static_cast<datamover_type>(ranks->elem_type),
                    several ? ranks->elem_bytes : rows.stride_bytes};
    });
}

int datamover_fortran_migration_start(datamover_migration* migration, const CFI_cdesc_t* columns,
                                      const CFI_cdesc_t* results) {
    return moved(migration, columns, results, datamover_migration_start_as_failed,
                 [&](auto... arrays) { return datamover_migration_start(migration, arrays...); });
}

int datamover_fortran_migration_move(datamover_migration* migration, const CFI_cdesc_t* columns,
                                     const CFI_cdesc_t* results) {
    return moved(migration, columns, results, datamover_migration_join_as_failed,
                 [&](auto... arrays) { return datamover_migration_move(migration, arrays...); });
}

int datamover_fortran_migration_reverse(datamover_migration* migration, const CFI_cdesc_t* values,
                                        const CFI_cdesc_t* results, const char* op) {
    return moved(
        migration, values, results, datamover_migration_join_as_failed,
        [&](auto... arrays) { return datamover_migration_reverse(migration, arrays..., op); });
}

}  // extern "C"
