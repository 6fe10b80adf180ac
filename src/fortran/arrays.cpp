// SPDX-License-Identifier: BSD-3-Clause
// Fortran arrays with their strides as blocks.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fortran_calls.hpp"

using namespace datamover;
using datamover::fortran::check;
using datamover::fortran::guarded;

namespace {

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

/// Throws unless more of a layout and of a type may be attached.
void check_same(const datamover_attached& attached, const datamover_layout* layout,
                datamover_type type, std::int64_t elem_bytes) {
    int same_layout = 0;
    check(datamover_layout_equal(attached.layout, layout, &same_layout));
    if (same_layout == 0)
        throw Error(ErrorCode::mismatch, "an array is attached with one layout; detach first");
    if (attached.type != type || attached.elem_bytes != elem_bytes)
        throw make_error(ErrorCode::wrong_type,
                         "blocks of one array have elements of one type; these have ", elem_bytes,
                         " bytes, those before ", attached.elem_bytes);
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

/// The block that `a` holds with its ghosts, first element first.
AttachedBlock described(const datamover_memory& a, const datamover_layout* layout,
                        std::int64_t block, const std::int64_t* ghost_lower,
                        const std::int64_t* ghost_upper) {
    int dims = 0;
    check(datamover_layout_dims(layout, &dims));
    std::array<std::int64_t, max_dims> extents{};
    check(datamover_layout_block_extents(layout, block, extents.data()));
    if (a.dims != dims)
        throw make_error(ErrorCode::mismatch, "the array has ", a.dims, " dimensions, the layout ",
                         dims);
    AttachedBlock found{block, nullptr, {}, {}, {}};
    auto* origin = static_cast<char*>(a.first);
    bool empty = false;
    for (int d = 0; d < dims; ++d) {
        const auto i = static_cast<std::size_t>(d);
        const std::int64_t lower = ghost_lower ? ghost_lower[d] : 0,
                           upper = ghost_upper ? ghost_upper[d] : 0;
        std::int64_t wanted = 0;
        if (lower < 0 || upper < 0 || __builtin_add_overflow(extents[i], lower, &wanted) ||
            __builtin_add_overflow(wanted, upper, &wanted))
            throw make_error(ErrorCode::invalid_argument, "ghosts are ", lower, " and ", upper,
                             " deep in dimension ", d + 1);
        if (a.extents[d] != wanted && !a.first)
            throw Error(ErrorCode::invalid_argument, "the array is not allocated, or is empty");
        if (a.extents[d] != wanted)
            throw make_error(ErrorCode::mismatch, "the array has extent ", a.extents[d],
                             " in dimension ", d + 1, "; block ", block + 1,
                             " with its ghosts has ", wanted);
        empty = empty || wanted == 0;
        found.strides_bytes[i] = a.strides_bytes[d];
        found.ghost_lower[i] = lower, found.ghost_upper[i] = upper;
        if (!empty) origin += lower * a.strides_bytes[d];
    }
    if (!a.first && !empty) throw Error(ErrorCode::invalid_argument, "the array is not allocated");
    found.origin = empty ? nullptr : origin;
    return found;
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
                             const std::int64_t* ghost_lower, const std::int64_t* ghost_upper) {
    return guarded([&] {
        const auto type = static_cast<datamover_type>(a->elem_type);
        // Of what is not allocated the extents are nobody's.
        if (a->first && a->dims > 0 && a->extents[a->dims - 1] == -1)
            throw Error(ErrorCode::invalid_argument,
                        "the array is of assumed size: its last extent is not known here");
        if (*attached) check_same(**attached, layout, type, a->elem_bytes);
        std::optional<AttachedBlock> found;
        if (block >= 0) found = described(*a, layout, block, ghost_lower, ghost_upper);
        if (!*attached) {
            auto made = std::make_unique<datamover_attached>(type, a->elem_bytes);
            check(datamover_layout_duplicate(layout, &made->layout));
            *attached = made.release();
        }
        if (found) (*attached)->blocks.push_back(*found);
    });
}

int datamover_fortran_detach(datamover_attached** attached) {
    delete *attached;
    *attached = nullptr;
    return DATAMOVER_SUCCESS;
}

int datamover_fortran_array(const datamover_attached* attached, datamover_array** array) {
    return guarded([&] {
        if (!attached)
            throw Error(ErrorCode::invalid_state,
                        "nothing is attached to an array; attach tells the element type at least");
        std::vector<datamover_block> blocks;
        for (const AttachedBlock& b : attached->blocks)
            blocks.push_back({b.block, b.origin, b.strides_bytes.data(), b.ghost_lower.data(),
                              b.ghost_upper.data()});
        check(datamover_array_of_blocks(attached->layout, attached->type, attached->elem_bytes,
                                        blocks.data(), static_cast<std::int64_t>(blocks.size()),
                                        array));
    });
}

}  // extern "C"
