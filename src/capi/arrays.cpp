// SPDX-License-Identifier: BSD-3-Clause
// C interface: arrays of the library and of the user.
#include "geometry/make_error.hpp"
#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_array_block(const datamover_array* array, int64_t block, void** origin,
                          int64_t* strides_bytes) {
    return guarded([&] {
        const ArrayPart& part = value_of(array, "array");
        const BlockMemory* memory = part.memory.find(block);
        if (!memory)
            throw make_error(ErrorCode::out_of_range, "this process does not hold block ", block);
        if (origin) *origin = part.base + memory->offset_bytes;
        if (strides_bytes) write_point(memory->strides_bytes, strides_bytes, "strides_bytes");
    });
}
