// SPDX-License-Identifier: BSD-3-Clause
// Fortran arrays with their strides as blocks.
#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fortran_calls.hpp"

namespace {

using datamover::fortran::refuse;

constexpr int max_dims = 8;

/// One block of an array of the program's, with what its pointers point to.
struct AttachedBlock {
    std::int64_t block;
    void* origin;
    std::array<std::int64_t, max_dims> strides_bytes, ghost_lower, ghost_upper;
};

}  // namespace

/// What a program has attached so far: blocks of one layout and of one element type.
struct datamover_attached {
    datamover_type type = DATAMOVER_OPAQUE;
    std::int64_t elem_bytes = 0;
    datamover_layout* layout = nullptr;  ///< its own handle: the program may free the one it passed
    std::vector<AttachedBlock> blocks;

    datamover_attached(datamover_type of_type, std::int64_t bytes)
        : type(of_type), elem_bytes(bytes) {}
    ~datamover_attached() {
        if (layout) datamover_layout_free(&layout);
    }
    datamover_attached(const datamover_attached&) = delete;
    datamover_attached& operator=(const datamover_attached&) = delete;
};

namespace {

/// Whether more of a layout and of a type may be attached.
int check_same(const datamover_attached& attached, const datamover_layout* layout,
               datamover_type type, std::int64_t elem_bytes) {
    int same_layout = 0;
    if (const int code = datamover_layout_equal(attached.layout, layout, &same_layout)) return code;
    if (same_layout == 0)
        return refuse(DATAMOVER_MISMATCH, "an array is attached with one layout; detach first");
    if (attached.type != type || attached.elem_bytes != elem_bytes)
        return refuse(DATAMOVER_WRONG_TYPE,
                      "blocks of one array have elements of one type; these "
                      "have " +
                          std::to_string(elem_bytes) + " bytes, those before " +
                          std::to_string(attached.elem_bytes));
    return DATAMOVER_SUCCESS;
}

/// A number type of the library; all else, such as a derived type, is bytes.
datamover_type type_of(const CFI_cdesc_t& a) {
    // Kinds may share a number of C's; the first that fits is right.
    const CFI_type_t type = a.type;
    if (type == CFI_type_int8_t) return DATAMOVER_INT8;
    if (type == CFI_type_int16_t) return DATAMOVER_INT16;
    if (type == CFI_type_int32_t) return DATAMOVER_INT32;
    if (type == CFI_type_int64_t) return DATAMOVER_INT64;
    if (type == CFI_type_float) return DATAMOVER_FLOAT32;
    if (type == CFI_type_double) return DATAMOVER_FLOAT64;
    if (type == CFI_type_float_Complex) return DATAMOVER_COMPLEX64;
    if (type == CFI_type_double_Complex) return DATAMOVER_COMPLEX128;
    return DATAMOVER_OPAQUE;
}

std::string in_dimension(int d) {
    return " in dimension " + std::to_string(d + 1);
}

/// The block that `a` holds with its ghosts, first element first.
int describe(const datamover_memory& a, const datamover_layout* layout, std::int64_t block,
             const std::int64_t* ghost_lower, const std::int64_t* ghost_upper,
             AttachedBlock& described) {
    int dims = 0;
    if (const int code = datamover_layout_dims(layout, &dims)) return code;
    std::array<std::int64_t, max_dims> extents{};
    if (const int code = datamover_layout_block_extents(layout, block, extents.data())) return code;
    if (a.dims != dims)
        return refuse(DATAMOVER_MISMATCH, "the array has " + std::to_string(a.dims) +
                                              " dimensions, the layout " + std::to_string(dims));
    described.block = block;
    auto* origin = static_cast<char*>(a.first);
    bool empty = false;
    for (int d = 0; d < dims; ++d) {
        const auto i = static_cast<std::size_t>(d);
        const std::int64_t lower = ghost_lower ? ghost_lower[d] : 0,
                           upper = ghost_upper ? ghost_upper[d] : 0;
        std::int64_t wanted = 0;
        if (lower < 0 || upper < 0 || __builtin_add_overflow(extents[i], lower, &wanted) ||
            __builtin_add_overflow(wanted, upper, &wanted))
            return refuse(DATAMOVER_INVALID_ARGUMENT, "ghosts are " + std::to_string(lower) +
                                                          " and " + std::to_string(upper) +
                                                          " deep" + in_dimension(d));
        if (a.extents[d] != wanted && !a.first)
            return refuse(DATAMOVER_INVALID_ARGUMENT, "the array is not allocated, or is empty");
        if (a.extents[d] != wanted)
            return refuse(DATAMOVER_MISMATCH, "the array has extent " +
                                                  std::to_string(a.extents[d]) + in_dimension(d) +
                                                  "; block " + std::to_string(block + 1) +
                                                  " with its ghosts has " + std::to_string(wanted));
        empty = empty || wanted == 0;
        described.strides_bytes[i] = a.strides_bytes[d];
        described.ghost_lower[i] = lower, described.ghost_upper[i] = upper;
        if (!empty) origin += lower * a.strides_bytes[d];
    }
    if (!a.first && !empty) return refuse(DATAMOVER_INVALID_ARGUMENT, "the array is not allocated");
    described.origin = empty ? nullptr : origin;
    return DATAMOVER_SUCCESS;
}

}  // namespace

extern "C" {

/// Called by programs, as the module's datamover_memory.
DATAMOVER_PUBLIC datamover_memory datamover_fortran_memory(const CFI_cdesc_t* a) {
    datamover_memory memory{
        a->base_addr, static_cast<std::int64_t>(a->elem_len), type_of(*a), a->rank, {}, {}};
    for (int d = 0; d < a->rank; ++d) {
        memory.extents[d] = a->dim[d].extent;
        memory.strides_bytes[d] = a->dim[d].sm;
    }
    return memory;
}

int datamover_fortran_attach(datamover_attached** attached, const datamover_layout* layout,
                             const datamover_memory* a, std::int64_t block,
                             const std::int64_t* ghost_lower, const std::int64_t* ghost_upper) try {
    const auto type = static_cast<datamover_type>(a->elem_type);
    const std::int64_t elem_bytes = a->elem_bytes;
    // Of what is not allocated the extents are nobody's.
    if (a->first && a->dims > 0 && a->extents[a->dims - 1] == -1)
        return refuse(DATAMOVER_INVALID_ARGUMENT,
                      "the array is of assumed size: its last extent "
                      "is not known here");
    if (*attached)
        if (const int code = check_same(**attached, layout, type, elem_bytes)) return code;
    AttachedBlock described{};
    if (block >= 0)
        if (const int code = describe(*a, layout, block, ghost_lower, ghost_upper, described))
            return code;
    if (!*attached) {
        auto made = std::make_unique<datamover_attached>(type, elem_bytes);
        if (const int code = datamover_layout_duplicate(layout, &made->layout)) return code;
        *attached = made.release();
    }
    if (block >= 0) (*attached)->blocks.push_back(described);
    return DATAMOVER_SUCCESS;
} catch (const std::exception&) {
    return refuse(DATAMOVER_NO_MEMORY, "out of memory");
}

int datamover_fortran_detach(datamover_attached** attached) {
    delete *attached;
    *attached = nullptr;
    return DATAMOVER_SUCCESS;
}

int datamover_fortran_array(const datamover_attached* attached, datamover_array** array) try {
    if (!attached)
        return refuse(DATAMOVER_INVALID_STATE,
                      "nothing is attached to an array; attach tells the element type at least");
    std::vector<datamover_block> blocks;
    for (const AttachedBlock& b : attached->blocks)
        blocks.push_back({b.block, b.origin, b.strides_bytes.data(), b.ghost_lower.data(),
                          b.ghost_upper.data()});
    return datamover_array_of_blocks(attached->layout, attached->type, attached->elem_bytes,
                                     blocks.data(), static_cast<std::int64_t>(blocks.size()),
                                     array);
} catch (const std::exception&) {
    return refuse(DATAMOVER_NO_MEMORY, "out of memory");
}

}  // extern "C"
