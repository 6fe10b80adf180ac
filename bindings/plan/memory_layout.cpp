// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of MemoryLayout and BlockMemory.
#include "datamover/memory_layout.hpp"
#include "module.hpp"

namespace datamover::bindings {
namespace {

MemoryLayout dense(const Layout& layout, std::int64_t rank, std::int64_t elem_bytes,
                   const std::string& order, const Point& ghost, const Point& ghost_upper) {
    const Point lower = in_all_dims(ghost, layout.dims());
    const Point upper = ghost_upper.dims() > 0 ? in_all_dims(ghost_upper, layout.dims()) : lower;
    const bool none = lower == Point::filled(layout.dims(), 0) && upper == lower;
    return dense_memory(layout, rank, elem_bytes, element_order(order), none ? Point{} : lower,
                        none ? Point{} : upper);
}

}  // namespace

/** Python BlockMemory
The place of one block in the memory of its process.

Parameters
----------
block : int
    The block's number.
offset_bytes : int
    Offset of the element with local index zero from the array's base.
strides_bytes : sequence of int
    Bytes from one index to the next, for each dimension.
valid : Region
    The local indices that exist; ghosts have negative ones, or ones beyond the block's extents.
*/
/** Python MemoryLayout
The memory of one process: the place of each of its blocks.

Parameters
----------
blocks : sequence of BlockMemory
    Ascending by number.
begin_bytes, end_bytes : int
    The lowest address that they touch, from the base, and one past the highest.
*/
void bind_memory_layout(nb::module_& m) {
    Class<BlockMemory> c(m, "BlockMemory");
    c.def(
         "__init__",
         [](BlockMemory* self, Given<std::int64_t> block, Given<std::int64_t> offset_bytes,
            Given<Point> strides_bytes, Given<Region> valid) {
             const BlockMemory given{
                 integer_of(block, "block"), integer_of(offset_bytes, "offset_bytes"),
                 point_of(strides_bytes, "strides_bytes"), region_of(valid, "valid")};
             if (given.strides_bytes.dims() != given.valid.dims())
                 throw make_error(ErrorCode::mismatch, "strides ", given.strides_bytes,
                                  " for a block of ", given.valid.dims(), " dimensions");
             new (self) BlockMemory(given);
         },
         "block"_a, "offset_bytes"_a, "strides_bytes"_a, "valid"_a)
        .def("__repr__", [](const BlockMemory& b) {
            return concat("<BlockMemory of block ", b.block, ": ", b.valid, ", strides ",
                          b.strides_bytes, " bytes from byte ", b.offset_bytes, ">");
        });
    add_fields(c,
               /// The block's number.
               field("block", &BlockMemory::block),
               /// Of local index zero, from the base.
               field("offset_bytes", &BlockMemory::offset_bytes),
               /// Bytes from one index to the next.
               field("strides_bytes", &BlockMemory::strides_bytes),
               /// The local indices that exist, ghosts included.
               field("valid", &BlockMemory::valid));

    Class<MemoryLayout> layout(m, "MemoryLayout");
    layout
        .def(
            "__init__",
            [](MemoryLayout* self, Given<std::vector<BlockMemory>> given,
               Given<std::int64_t> begin_bytes, Given<std::int64_t> end_bytes) {
                auto blocks = value_of<std::vector<BlockMemory>>(given, "blocks",
                                                                 "a sequence of BlockMemory");
                const auto before = [](const BlockMemory& a, const BlockMemory& b) {
                    return a.block < b.block;
                };
                std::sort(blocks.begin(), blocks.end(), before);
                new (self) MemoryLayout{std::move(blocks), integer_of(begin_bytes, "begin_bytes"),
                                        integer_of(end_bytes, "end_bytes")};
            },
            "blocks"_a, "begin_bytes"_a, "end_bytes"_a)
        .def("__repr__", [](const MemoryLayout& l) {
            return concat("<MemoryLayout of ", l.blocks.size(), " blocks in bytes ", l.begin_bytes,
                          " to ", l.end_bytes, ">");
        });
    add_fields(layout,
               /// The blocks, ascending by number.
               field("blocks", &MemoryLayout::blocks),
               /// The lowest address, from the base.
               field("begin_bytes", &MemoryLayout::begin_bytes),
               /// One past the highest address.
               field("end_bytes", &MemoryLayout::end_bytes));

    m.def("dense_memory", &dense, "layout"_a, "rank"_a, "elem_bytes"_a, "order"_a = "C",
          "ghost"_a = 0, "ghost_upper"_a = nb::none());
}

}  // namespace datamover::bindings
