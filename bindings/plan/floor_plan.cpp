// SPDX-License-Identifier: BSD-3-Clause
// How does Python see boxes and their owners? As FloorPlan.
#include "datamover/floor_plan.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <variant>

#include "layout_common.hpp"
#include "numpy_arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::array_of;
using bindings::in_all_dims;
using bindings::Integers;

namespace {

/// From an (n, 2, d) table, without an object for each block.
FloorPlan floor_plan_of_table(nb::handle regions, const Integers& owners, std::int64_t nprocs) {
    const Integers table(regions, "regions");
    if (table.ndim() != 3 || table.extent(1) != 2)
        throw Error(
            ErrorCode::invalid_argument,
            "regions as an array must have the shape (n, 2, dims): the lower corner and the "
            "upper end of each");
    const std::size_t n = table.extent(0), dims = table.extent(2);
    std::vector<std::int64_t> lo(n * dims), hi(n * dims);
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t* row = table.values().data() + i * 2 * dims;
        std::copy(row, row + dims, lo.data() + i * dims);
        std::copy(row + dims, row + 2 * dims, hi.data() + i * dims);
    }
    if (owners.values().size() != n)
        throw Error(ErrorCode::mismatch, std::to_string(n) + " regions, but " +
                                             std::to_string(owners.values().size()) + " owners");
    return FloorPlan(static_cast<int>(dims), lo, hi, owners.values(), nprocs);
}

Integers checked_owners(nb::handle owners) {
    Integers owner_of(owners, "owners");
    if (owner_of.ndim() != 1)
        throw Error(ErrorCode::invalid_argument, "owners must have one dimension");
    return owner_of;
}

/// -1 where none is given.
std::int64_t checked_nprocs(std::optional<std::int64_t> nprocs) {
    if (nprocs && *nprocs < 1)
        throw Error(ErrorCode::invalid_argument,
                    "nprocs is " + std::to_string(*nprocs) + ", it must be at least 1");
    return nprocs.value_or(-1);
}

FloorPlan make_floor_plan(nb::handle regions, nb::handle owners,
                          std::optional<std::int64_t> nprocs) {
    const Integers owner_of = checked_owners(owners);
    const std::int64_t procs = checked_nprocs(nprocs);
    const bool objects = !nb::hasattr(regions, "dtype") && nb::len(regions) > 0 &&
                         nb::isinstance<Region>(nb::object(regions[0]));
    if (!objects) return floor_plan_of_table(regions, owner_of, procs);
    std::vector<Region> boxes;
    for (nb::handle region : regions) boxes.push_back(nb::cast<const Region&>(region));
    return FloorPlan(boxes, owner_of.to_vector(), procs);
}

/// The blocks as an (n, 2, d) array.
bindings::NumpyArray<std::int64_t> table_of(const FloorPlan& plan) {
    const auto n = static_cast<std::size_t>(plan.num_blocks());
    const auto dims = static_cast<std::size_t>(plan.dims());
    const auto lo = plan.lower_corners(), hi = plan.upper_corners();
    std::vector<std::int64_t> table(n * 2 * dims);
    for (std::size_t i = 0; i < n; ++i) {
        std::copy_n(lo.data() + i * dims, dims, table.data() + i * 2 * dims);
        std::copy_n(hi.data() + i * dims, dims, table.data() + (i * 2 + 1) * dims);
    }
    return array_of(std::move(table), {n, 2, dims});
}

FloorPlan with_owners(const FloorPlan& plan, nb::handle owners,
                      std::optional<std::int64_t> nprocs) {
    return plan.with_owners(checked_owners(owners).to_vector(), checked_nprocs(nprocs));
}

/// A domain that is to be cut: a region, or the shape of one that begins at 0.
using Domain = std::variant<Region, Point>;

Region region_of(const Domain& domain) {
    if (const Region* region = std::get_if<Region>(&domain)) return *region;
    return Region::from_shape(std::get<Point>(domain));
}

void bind_floor_plan_cuts(nb::class_<FloorPlan>& c) {
    c.def_static(
         "uniform",
         [](const Domain& domain, const Point& grid, std::int64_t nprocs) {
             const Region all = region_of(domain);
             return FloorPlan::uniform(all, in_all_dims(grid, all.dims()), nprocs);
         },
         "domain"_a, "grid"_a, "nprocs"_a,
         R"doc(A domain, or a shape, cut evenly into a grid of blocks.

Along a dimension the extents of blocks differ by at most one, the larger ones first. Block i (last
dimension fastest) goes to rank i % nprocs. Raises InvalidArgument, Mismatch (dimensions).

Examples
--------
>>> import datamover as dm
>>> plan = dm.FloorPlan.uniform((8, 6), (2, 2), nprocs=4)
>>> plan.region(3), plan.owner(3)
(Region((4, 3), (8, 6)), 3)
)doc")
        .def_static(
            "tiles",
            [](const Domain& domain, const Point& tile, std::int64_t nprocs,
               const std::string& mapping) {
                const Region all = region_of(domain);
                return FloorPlan::tiles(all, in_all_dims(tile, all.dims()), nprocs, mapping);
            },
            "domain"_a, "tile"_a, "nprocs"_a, "mapping"_a = "block",
            R"doc(A domain, or a shape, cut into tiles of a given shape, smaller ones at the upper ends.

`mapping` deals them to the ranks: "cyclic" round robin, "block" in contiguous shares as equal as
possible. Raises InvalidArgument, Mismatch (dimensions).
)doc")
        .def_static(
            "from_splits",
            [](const Domain& domain, const std::vector<std::vector<std::int64_t>>& splits,
               std::int64_t nprocs) {
                return FloorPlan::from_splits(region_of(domain), splits, nprocs);
            },
            "domain"_a, "splits"_a, "nprocs"_a,
            R"doc(A domain, or a shape, cut at given coordinates.

`splits[d]` are the inner cuts of dimension d, ascending. Block i (last dimension fastest) goes to
rank i % nprocs. Raises Mismatch (dimensions), OutOfRange (a cut outside), InvalidArgument.
)doc")
        .def_static(
            "bisected",
            [](const Domain& domain, const std::vector<double>& weights) {
                return FloorPlan::bisected(region_of(domain), weights);
            },
            "domain"_a, "weights"_a,
            R"doc(A domain, or a shape, cut by recursive bisection, block i for rank i.

Sizes are in proportion to `weights` (positive), each cut goes across the longest side. Raises
InvalidArgument. Source: Berger and Bokhari, IEEE Trans. Computers C-36(5), 1987.

Examples
--------
>>> import datamover as dm
>>> plan = dm.FloorPlan.bisected(dm.Region((0, 0), (100, 50)), [1, 1, 2])
>>> [plan.region(i).size for i in range(3)]
[1250, 1250, 2500]
)doc");
}

nb::tuple state_of(const FloorPlan& l) {
    return nb::make_tuple(table_of(l), array_of(l.owners()), l.nprocs());
}

}  // namespace

void bind_floor_plan(nb::module_& m) {
    nb::class_<FloorPlan> c(
        m, "FloorPlan",
        R"doc(A table of regions, each with an owner: the blocks of an irregular array.

Regions may overlap, may be empty, and a rank may own any number of them. A value, cheap to copy.

Parameters
----------
regions : sequence of Region, or (n, 2, dims) array of int
    The blocks' interiors; as an array the lower corner and the upper end of each, which takes no
    object per block.
owners : (n,) array of int
    The rank of each block.
nprocs : int, optional
    Number of processes; the largest owner + 1 without it.

Raises
------
InvalidArgument
    When there are no regions, or the array has another shape.
Mismatch
    When there are more or fewer owners than regions, or regions of different dimensions.
OutOfRange
    When an owner is not in 0 to nprocs - 1.

Notes
-----
Source: KeLP's FloorPlan.

Examples
--------
>>> import datamover as dm
>>> regions = [dm.Region((0, 0), (4, 4)), dm.Region((0, 4), (4, 10)), dm.Region((4, 0), (8, 10))]
>>> plan = dm.FloorPlan(regions, owners=[0, 1, 0])
>>> len(plan), plan.nprocs, plan.domain
(3, 2, Region((0, 0), (8, 10)))
>>> plan.blocks_of(0), plan.find(dm.Region((3, 3), (5, 4)))
([0, 2], [0, 2])
)doc");
    c.def(
        "__init__",
        [](FloorPlan* self, nb::handle regions, nb::handle owners,
           std::optional<std::int64_t> nprocs) {
            new (self) FloorPlan(make_floor_plan(regions, owners, nprocs));
        },
        "regions"_a, "owners"_a, "nprocs"_a.none() = nb::none(),
        nb::sig("def __init__(self, regions: collections.abc.Sequence[Region] | "
                "numpy.typing.ArrayLike, owners: numpy.typing.ArrayLike, "
                "nprocs: int | None = None) -> None"));
    bindings::add_common(c);
    bind_floor_plan_cuts(c);
    c.def("__len__", &FloorPlan::num_blocks)
        .def("region", &FloorPlan::region, "block"_a, "The region of a block. Raises OutOfRange.")
        .def_prop_ro("regions", &table_of, nb::rv_policy::move, nb::rv_policy::reference,
                     "All regions as an (n, 2, dims) array (int64), a copy.")
        .def_prop_ro(
            "owners", [](const FloorPlan& l) { return array_of(l.owners()); }, nb::rv_policy::move,
            nb::rv_policy::reference, "The rank of each block (int64), a copy.")
        .def("with_owners", &with_owners, "owners"_a, "nprocs"_a = nb::none(),
             R"doc(The same blocks with other owners, as after balancing the load anew.

`owners` is the rank of each block, `nprocs` the number of processes (without it the largest owner
+ 1). Raises as FloorPlan does. Local; takes time in the number of blocks.

Examples
--------
>>> import datamover as dm
>>> plan = dm.FloorPlan.uniform(dm.Region(0, 9), 3, nprocs=3).with_owners([0, 0, 1])
>>> plan.nprocs, plan.region(2), plan.owner(2)
(2, Region((6,), (9,)), 1)
)doc",
             nb::sig("def with_owners(self, owners: collections.abc.Sequence[int] | "
                     "numpy.typing.ArrayLike, nprocs: int | None = None) -> FloorPlan"))
        .def("find", &FloorPlan::find, "region"_a,
             R"doc(The blocks that a region touches, ascending.

By a spatial index that is built at the first use; then it takes O(log n + answer) for usual plans.
Raises Mismatch when the dimensions differ.
)doc")
        .def("exclusive_regions", &FloorPlan::exclusive_regions, "block"_a,
             "The part of a block that no lower-numbered one holds: what it sends where they "
             "overlap.")
        .def("__hash__",
             [](const FloorPlan& l) {
                 return nb::hash(nb::make_tuple(l.num_blocks(), l.nprocs(), l.bounding_box()));
             })
        .def("__repr__",
             [](const FloorPlan& l) {
                 return "<FloorPlan of " + std::to_string(l.num_blocks()) + " blocks in " +
                        l.bounding_box().to_string() + " on " + std::to_string(l.nprocs()) +
                        " processes>";
             })
        .def("__getstate__", [](const FloorPlan& l) { return state_of(l); })
        .def("__setstate__", [](FloorPlan& self, const nb::tuple& s) {
            new (&self) FloorPlan(make_floor_plan(s[0], s[1], nb::cast<std::int64_t>(s[2])));
        });
}
