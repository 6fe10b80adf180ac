// SPDX-License-Identifier: BSD-3-Clause
// C functions that only the Fortran module calls: Fortran's arrays in terms of the C interface.
#pragma once

#include <ISO_Fortran_binding.h>

#include <cstdint>
#include <exception>

#include "datamover/datamover.h"
#include "datamover/distribute.h"
#include "datamover/point.hpp"
#include "geometry/make_error.hpp"

/* Arrays of the program that are attached as blocks of a layout. */
struct datamover_attached;

/* The module's datamover_memory: the description of an array that a program passes. */
typedef struct datamover_memory {
    void* first;
    int64_t elem_bytes;
    int elem_type;
    int dims;
    int64_t extents[15];
    int64_t strides_bytes[15];
} datamover_memory;
static_assert(CFI_MAX_RANK == 15, "the module's extents(15) and strides_bytes(15)");

extern "C" {

/* Attach memory as a block of a layout, block -1: only its element type. A NULL handle gets a new
 * object. */
int datamover_fortran_attach(datamover_attached** attached, const datamover_layout* layout,
                             const datamover_memory* memory, int64_t block,
                             const int64_t* ghost_lower, const int64_t* ghost_upper);
/* Free the object; the handle is NULL then. */
int datamover_fortran_detach(datamover_attached** attached);
/* Make the array of all blocks that are attached. */
int datamover_fortran_array(const datamover_attached* attached, datamover_array** array);

/* Describe an array as the target ranks of elements: one rank each, or the first of two dimensions
 * counts those of one element. */
int datamover_fortran_targets(const datamover_memory* ranks, datamover_targets* targets);
/* Describe an array as the keys of elements: one number each, or several in the same way. */
int datamover_fortran_keys(const datamover_memory* memory, datamover_keys* keys);
/* Get the rank of every element by datamover_target_map_ranks. */
int datamover_fortran_target_map_ranks(const datamover_target_map* map,
                                       const datamover_memory* memory, int64_t num_ranks,
                                       int64_t ranks[]);

/* Move with a migration as the C functions of the same names, between arrays that are each one
 * datamover_memory, or a vector of them. */
int datamover_fortran_migration_start(datamover_migration* migration, const CFI_cdesc_t* columns,
                                      const CFI_cdesc_t* results);
int datamover_fortran_migration_move(datamover_migration* migration, const CFI_cdesc_t* columns,
                                     const CFI_cdesc_t* results);
int datamover_fortran_migration_reverse(datamover_migration* migration, const CFI_cdesc_t* values,
                                        const CFI_cdesc_t* results, const char* op);
}

namespace datamover::fortran {

/// Runs `work`; an error becomes its code and the message of datamover_error_message.
template <class Work>
int guarded(Work&& work) noexcept {
    try {
        work();
        return DATAMOVER_SUCCESS;
    } catch (const Error& e) {
        return datamover_error_set(static_cast<int>(e.code()), e.what());
    } catch (const std::exception&) {
        return datamover_error_set(DATAMOVER_NO_MEMORY, "out of memory");
    }
}

/// Throws the error of a call of the C interface that has failed.
inline void check(int code) {
    if (code != DATAMOVER_SUCCESS)
        throw Error(static_cast<ErrorCode>(code), datamover_error_message());
}

}  // namespace datamover::fortran
