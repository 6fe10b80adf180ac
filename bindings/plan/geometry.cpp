// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of Region; points are tuples.
#include "datamover/region.hpp"
#include "module.hpp"

namespace datamover::bindings {

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

/// A method of regions that takes a number for each dimension, or one for all.
template <Region (Region::*method)(const Point&) const>
Region in_all_dims_by(const Region& region, const Point& numbers) {
    return (region.*method)(in_all_dims(numbers, region.dims()));
}

nb::typed<nb::tuple, nb::slice, nb::ellipsis> slices(const Region& region, const Point& origin) {
    nb::list result;
    const Point zero =
        in_all_dims(origin.dims() > 0 ? origin : Point::filled(region.dims(), 0), region.dims());
    const Region local = region.shifted(-zero);
    for (int d = 0; d < local.dims(); ++d) {
        if (!region.empty() && local.lo()[d] < 0)
            throw make_error(ErrorCode::out_of_range, "region ", region,
                             " begins before the origin ", zero, ": slices cannot say that");
        result.append(nb::slice(local.lo()[d], local.hi()[d]));
    }
    return nb::tuple(result);
}

}  // namespace

/** Python PointIterator
The points of a region, one by one.
*/
/** Python Region
A box of index space: all points p with lo <= p < hi.

Every box without points equals the one empty region of its number of dimensions. Immutable. Every
method is local and takes time proportional to the number of dimensions.

Parameters
----------
lo, hi : int or sequence of int
    The lowest corner, and one past the highest, in 1 to 8 dimensions. If `hi <= lo` in any
    dimension, the region is empty.

Raises
------
InvalidArgument
    `lo` and `hi` have different numbers of dimensions, or more than 8.

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
*/
/** Python Region.grown
The region grown on both sides of each dimension.

Parameters
----------
width : int or sequence of int
    Number of points, for all dimensions or for each; negative widths shrink the region.
upper : int or sequence of int, optional
    Widths of the upper sides; by default those of the lower sides.

Examples
--------
>>> import datamover as dm
>>> dm.Region((0, 0), (4, 4)).grown(1, (0, 2))
Region((-1, -1), (4, 6))
*/
/** Python Region.slices
The slices that select this region in an array whose first element is at `origin`.

Parameters
----------
origin : int or sequence of int, optional
    The index of the array's first element; by default zero.

Raises
------
OutOfRange
    The region begins before the origin.

Examples
--------
>>> import numpy as np, datamover as dm
>>> block = dm.Region((10, 20), (13, 24))
>>> values = np.arange(12).reshape(block.shape)
>>> values[dm.Region((11, 20), (13, 22)).slices(origin=block.lo)]
array([[4, 5],
       [8, 9]])
*/
void bind_geometry(nb::module_& m) {
    bind_iterator<PointIterator>(m, "PointIterator");

    Class<Region> c(m, "Region");
    c.def(
         "__init__",
         [](Region* self, Given<Point> lo, Given<Point> hi) {
             const Point lowest = point_of(lo, "lo"), end = point_of(hi, "hi");
             new (self) Region(lowest, end);
         },
         "lo"_a, "hi"_a)
        /// The box [0, shape). Raises InvalidArgument on a negative extent.
        .def_static(
            "from_shape",
            [](Given<Point> shape) { return Region::from_shape(point_of(shape, "shape")); },
            "shape"_a)
        /// The empty region of a number of dimensions.
        .def_static(
            "empty_region",
            [](Given<std::int64_t> dims) { return Region::empty_region(dims_of(dims)); }, "dims"_a)
        /// Number of dimensions.
        .def_prop_ro("dims", &Region::dims)
        /// The lowest corner.
        .def_prop_ro("lo", &Region::lo)
        /// One past the highest corner, in each dimension.
        .def_prop_ro("hi", &Region::hi)
        /// The extents.
        .def_prop_ro("shape", &Region::shape)
        /// Number of points.
        .def_prop_ro("size", &Region::size)
        /// Whether there are no points.
        .def_prop_ro("empty", &Region::empty)
        /// Whether a point or a region is inside; the empty region is inside every region.
        .def("contains", nb::overload_cast<const Region&>(&Region::contains, nb::const_),
             "region"_a)
        .def("contains", nb::overload_cast<const Point&>(&Region::contains, nb::const_), "point"_a)
        .def("__contains__", nb::overload_cast<const Region&>(&Region::contains, nb::const_))
        .def("__contains__", nb::overload_cast<const Point&>(&Region::contains, nb::const_))
        /// Whether the two have a common point.
        .def("intersects", &Region::intersects, "other"_a)
        .def(
            "grown",
            [](const Region& r, const Point& width, const Point& upper) {
                const Point lower = in_all_dims(width, r.dims());
                return r.grown(lower, upper.dims() > 0 ? in_all_dims(upper, r.dims()) : upper);
            },
            "width"_a, "upper"_a = nb::none())
        /// The region moved by an offset (one number: in all dimensions).
        .def("shifted", &in_all_dims_by<&Region::shifted>, "offset"_a)
        /// The points in both; also `a & b`.
        .def("intersected", &Region::intersected, "other"_a)
        .def("__and__", &Region::intersected, "other"_a, nb::is_operator())
        /// The smallest region that contains both; also `a | b`.
        .def("bounding", &Region::bounding, "other"_a)
        .def("__or__", &Region::bounding, "other"_a, nb::is_operator())
        /// The points that are not in `other`, as at most 2 * dims disjoint regions.
        .def("subtracted", &Region::subtracted, "other"_a)
        /// The coarse cells, of `ratio` points in each dimension, that the region touches.
        .def("coarsened", &in_all_dims_by<&Region::coarsened>, "ratio"_a)
        /// The fine points of these coarse cells.
        .def("refined", &in_all_dims_by<&Region::refined>, "ratio"_a)
        .def("slices", &slices, "origin"_a = nb::none())
        /// The points, last dimension fastest.
        .def("__iter__", [](const Region& r) { return PointIterator(r); })
        .def("__bool__", [](const Region& r) { return !r.empty(); })
        .def(nb::self == nb::self)
        .def("__hash__", [](const Region& r) { return nb::hash(nb::make_tuple(r.lo(), r.hi())); })
        .def("__repr__",
             [](const Region& r) { return formatted("Region({}, {})", r.lo(), r.hi()); });
    add_pickling(c, [](const Region& r) { return nb::make_tuple(r.lo(), r.hi()); });
}

}  // namespace datamover::bindings
