// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of memory layouts. As MemoryLayout and BlockMemory.
#include "datamover/memory_layout.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

#include "casters.hpp"
#include "named_arguments.hpp"
#include "orders.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::in_all_dims;
using bindings::integer_of;

namespace {

MemoryLayout dense(const Layout& layout, std::int64_t rank, std::int64_t elem_bytes,
                   const std::string& order, const Point& ghost, const Point& ghost_upper) {
    const Point lower = in_all_dims(ghost, layout.dims());
    const Point upper = ghost_upper.dims() > 0 ? in_all_dims(ghost_upper, layout.dims()) : lower;
    const bool none = lower == Point::filled(layout.dims(), 0) && upper == lower;
    return dense_memory(layout, rank, elem_bytes, bindings::element_order(order),
                        none ? Point{} : lower, none ? Point{} : upper);
}

}  // namespace

void bind_memory_layout(nb::module_& m) {
    nb::class_<BlockMemory>(m, "BlockMemory",
                            R"doc(Where one block lies in the memory of its process.

Parameters
----------
block : int
    The block's number.
offset_bytes : int
    Of the element with local index zero, from the array's base.
strides_bytes : sequence of int
    Bytes from one index to the next, for each dimension.
valid : Region
    The local indices that exist; ghosts have negative ones, or ones beyond the block's extents.
)doc")
        .def(
            "__init__",
            [](BlockMemory* self, nb::handle block, nb::handle offset_bytes,
               nb::handle strides_bytes, nb::handle valid) {
                const BlockMemory given{integer_of(block, "block"),
                                        integer_of(offset_bytes, "offset_bytes"),
                                        bindings::point_of(strides_bytes, "strides_bytes"),
                                        bindings::region_of(valid, "valid")};
                if (given.strides_bytes.dims() != given.valid.dims())
                    throw Error(ErrorCode::mismatch,
                                "strides " + given.strides_bytes.to_string() + " for a block of " +
                                    std::to_string(given.valid.dims()) + " dimensions");
                new (self) BlockMemory(given);
            },
            "block"_a.none(), "offset_bytes"_a.none(), "strides_bytes"_a.none(), "valid"_a.none(),
            nb::sig("def __init__(self, block: int, offset_bytes: int, "
                    "strides_bytes: int | collections.abc.Sequence[int], valid: Region) -> None"))
        .def_ro("block", &BlockMemory::block, "The block's number.")
        .def_ro("offset_bytes", &BlockMemory::offset_bytes, "Of local index zero, from the base.")
        .def_prop_ro(
            "strides_bytes", [](const BlockMemory& b) { return b.strides_bytes; },
            "Bytes from one index to the next.")
        .def_ro("valid", &BlockMemory::valid, "The local indices that exist, ghosts included.")
        .def(
            "__eq__", [](const BlockMemory& a, const BlockMemory& b) { return a == b; },
            nb::is_operator())
        .def("__repr__",
             [](const BlockMemory& b) {
                 return "<BlockMemory of block " + std::to_string(b.block) + ": " +
                        b.valid.to_string() + ", strides " + b.strides_bytes.to_string() +
                        " bytes from byte " + std::to_string(b.offset_bytes) + ">";
             })
        .def("__getstate__",
             [](const BlockMemory& b) {
                 return nb::make_tuple(b.block, b.offset_bytes, b.strides_bytes, b.valid);
             })
        .def("__setstate__", [](BlockMemory& b, const nb::tuple& state) {
            new (&b) BlockMemory{nb::cast<std::int64_t>(state[0]), nb::cast<std::int64_t>(state[1]),
                                 nb::cast<Point>(state[2]), nb::cast<Region>(state[3])};
        });

    nb::class_<MemoryLayout>(m, "MemoryLayout",
                             R"doc(The memory of one process: where each of its blocks lies.

Parameters
----------
blocks : sequence of BlockMemory
    Ascending by number.
begin_bytes, end_bytes : int
    The lowest address that they touch, from the base, and one past the highest.
)doc")
        .def(
            "__init__",
            [](MemoryLayout* self, nb::handle given, nb::handle begin_bytes, nb::handle end_bytes) {
                auto blocks = bindings::value_of<std::vector<BlockMemory>>(
                    given, "blocks", "a sequence of BlockMemory");
                const auto before = [](const BlockMemory& a, const BlockMemory& b) {
                    return a.block < b.block;
                };
                std::sort(blocks.begin(), blocks.end(), before);
                new (self) MemoryLayout{std::move(blocks), integer_of(begin_bytes, "begin_bytes"),
                                        integer_of(end_bytes, "end_bytes")};
            },
            "blocks"_a.none(), "begin_bytes"_a.none(), "end_bytes"_a.none(),
            nb::sig("def __init__(self, blocks: collections.abc.Sequence[BlockMemory], "
                    "begin_bytes: int, end_bytes: int) -> None"))
        .def_ro("blocks", &MemoryLayout::blocks, "The blocks, ascending by number.")
        .def_ro("begin_bytes", &MemoryLayout::begin_bytes, "The lowest address, from the base.")
        .def_ro("end_bytes", &MemoryLayout::end_bytes, "One past the highest address.")
        .def(
            "__eq__", [](const MemoryLayout& a, const MemoryLayout& b) { return a == b; },
            nb::is_operator())
        .def("__repr__",
             [](const MemoryLayout& l) {
                 return "<MemoryLayout of " + std::to_string(l.blocks.size()) +
                        " blocks in bytes " + std::to_string(l.begin_bytes) + " to " +
                        std::to_string(l.end_bytes) + ">";
             })
        .def("__getstate__",
             [](const MemoryLayout& l) {
                 return nb::make_tuple(l.blocks, l.begin_bytes, l.end_bytes);
             })
        .def("__setstate__", [](MemoryLayout& l, const nb::tuple& state) {
            new (&l)
                MemoryLayout{nb::cast<std::vector<BlockMemory>>(state[0]),
                             nb::cast<std::int64_t>(state[1]), nb::cast<std::int64_t>(state[2])};
        });

    m.def("dense_memory", &dense, "layout"_a, "rank"_a, "elem_bytes"_a, "order"_a = "C",
          "ghost"_a = 0, "ghost_upper"_a.none() = nb::none());
}
