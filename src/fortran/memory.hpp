// SPDX-License-Identifier: BSD-3-Clause
// Fortran's array descriptors, as the C functions of the module read them.
#pragma once

#include <ISO_Fortran_binding.h>

#include <cstdint>
#include <string>

#include "datamover/datamover.h"

namespace datamover::fortran {

/// The module's datamover_memory: what a descriptor says, in memory of the program's.
struct Memory {
    void* first;
    std::int64_t elem_bytes;
    int elem_type, dims;
    std::int64_t extents[CFI_MAX_RANK], strides_bytes[CFI_MAX_RANK];
};
static_assert(CFI_MAX_RANK == 15, "the module's extents(15) and strides_bytes(15)");

inline int refuse(datamover_code code, const std::string& message) {
    return datamover_error_set(code, message.c_str());
}

}  // namespace datamover::fortran
