// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of Region, MemoryLayout and BlockMemory; points are tuples.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "casters.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/region.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::in_all_dims;
using bindings::integer_of;
using bindings::point_of;

namespace {

/// Goes through the points of a region one by one, last dimension fastest.
class PointIterator {
public:
    explicit PointIterator(const Region& region)
        : region_(region), next_(region.lo()), done_(region.empty()) {}

    Point next() {
        if (done_) throw nb::stop_iteration();
        const Point point = next_;
        int d = region_.dims() - 1;
        for (; d >= 0; --d) {
            if (++next_[d] < region_.hi()[d]) break;
            next_[d] = region_.lo()[d];
        }
        done_ = d < 0;
        return point;
    }

private:
    Region region_;
    Point next_;
    bool done_;
};

/// What does not fit an int is as wrong as the largest one.
int dims_of(nb::handle dims) {
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    return static_cast<int>(std::clamp<std::int64_t>(integer_of(dims, "dims"), -most, most));
}

nb::tuple slices(const Region& region, const Point& origin) {
    nb::list result;
    const Point zero =
        in_all_dims(origin.dims() > 0 ? origin : Point::filled(region.dims(), 0), region.dims());
    const Region local = region.shifted(-zero);
    for (int d = 0; d < local.dims(); ++d) {
        if (!region.empty() && local.lo()[d] < 0)
            throw datamover::Error(datamover::ErrorCode::out_of_range,
                                   "region " + region.to_string() + " begins before the origin " +
                                       zero.to_string() + ": slices cannot say that");
        result.append(nb::slice(local.lo()[d], local.hi()[d]));
    }
    return nb::tuple(result);
}

std::string repr(const Region& r) {
    return "Region(" + nb::cast<std::string>(nb::repr(nb::cast(r.lo()))) + ", " +
           nb::cast<std::string>(nb::repr(nb::cast(r.hi()))) + ")";
}

}  // namespace

void bind_geometry(nb::module_& m) {
    nb::class_<PointIterator>(m, "PointIterator", "The points of a region, one by one.")
        .def(
            "__iter__", [](nb::handle self) { return nb::borrow(self); },
            nb::sig("def __iter__(self) -> PointIterator"))
        .def("__next__", &PointIterator::next);

    nb::class_<Region>(m, "Region", R"doc(A box of index space: all points p with lo <= p < hi.

Every box without points equals the one empty region of its number of dimensions. A value: it is
never changed, every method is local and takes time in the number of dimensions.

Parameters
----------
lo, hi : int or sequence of int
    The lowest corner, and one past the highest, in 1 to 8 dimensions. Where `hi <= lo` the region
    is empty.

Raises
------
InvalidArgument
    When `lo` and `hi` have different numbers of dimensions, or more than 8.

Notes
-----
Source: KeLP's Region and its calculus.

Examples
--------
>>> import datamover as dm
>>> a = dm.Region((0, 0), (4, 6))
>>> b = a.shifted((2, 2))
>>> a & b
Region((2, 2), (4, 6))
>>> (a & b).size, (3, 5) in a, b in a
(8, True, False)
>>> a.subtracted(b)
[Region((0, 0), (2, 6)), Region((2, 0), (4, 2))]
)doc")
        .def(
            "__init__",
            [](Region* self, nb::handle lo, nb::handle hi) {
                const Point lowest = point_of(lo, "lo"), end = point_of(hi, "hi");
                new (self) Region(lowest, end);
            },
            "lo"_a.none(), "hi"_a.none(),
            nb::sig("def __init__(self, lo: int | collections.abc.Sequence[int], "
                    "hi: int | collections.abc.Sequence[int]) -> None"))
        .def_static(
            "from_shape",
            [](nb::handle shape) { return Region::from_shape(point_of(shape, "shape")); },
            "shape"_a.none(),
            nb::sig("def from_shape(shape: int | collections.abc.Sequence[int]) -> Region"),
            "The box [0, shape). Raises InvalidArgument on a negative extent.")
        .def_static(
            "empty_region", [](nb::handle dims) { return Region::empty_region(dims_of(dims)); },
            "dims"_a.none(), nb::sig("def empty_region(dims: int) -> Region"),
            "The empty region of a number of dimensions.")
        .def_prop_ro("dims", &Region::dims, "Number of dimensions.")
        .def_prop_ro("lo", &Region::lo, "The lowest corner.")
        .def_prop_ro("hi", &Region::hi, "One past the highest corner, in each dimension.")
        .def_prop_ro("shape", &Region::shape, "The extents.")
        .def_prop_ro("size", &Region::size, "Number of points.")
        .def_prop_ro("empty", &Region::empty, "Whether there are no points.")
        .def("contains", nb::overload_cast<const Region&>(&Region::contains, nb::const_),
             "region"_a, "Whether a whole region lies inside; the empty one lies in every region.")
        .def("contains", nb::overload_cast<const Point&>(&Region::contains, nb::const_), "point"_a,
             "Whether a point lies inside.")
        .def("__contains__", nb::overload_cast<const Region&>(&Region::contains, nb::const_))
        .def("__contains__", nb::overload_cast<const Point&>(&Region::contains, nb::const_))
        .def("intersects", &Region::intersects, "other"_a, "Whether a point lies in both.")
        .def(
            "grown",
            [](const Region& r, const Point& width, const Point& upper) {
                const Point below = in_all_dims(width, r.dims());
                return r.grown(below, upper.dims() > 0 ? in_all_dims(upper, r.dims()) : below);
            },
            "width"_a, "upper"_a.none() = nb::none(),
            R"doc(The region grown on both sides of each dimension.

Parameters
----------
width : int or sequence of int
    By how many points, in all dimensions or for each; negative widths shrink.
upper : int or sequence of int, optional
    Widths of the upper sides; without it they are those of the lower sides.

Examples
--------
>>> import datamover as dm
>>> dm.Region((0, 0), (4, 4)).grown(1, (0, 2))
Region((-1, -1), (4, 6))
)doc")
        .def(
            "shifted",
            [](const Region& r, const Point& offset) {
                return r.shifted(in_all_dims(offset, r.dims()));
            },
            "offset"_a, "The region moved by an offset (one number: in all dimensions).")
        .def("intersected", &Region::intersected, "other"_a, "The points in both; also `a & b`.")
        .def("__and__", &Region::intersected, "other"_a, nb::is_operator())
        .def("bounding", &Region::bounding, "other"_a,
             "The smallest region that holds both; also `a | b`.")
        .def("__or__", &Region::bounding, "other"_a, nb::is_operator())
        .def("subtracted", &Region::subtracted, "other"_a,
             "The points that are not in `other`, as at most 2 * dims disjoint regions.")
        .def(
            "coarsened",
            [](const Region& r, const Point& ratio) {
                return r.coarsened(in_all_dims(ratio, r.dims()));
            },
            "ratio"_a,
            "The coarse cells, of `ratio` points in each dimension, that the region touches.")
        .def(
            "refined",
            [](const Region& r, const Point& ratio) {
                return r.refined(in_all_dims(ratio, r.dims()));
            },
            "ratio"_a, "The fine points of these coarse cells.")
        .def(
            "slices", &slices, "origin"_a.none() = nb::none(),
            nb::sig("def slices(self, origin: int | collections.abc.Sequence[int] | None = None) "
                    "-> tuple[slice, ...]"),
            R"doc(The slices that select this region in an array whose first element is at `origin`.

Parameters
----------
origin : int or sequence of int, optional
    The index of the array's first element; zero without it.

Raises
------
OutOfRange
    When the region begins before the origin.

Examples
--------
>>> import numpy as np, datamover as dm
>>> block = dm.Region((10, 20), (13, 24))
>>> values = np.arange(12).reshape(block.shape)
>>> values[dm.Region((11, 20), (13, 22)).slices(origin=block.lo)]
array([[4, 5],
       [8, 9]])
)doc")
        .def(
            "__iter__", [](const Region& r) { return PointIterator(r); },
            "The points, last dimension fastest.")
        .def("__bool__", [](const Region& r) { return !r.empty(); })
        .def(nb::self == nb::self)
        .def("__hash__", [](const Region& r) { return nb::hash(nb::make_tuple(r.lo(), r.hi())); })
        .def("__repr__", &repr)
        .def("__getstate__", [](const Region& r) { return nb::make_tuple(r.lo(), r.hi()); })
        .def("__setstate__", [](Region& r, const nb::tuple& state) {
            new (&r) Region(nb::cast<Point>(state[0]), nb::cast<Point>(state[1]));
        });
}

// Python bindings of memory layouts. As MemoryLayout and BlockMemory.

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
    nb::class_<BlockMemory> c(m, "BlockMemory",
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
)doc");
    c.def(
         "__init__",
         [](BlockMemory* self, nb::handle block, nb::handle offset_bytes, nb::handle strides_bytes,
            nb::handle valid) {
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
        .def(nb::self == nb::self)
        .def("__repr__", [](const BlockMemory& b) {
            return "<BlockMemory of block " + std::to_string(b.block) + ": " + b.valid.to_string() +
                   ", strides " + b.strides_bytes.to_string() + " bytes from byte " +
                   std::to_string(b.offset_bytes) + ">";
        });
    bindings::add_state(c, &BlockMemory::block, &BlockMemory::offset_bytes,
                        &BlockMemory::strides_bytes, &BlockMemory::valid);

    nb::class_<MemoryLayout> layout(m, "MemoryLayout",
                                    R"doc(The memory of one process: where each of its blocks lies.

Parameters
----------
blocks : sequence of BlockMemory
    Ascending by number.
begin_bytes, end_bytes : int
    The lowest address that they touch, from the base, and one past the highest.
)doc");
    layout
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
        .def(nb::self == nb::self)
        .def("__repr__", [](const MemoryLayout& l) {
            return "<MemoryLayout of " + std::to_string(l.blocks.size()) + " blocks in bytes " +
                   std::to_string(l.begin_bytes) + " to " + std::to_string(l.end_bytes) + ">";
        });
    bindings::add_state(layout, &MemoryLayout::blocks, &MemoryLayout::begin_bytes,
                        &MemoryLayout::end_bytes);

    m.def("dense_memory", &dense, "layout"_a, "rank"_a, "elem_bytes"_a, "order"_a = "C",
          "ghost"_a = 0, "ghost_upper"_a.none() = nb::none());
}
