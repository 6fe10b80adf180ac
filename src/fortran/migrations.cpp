// SPDX-License-Identifier: BSD-3-Clause
// Fortran arrays as element columns, keys and result buffers.
#include <mpi.h>

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include "datamover/distribute.h"
#include "fortran_calls.hpp"

namespace {

using datamover::fortran::refuse;

/// An array as elements: the last dimension counts them, those before it make up one.
struct Elements {
    std::int64_t elems = 1, elem_bytes = 0, stride_bytes = 0;
};

int describe(const datamover_memory& a, const char* name, Elements& described) {
    described = {1, a.elem_bytes, a.elem_bytes};
    // Its extents are undefined then; an array without elements has an address.
    if (!a.first)
        return refuse(DATAMOVER_INVALID_ARGUMENT, std::string(name) + " is not allocated");
    for (int d = 0; d < a.dims; ++d) {
        if (a.extents[d] < 0)
            return refuse(
                DATAMOVER_INVALID_ARGUMENT,
                std::string(name) + " is of assumed size: its last extent is not known here");
        const bool last = d == a.dims - 1;
        if (last) {
            described.elems = a.extents[d];
            if (a.extents[d] > 1) described.stride_bytes = a.strides_bytes[d];
            break;
        }
        if (a.extents[d] > 1 && a.strides_bytes[d] != described.elem_bytes)
            return refuse(DATAMOVER_INVALID_ARGUMENT,
                          std::string(name) +
                              " has gaps inside its elements, which are all but "
                              "the last of its dimensions");
        if (__builtin_mul_overflow(described.elem_bytes, a.extents[d], &described.elem_bytes))
            return refuse(DATAMOVER_OUT_OF_RANGE, std::string(name) + " is too large");
        described.stride_bytes = described.elem_bytes;
    }
    return DATAMOVER_SUCCESS;
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

    std::int64_t count() const { return static_cast<std::int64_t>(columns.size()); }
};

int describe(const CFI_cdesc_t* columns, const CFI_cdesc_t* results, Arrays& arrays) {
    if (columns->rank > 1 || results->rank > 1)
        return refuse(DATAMOVER_INVALID_ARGUMENT,
                      "columns and results are each one datamover_memory, or a vector of them");
    const auto from = all_of(columns), to = all_of(results);
    if (from.size() != to.size())
        return refuse(DATAMOVER_MISMATCH, "there are " + std::to_string(from.size()) +
                                              " columns and " + std::to_string(to.size()) +
                                              " results");
    for (std::size_t k = 0; k < from.size(); ++k) {
        Elements given, arriving;
        if (const int code = describe(*from[k], "a column", given)) return code;
        if (const int code = describe(*to[k], "a result", arriving)) return code;
        if (given.elem_bytes != arriving.elem_bytes || from[k]->elem_type != to[k]->elem_type)
            return refuse(DATAMOVER_WRONG_TYPE,
                          "a column has elements of " + std::to_string(given.elem_bytes) +
                              " bytes, its result of " + std::to_string(arriving.elem_bytes) +
                              ", or they are of two types");
        if (arriving.stride_bytes != arriving.elem_bytes)
            return refuse(DATAMOVER_INVALID_ARGUMENT, "a result has gaps between its elements");
        arrays.columns.push_back({from[k]->first, given.elems, given.elem_bytes, given.stride_bytes,
                                  static_cast<datamover_type>(from[k]->elem_type)});
        arrays.results.push_back({to[k]->first, arriving.elems});
    }
    return DATAMOVER_SUCCESS;
}

/// Fills `arrays`; a code where it cannot.
int described(const CFI_cdesc_t* columns, const CFI_cdesc_t* results, Arrays& arrays) try {
    return describe(columns, results, arrays);
} catch (const std::exception&) {
    return refuse(DATAMOVER_NO_MEMORY, "out of memory");
}

}  // namespace

extern "C" {

int datamover_fortran_keys(const datamover_memory* memory, datamover_keys* keys) {
    Elements elements;
    if (const int code = describe(*memory, "the array of keys", elements)) return code;
    if (memory->dims < 1 || memory->dims > 2)
        return refuse(DATAMOVER_MISMATCH, "the array of keys has " + std::to_string(memory->dims) +
                                              " dimensions; it has one, or two where keys have "
                                              "several numbers");
    const std::int64_t dims = memory->dims == 2 ? memory->extents[0] : 1;
    if (dims < 1 || dims > INT_MAX)
        return refuse(DATAMOVER_INVALID_ARGUMENT, "keys of " + std::to_string(dims) + " numbers");
    *keys = {elements.elems, static_cast<int>(dims), memory->first,
             static_cast<datamover_type>(memory->elem_type), elements.stride_bytes};
    return DATAMOVER_SUCCESS;
}

int datamover_fortran_target_ranks(const datamover_target_map* map, const datamover_memory* memory,
                                   std::int64_t num_ranks, std::int64_t* ranks) {
    datamover_keys described{};
    if (const int code = datamover_fortran_keys(memory, &described)) return code;
    if (described.elems != num_ranks)
        return refuse(DATAMOVER_MISMATCH, "there are keys of " + std::to_string(described.elems) +
                                              " elements, and ranks has " +
                                              std::to_string(num_ranks));
    return datamover_target_map_ranks(map, &described, ranks);
}

int datamover_fortran_targets(const datamover_memory* ranks, datamover_targets* targets) {
    Elements rows;
    if (const int code = describe(*ranks, "the array of ranks", rows)) return code;
    if (ranks->dims < 1 || ranks->dims > 2)
        return refuse(DATAMOVER_MISMATCH, "the array of ranks has " + std::to_string(ranks->dims) +
                                              " dimensions; it has one, or two where elements "
                                              "have several ranks");
    const bool several = ranks->dims == 2;
    if (several && rows.elems > 1 && rows.stride_bytes != rows.elem_bytes)
        return refuse(DATAMOVER_INVALID_ARGUMENT, "the array of ranks has gaps");
    if (several && ranks->extents[0] == 0)
        return refuse(DATAMOVER_INVALID_ARGUMENT, "the array of ranks has none for an element");
    *targets = {rows.elems, several ? ranks->extents[0] : 1, ranks->first,
                static_cast<datamover_type>(ranks->elem_type),
                several ? ranks->elem_bytes : rows.stride_bytes};
    return DATAMOVER_SUCCESS;
}

int datamover_fortran_migration_start(datamover_migration* migration, const CFI_cdesc_t* columns,
                                      const CFI_cdesc_t* results) {
    Arrays arrays;
    if (const int code = described(columns, results, arrays))
        return datamover_migration_start_as_failed(migration, code, nullptr);
    return datamover_migration_start(migration, arrays.count(), arrays.columns.data(),
                                     arrays.results.data());
}

int datamover_fortran_migration_move(datamover_migration* migration, const CFI_cdesc_t* columns,
                                     const CFI_cdesc_t* results) {
    Arrays arrays;
    if (const int code = described(columns, results, arrays))
        return datamover_migration_join_as_failed(migration, code, nullptr);
    return datamover_migration_move(migration, arrays.count(), arrays.columns.data(),
                                    arrays.results.data());
}

int datamover_fortran_migration_reverse(datamover_migration* migration, const CFI_cdesc_t* values,
                                        const CFI_cdesc_t* results, const char* op) {
    Arrays arrays;
    if (const int code = described(values, results, arrays))
        return datamover_migration_join_as_failed(migration, code, nullptr);
    return datamover_migration_reverse(migration, arrays.count(), arrays.columns.data(),
                                       arrays.results.data(), op);
}

}  // extern "C"
