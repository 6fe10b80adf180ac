// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of FloorPlan.
#include "layout_members.hpp"

namespace datamover::bindings {

namespace {

struct Regions {
    static constexpr auto words =
        words_for<std::vector<Region>>() + nb::detail::const_name(" | numpy.typing.ArrayLike");
};
struct RegionOrShape {
    static constexpr auto words =
        words_for<Region>() + nb::detail::const_name(" | ") + words_for<Point>();
};

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
        throw make_error(ErrorCode::mismatch, n, " regions, but ", owners.values().size(),
                         " owners");
    return FloorPlan(static_cast<int>(dims), lo, hi, owners.values(), nprocs);
}

Integers checked_owners(nb::handle owners) {
    Integers owner_of(owners, "owners");
    if (owner_of.ndim() != 1)
        throw Error(ErrorCode::invalid_argument, "owners must have one dimension");
    return owner_of;
}

/// -1 where none is given.
std::int64_t checked_nprocs(nb::handle given, nb::handle comm) {
    if (given.is_none() && comm.is_none()) return -1;
    const std::int64_t nprocs = processes_of(given, comm);
    if (nprocs < 1)
        throw make_error(ErrorCode::invalid_argument, "nprocs is ", nprocs,
                         ", it must be at least 1");
    return nprocs;
}

/// Whether regions are objects, else they are a table.
bool are_objects(nb::handle regions) {
    if (nb::hasattr(regions, "dtype")) return false;
    if (!PySequence_Check(regions.ptr()) || PyUnicode_Check(regions.ptr()))
        refuse_type(regions, "regions",
                    "a sequence of Region or an array of integers (n, 2, dims)");
    return nb::len(regions) > 0 && nb::isinstance<Region>(nb::object(regions[0]));
}

void make_floor_plan(FloorPlan* self, Given<Regions> regions, Given<ArrayLike> owners,
                     Given<std::int64_t> nprocs, nb::any comm) {
    const bool objects = are_objects(regions);
    const Integers owner_of = checked_owners(owners);
    const std::int64_t procs = checked_nprocs(nprocs, comm);
    if (!objects) {
        new (self) FloorPlan(floor_plan_of_table(regions, owner_of, procs));
        return;
    }
    std::vector<Region> boxes;
    for (nb::handle region : regions)
        boxes.push_back(region_of(region, "regions[" + std::to_string(boxes.size()) + "]"));
    new (self) FloorPlan(boxes, owner_of.to_vector(), procs);
}

/// The blocks as an (n, 2, d) array.
NumpyArray<std::int64_t> table_of(const FloorPlan& plan) {
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

FloorPlan with_owners(const FloorPlan& plan, Given<ArrayLike> owners, Given<std::int64_t> nprocs,
                      nb::any comm) {
    return plan.with_owners(checked_owners(owners).to_vector(), checked_nprocs(nprocs, comm));
}

/// A domain that is to be cut: a region, or the shape of one that begins at 0.
Region domain_of(nb::handle domain) {
    if (nb::isinstance<Region>(domain)) return nb::cast<Region>(domain);
    return Region::from_shape(point_of(domain, "domain", "a Region or a shape"));
}

/// One number for all dimensions, or one for each.
Point in_dims_of(const Region& domain, nb::handle numbers, const char* name) {
    return in_all_dims(point_of(numbers, name), domain.dims());
}

using Splits = std::vector<std::vector<std::int64_t>>;

/** Python FloorPlan.uniform
A domain, or a shape, cut evenly into a grid of blocks.

Along a dimension the extents of blocks differ by at most one, the larger ones first. Rank i %
nprocs owns block i (last dimension fastest). Raises InvalidArgument, Mismatch (dimensions).

Examples
--------
>>> import datamover as dm
>>> plan = dm.FloorPlan.uniform((8, 6), (2, 2), nprocs=4)
>>> plan.region(3), plan.owner(3)
(Region((4, 3), (8, 6)), 3)
*/
/** Python FloorPlan.tiles
A domain, or a shape, cut into tiles of a given shape, smaller ones at the upper ends.

`mapping` assigns them to the ranks: "cyclic" in turn, "block" in contiguous shares as equal as
possible. Raises InvalidArgument, Mismatch (dimensions).
*/
/** Python FloorPlan.from_splits
A domain, or a shape, cut at given coordinates.

`splits[d]` are the inner cuts of dimension d, ascending. Rank i % nprocs owns block i (last
dimension fastest). Raises Mismatch (dimensions), OutOfRange (a cut outside), InvalidArgument.
*/
/** Python FloorPlan.bisected
A domain, or a shape, cut by recursive bisection, block i for rank i.

Sizes are in proportion to `weights` (positive); each cut is across the longest side. Raises
InvalidArgument. Source: Berger and Bokhari, IEEE Trans. Computers C-36(5), 1987.

Examples
--------
>>> import datamover as dm
>>> plan = dm.FloorPlan.bisected(dm.Region((0, 0), (100, 50)), [1, 1, 2])
>>> [plan.region(i).size for i in range(3)]
[1250, 1250, 2500]
*/
void bind_floor_plan_cuts(Class<FloorPlan>& c) {
    c.def_static(
         "uniform",
         [](Given<RegionOrShape> domain, Given<Point> grid, Given<std::int64_t> nprocs,
            nb::any comm) {
             const Region all = domain_of(domain);
             return FloorPlan::uniform(all, in_dims_of(all, grid, "grid"),
                                       processes_of(nprocs, comm));
         },
         "domain"_a, "grid"_a, "nprocs"_a = nb::none(), nb::kw_only(), "comm"_a = nb::none())
        .def_static(
            "tiles",
            [](Given<RegionOrShape> domain, Given<Point> tile, Given<std::int64_t> nprocs,
               Given<std::string> mapping, nb::any comm) {
                const Region all = domain_of(domain);
                return FloorPlan::tiles(all, in_dims_of(all, tile, "tile"),
                                        processes_of(nprocs, comm), text_of(mapping, "mapping"));
            },
            "domain"_a, "tile"_a, "nprocs"_a = nb::none(), "mapping"_a = "block", nb::kw_only(),
            "comm"_a = nb::none())
        .def_static(
            "from_splits",
            [](Given<RegionOrShape> domain, Given<Splits> splits, Given<std::int64_t> nprocs,
               nb::any comm) {
                return FloorPlan::from_splits(
                    domain_of(domain),
                    value_of<Splits>(splits, "splits", "a list of integers for each dimension"),
                    processes_of(nprocs, comm));
            },
            "domain"_a, "splits"_a, "nprocs"_a = nb::none(), nb::kw_only(), "comm"_a = nb::none())
        .def_static(
            "bisected",
            [](Given<RegionOrShape> domain, Given<std::vector<double>> weights) {
                return FloorPlan::bisected(
                    domain_of(domain),
                    value_of<std::vector<double>>(weights, "weights", "a list of numbers"));
            },
            "domain"_a, "weights"_a);
}

nb::tuple floor_plan_arguments(const FloorPlan& l) {
    return nb::make_tuple(table_of(l), array_of(l.owners()), l.nprocs());
}

}  // namespace

/** Python FloorPlan
A table of regions, each with an owner: the blocks of an irregular array.

Regions may overlap and may be empty, and a rank may own any number of them. Immutable and cheap to
copy.

Parameters
----------
regions : sequence of Region, or (n, 2, dims) array of int
    The blocks' interiors; as an array the lower corner and the upper end of each, which takes no
    object per block.
owners : (n,) array of int
    The rank of each block.
nprocs : int, optional
    Number of processes; by default the largest owner + 1.
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

Raises
------
InvalidArgument
    There are no regions, or the array has another shape.
Mismatch
    There are more or fewer owners than regions, or regions of different dimensions.
OutOfRange
    An owner is not in 0 to nprocs - 1.

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
*/
/** Python FloorPlan.with_owners
The same blocks with other owners, for example after rebalancing the load.

`owners` is the rank of each block, `nprocs` the number of processes (by default the largest
owner + 1). Raises as FloorPlan does. Local; takes time in the number of blocks.

Examples
--------
>>> import datamover as dm
>>> plan = dm.FloorPlan.uniform(dm.Region(0, 9), 3, nprocs=3).with_owners([0, 0, 1])
>>> plan.nprocs, plan.region(2), plan.owner(2)
(2, Region((6,), (9,)), 1)
*/
/** Python FloorPlan.find
The blocks that a region touches, ascending.

By a spatial index that is built at the first use; then it takes O(log n + answer) for usual plans.
Raises Mismatch when the dimensions differ.
*/
void bind_floor_plan(nb::module_& m) {
    Class<FloorPlan> c(m, "FloorPlan");
    c.def("__init__", &make_floor_plan, "regions"_a, "owners"_a, "nprocs"_a = nb::none(),
          nb::kw_only(), "comm"_a = nb::none());
    add_common(c);
    bind_floor_plan_cuts(c);
    /// The rank of each block (int64), a copy.
    add_owners(c, "owners");
    add_pickling(c, &floor_plan_arguments);
    c.def("__len__", &FloorPlan::num_blocks)
        /// The region of a block. Raises OutOfRange.
        .def("region", &FloorPlan::region, "block"_a)
        /// All regions as an (n, 2, dims) array (int64), a copy.
        .def_prop_ro("regions", &table_of, nb::rv_policy::move, nb::rv_policy::reference)
        .def("with_owners", &with_owners, "owners"_a, "nprocs"_a = nb::none(), nb::kw_only(),
             "comm"_a = nb::none())
        .def("find", &FloorPlan::find, "region"_a)
        /// The part of a block that no lower-numbered one holds: what it sends where they
        /// overlap.
        .def("exclusive_regions", &FloorPlan::exclusive_regions, "block"_a)
        .def("__repr__", [](const FloorPlan& l) {
            return concat("<FloorPlan of ", l.num_blocks(), " blocks in ", l.bounding_box(), " on ",
                          l.nprocs(), " processes>");
        });
}

}  // namespace datamover::bindings
