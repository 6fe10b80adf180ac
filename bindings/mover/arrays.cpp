// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of arrays: library arrays and NumPy arrays become parts that a mover binds;
// arrays in shared MPI windows; a relation as an MPI datatype.
#include "datamover/advanced/relation_datatype.hpp"
#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "module.hpp"

namespace datamover::bindings {
namespace {

ScalarType scalar_from_name(const std::string& name) {
    for (int i = 0; i < scalar_type_count; ++i)
        if (name == scalar_name(static_cast<ScalarType>(i))) return static_cast<ScalarType>(i);
    return ScalarType::opaque;
}

/// One of the user's arrays: number of the block, address, shape with ghosts, byte strides, and
/// widths of the ghosts below and above.
using UserArray = std::tuple<std::int64_t, std::uintptr_t, Point, Point, Point, Point>;

/// Throws mismatch unless the array has the shape of its block with ghosts.
UserBlock placed(const UserArray& array, const Layout& layout) {
    const auto& [block, address, shape, strides_bytes, lower, upper] = array;
    const Point extents = layout.block_extents(block);
    const bool same_dims = extents.dims() == shape.dims() && lower.dims() == extents.dims();
    const Point wanted = same_dims ? extents + lower + upper : extents;
    if (!same_dims || !(shape == wanted)) {
        const bool may_hold_ghosts = same_dims && wanted == extents &&
                                     Region::from_shape(shape).contains(Region::from_shape(wanted));
        throw make_error(
            ErrorCode::mismatch, "the array for block ", block, " has shape ", shape,
            ", its layout requires ", wanted,
            may_hold_ghosts
                ? "; if the array has ghosts, pass dm.advanced.UserArrays(array, ghost=...)"
                : "");
    }
    std::int64_t to_origin_bytes = 0;
    for (int d = 0; d < lower.dims(); ++d) to_origin_bytes += lower[d] * strides_bytes[d];
    return {block, reinterpret_cast<std::byte*>(address) + to_origin_bytes, strides_bytes, lower,
            upper};
}

/// A Python object as an owner of memory: released by whichever thread drops it last.
std::shared_ptr<const void> kept_alive(nb::object object) {
    return {object.release().ptr(), [](const void* p) {
                if (!Py_IsInitialized()) return;
                const nb::gil_scoped_acquire acquired;
                Py_DECREF(static_cast<PyObject*>(const_cast<void*>(p)));
            }};
}

/// All bytes of an array's memory on this process as a NumPy array that keeps them alive.
NumpyArray<std::uint8_t> bytes_of(const Array& array) {
    ArrayPart part = array.part();
    auto* const base = reinterpret_cast<std::uint8_t*>(part.base);
    return array_over(base, {static_cast<std::size_t>(part.memory.end_bytes)}, std::move(part));
}

/// Keeps the memory known.
struct WindowMemory {
    std::shared_ptr<const void> memory;
};

}  // namespace

void bind_arrays(nb::module_& m) {
    // One process's part of an array, as movers bind it.
    nb::class_<ArrayPart>(m, "ArrayPart");
    // The memory of a distributed array made by the library.
    nb::class_<Array>(m, "XArray")
        .def(
            "__init__",
            [](Array* self, std::uintptr_t comm, const Layout& layout, std::int64_t elem_bytes,
               const std::string& type, const std::string& order, const Point& ghost_lower,
               const Point& ghost_upper) {
                const ArrayOptions options{scalar_from_name(type), element_order(order),
                                           ghost_lower, ghost_upper};
                new (self) Array(comm_at(comm), layout, elem_bytes, options);
            },
            "comm_address"_a, "layout"_a, "elem_bytes"_a, "type"_a, "order"_a, "ghost_lower"_a,
            "ghost_upper"_a, nb::call_guard<Unlocked>())
        // Whether the node's other processes can reach it.
        .def_prop_ro("shared", &Array::shared)
        // The part of this process.
        .def("part", &Array::part)
        // All bytes of this process's memory, uint8, kept alive.
        .def("bytes", &bytes_of)
        // For every local block: number, byte offset of local index 0, byte strides, lowest legal
        // local index, shape with ghosts (blocks without elements have none).
        .def("blocks",
             [](const Array& a) {
                 nb::list blocks;
                 for (const BlockMemory& b : a.part().memory.blocks) {
                     const Point shape =
                         b.valid.empty() ? a.layout().block_extents(b.block) : b.valid.shape();
                     blocks.append(nb::make_tuple(b.block, b.offset_bytes, b.strides_bytes,
                                                  b.valid.lo(), shape));
                 }
                 return blocks;
             })
        // The places of all local blocks with elements.
        .def("memory",
             [](const Array& a) {
                 MemoryLayout memory = a.part().memory;
                 std::erase_if(memory.blocks, [](const auto& b) { return b.valid.empty(); });
                 return memory;
             })
        // Drops the reference to the memory. Local.
        .def("free", &Array::close);
    // The part that arrays of the user make up. `owner` lives as long as the part. Local.
    m.def(
        "user_part",
        [](const Layout& layout, nb::list arrays, std::int64_t elem_bytes, const std::string& type,
           bool writable, nb::object owner) {
            std::vector<UserBlock> places;
            for (nb::handle array : arrays)
                places.push_back(placed(nb::cast<UserArray>(array), layout));
            ArrayPart part =
                user_part(layout, places, elem_bytes, scalar_from_name(type), writable);
            part.owner = kept_alive(std::move(owner));
            return part;
        },
        "layout"_a, "arrays"_a, "elem_bytes"_a, "type"_a, "writable"_a, "owner"_a);
    // Memory of a shared window, known as such.
    nb::class_<WindowMemory>(m, "WindowMemory");
    // Makes known that bytes of this process lie in a shared window. Local.
    m.def(
        "in_window",
        [](std::uintptr_t window, std::uintptr_t address, std::int64_t bytes) {
            return WindowMemory{in_window(*reinterpret_cast<MPI_Win*>(window),
                                          reinterpret_cast<void*>(address), bytes)};
        },
        "window_address"_a, "address"_a, "bytes"_a);
    // Handles lie at addresses (mpi4py's MPI._addressof): that of the element's type, 0 for bytes,
    // and that of the handle to be set.
    // Set a datatype's handle to one side of a relation. Local.
    m.def(
        "make_relation_datatype",
        [](const AddressRelation& relation, const std::string& side, std::uintptr_t element,
           std::uintptr_t result) {
            const MPI_Datatype elem =
                element == 0 ? MPI_DATATYPE_NULL : *reinterpret_cast<MPI_Datatype*>(element);
            *reinterpret_cast<MPI_Datatype*>(result) =
                relation_datatype(relation, side_of(side), elem);
        },
        "relation"_a, "side"_a, "element"_a, "result"_a);
}

}  // namespace datamover::bindings
