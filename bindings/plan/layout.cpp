// SPDX-License-Identifier: BSD-3-Clause
// How does Python see who owns what? As BlockCyclic, FloorPlan, IndexList, and the memory of
// blocks.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>

#include "casters.hpp"
#include "datamover/layout.hpp"
#include "datamover/memory_layout.hpp"
#include "numpy_arrays.hpp"
#include "orders.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::array_of;
using bindings::in_all_dims;
using bindings::Integers;

namespace {

std::vector<std::int64_t> vector_of(const Integers& integers) {
    return {integers.values().begin(), integers.values().end()};
}

/// What all kinds of layouts answer.
template <class Kind>
void add_common(nb::class_<Kind>& c) {
    c.def_prop_ro(
         "dims", [](const Kind& l) { return l.dims(); }, "Number of dimensions.")
        .def_prop_ro(
            "nprocs", [](const Kind& l) { return l.nprocs(); }, "Number of processes.")
        .def_prop_ro(
            "num_blocks", [](const Kind& l) { return l.num_blocks(); },
            "Number of blocks: the units of local storage, each with one owner.")
        .def_prop_ro(
            "domain", [](const Kind& l) { return Layout(l).domain(); },
            "The index space: all of the shape, or a floor plan's bounding box.")
        .def(
            "owner", [](const Kind& l, std::int64_t block) { return Layout(l).owner(block); },
            "block"_a, "The rank that holds a block. Raises OutOfRange.")
        .def(
            "blocks_of", [](const Kind& l, std::int64_t rank) { return Layout(l).blocks_of(rank); },
            "rank"_a, "The blocks of a rank, ascending. Raises OutOfRange.")
        .def(
            "block_extents",
            [](const Kind& l, std::int64_t block) { return Layout(l).block_extents(block); },
            "block"_a, "The shape of a block's local array. Raises OutOfRange.")
        .def(
            "local_elems",
            [](const Kind& l, std::int64_t rank) { return Layout(l).local_elems(rank); }, "rank"_a,
            "Number of elements that a rank holds. Raises OutOfRange.")
        .def("__eq__", [](const Kind& a, const Kind& b) { return a == b; }, nb::is_operator());
}

BlockCyclic make_block_cyclic(const Point& shape, const std::string& distribution,
                              std::int64_t nprocs, const Point& grid, const Point& first_process,
                              const std::string& grid_order, nb::handle ranks) {
    BlockCyclicOptions options;
    if (grid.dims() > 0) options.grid = grid.to_vector();
    options.first_process = first_process.to_vector();
    options.column_major_grid = bindings::column_major(grid_order, "grid_order");
    if (!ranks.is_none()) options.ranks = vector_of(Integers(ranks, "ranks"));
    return BlockCyclic(shape, distribution, nprocs, options);
}

nb::list global_indices(const BlockCyclic& layout, std::int64_t rank) {
    Layout(layout).blocks_of(rank);  // throws where the rank is none
    const std::int64_t block = layout.block_of(rank);
    const Point at = block < 0 ? layout.grid() : layout.grid_coordinates(block);
    nb::list lists;
    for (int d = 0; d < layout.dims(); ++d) {
        const AxisSet set = layout.axis_set(d, at[d]);
        std::vector<std::int64_t> indices(static_cast<std::size_t>(block < 0 ? 0 : set.size()));
        for (std::size_t i = 0; i < indices.size(); ++i)
            indices[i] = set.global(static_cast<std::int64_t>(i));
        lists.append(array_of(std::move(indices)));
    }
    return lists;
}

std::string text_of(nb::handle object) {
    return nb::cast<std::string>(nb::repr(object));
}

std::string repr_of(const BlockCyclic& l) {
    return "BlockCyclic(" + text_of(nb::cast(l.shape())) + ", " +
           text_of(nb::cast(l.distribution())) + ", nprocs=" + std::to_string(l.nprocs()) +
           ", grid=" + text_of(nb::cast(l.grid())) + ")";
}

nb::tuple state_of(const BlockCyclic& l) {
    return nb::make_tuple(l.shape(), l.distribution(), l.nprocs(), l.grid(), l.first_process(),
                          l.column_major_grid() ? "F" : "C",
                          array_of(std::span<const std::int64_t>(l.ranks())));
}

BlockCyclic block_cyclic_from(const nb::tuple& s) {
    const bool identity = nb::len(nb::object(s[6])) == 0;
    return make_block_cyclic(nb::cast<Point>(s[0]), nb::cast<std::string>(s[1]),
                             nb::cast<std::int64_t>(s[2]), nb::cast<Point>(s[3]),
                             nb::cast<Point>(s[4]), nb::cast<std::string>(s[5]),
                             identity ? nb::object(nb::none()) : nb::object(s[6]));
}

void bind_block_cyclic(nb::module_& m) {
    nb::class_<BlockCyclic> c(
        m, "BlockCyclic",
        R"doc(An array dealt in blocks to a grid of processes, as HPF and ScaLAPACK do.

The local storage of a process is one dense array of shape `local_shape(rank)`. A value; its size
does not depend on the array.

Parameters
----------
shape : int or sequence of int
    Extents of the array, 1 to 8 dimensions.
distribution : str
    In HPF's notation, one word for each dimension: ``block`` (ceil(N/P) indices to each process),
    ``block(k)``, ``cyclic`` (one index at a time), ``cyclic(k)`` (k at a time) or ``*`` (not
    distributed), such as ``"(block, cyclic(64), *)"``.
nprocs : int
    Number of processes; the ranks are 0 to nprocs - 1.
grid : sequence of int, optional
    Processes along each dimension, 1 where the distribution says ``*``. Chosen when not given.
first_process : sequence of int, optional
    The grid coordinates of the process that holds index 0 (ScaLAPACK's RSRC and CSRC).
grid_order : {"C", "F"}
    How ranks are numbered in the grid: last dimension fastest, or first.
ranks : array of int, optional
    The rank at each grid position, in grid order; the identity without it.

Raises
------
InvalidArgument
    When a shape, block or grid is not positive, the grid has more positions than there are
    processes, a grid extent is not 1 where the distribution says ``*``, a word of the distribution
    is unknown, or a rank stands twice.
OutOfRange
    When `ranks` holds a rank outside 0 to nprocs - 1.

Examples
--------
>>> import datamover as dm
>>> tiles = dm.BlockCyclic((8, 6), "(cyclic(2), block)", nprocs=4, grid=(2, 2))
>>> tiles.owner_of((2, 0)), tiles.local_shape(2), tiles.local_index((6, 5))
(2, (4, 3), (2, 2))
>>> [indices.tolist() for indices in tiles.global_indices(2)]
[[2, 3, 6, 7], [0, 1, 2]]
>>> dm.BlockCyclic((4096, 4096), "(block, block)", nprocs=1_000_000).grid
(1000, 1000)
)doc");
    c.def(
        "__init__",
        [](BlockCyclic* self, const Point& shape, const std::string& distribution,
           std::int64_t nprocs, const Point& grid, const Point& first_process,
           const std::string& grid_order, nb::handle ranks) {
            new (self) BlockCyclic(make_block_cyclic(shape, distribution, nprocs, grid,
                                                     first_process, grid_order, ranks));
        },
        "shape"_a, "distribution"_a, "nprocs"_a, "grid"_a.none() = nb::none(),
        "first_process"_a.none() = nb::none(), "grid_order"_a = "C", "ranks"_a.none() = nb::none(),
        nb::sig("def __init__(self, shape: int | collections.abc.Sequence[int], distribution: str, "
                "nprocs: int, grid: int | collections.abc.Sequence[int] | None = None, "
                "first_process: int | collections.abc.Sequence[int] | None = None, "
                "grid_order: str = 'C', ranks: numpy.typing.ArrayLike | None = None) -> None"));
    add_common(c);
    c.def_prop_ro("shape", &BlockCyclic::shape, "Extents of the array.")
        .def_prop_ro("grid", &BlockCyclic::grid, "Processes along each dimension.")
        .def_prop_ro("block", &BlockCyclic::block, "Block size along each dimension.")
        .def_prop_ro("first_process", &BlockCyclic::first_process,
                     "Grid coordinates of the process that holds index 0.")
        .def_prop_ro(
            "grid_order", [](const BlockCyclic& l) { return l.column_major_grid() ? "F" : "C"; },
            "\"C\" or \"F\": how positions of the grid are numbered.")
        .def_prop_ro("distribution", &BlockCyclic::distribution, "In HPF's notation, as given.")
        .def_prop_ro(
            "ranks",
            [](const BlockCyclic& l) {
                std::vector<std::int64_t> all;
                for (std::int64_t b = 0; b < l.num_blocks(); ++b) all.push_back(l.owner(b));
                return array_of(std::move(all));
            },
            nb::rv_policy::move, nb::rv_policy::reference,
            "The rank at each grid position, in grid order (int64).")
        .def("block_of", &BlockCyclic::block_of, "rank"_a,
             "The grid position (block number) of a rank, or -1 for a rank outside the grid.")
        .def("owner_of", &BlockCyclic::owner_of, "index"_a,
             "The rank that holds an index. Raises OutOfRange.")
        .def("local_shape", &BlockCyclic::local_shape, "rank"_a,
             "The shape of a rank's local array; zeros for a rank outside the grid.")
        .def("local_index", &BlockCyclic::local_index, "index"_a,
             "Where the owner of a global index holds it. Raises OutOfRange.")
        .def("global_index", &BlockCyclic::global_index, "rank"_a, "local_index"_a,
             "The global index of a local one. Raises OutOfRange.")
        .def("global_indices", &global_indices, "rank"_a,
             nb::sig(
                 "def global_indices(self, rank: int) -> list[numpy.typing.NDArray[numpy.int64]]"),
             R"doc(The global indices that a rank holds, one int64 array for each dimension.

Their product is the rank's part: ``whole[np.ix_(*layout.global_indices(rank))]`` is its local
array. Takes time and memory in the sum of the local extents. Raises OutOfRange.
)doc")
        .def("__hash__",
             [](const BlockCyclic& l) {
                 return nb::hash(nb::make_tuple(l.shape(), l.distribution(), l.nprocs(), l.grid()));
             })
        .def("__repr__", &repr_of)
        .def("__getstate__", &state_of)
        .def("__setstate__", [](BlockCyclic& self, const nb::tuple& state) {
            new (&self) BlockCyclic(block_cyclic_from(state));
        });
}

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

FloorPlan make_floor_plan(nb::handle regions, nb::handle owners,
                          std::optional<std::int64_t> nprocs) {
    const Integers owner_of(owners, "owners");
    if (owner_of.ndim() != 1)
        throw Error(ErrorCode::invalid_argument, "owners must have one dimension");
    const std::int64_t procs = nprocs.value_or(-1);
    if (nprocs && *nprocs < 1)
        throw Error(ErrorCode::invalid_argument,
                    "nprocs is " + std::to_string(*nprocs) + ", it must be at least 1");
    const bool objects = !nb::hasattr(regions, "dtype") && nb::len(regions) > 0 &&
                         nb::isinstance<Region>(nb::object(regions[0]));
    if (!objects) return floor_plan_of_table(regions, owner_of, procs);
    std::vector<Region> boxes;
    for (nb::handle region : regions) boxes.push_back(nb::cast<const Region&>(region));
    return FloorPlan(boxes, vector_of(owner_of), procs);
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

void bind_floor_plan_cuts(nb::class_<FloorPlan>& c) {
    c.def_static(
         "uniform",
         [](const Region& domain, const Point& grid, std::int64_t nprocs) {
             return FloorPlan::uniform(domain, in_all_dims(grid, domain.dims()), nprocs);
         },
         "domain"_a, "grid"_a, "nprocs"_a,
         R"doc(A domain cut into a grid of blocks of ceil(extent / grid) points per dimension.

Block i (last dimension fastest) goes to rank i % nprocs; the last blocks of a dimension may be
smaller, or empty. Raises InvalidArgument, Mismatch (dimensions).

Examples
--------
>>> import datamover as dm
>>> plan = dm.FloorPlan.uniform(dm.Region((0, 0), (8, 6)), (2, 2), nprocs=4)
>>> plan.region(3), plan.owner(3)
(Region((4, 3), (8, 6)), 3)
)doc")
        .def_static(
            "tiles",
            [](const Region& domain, const Point& tile, std::int64_t nprocs,
               const std::string& mapping) {
                return FloorPlan::tiles(domain, in_all_dims(tile, domain.dims()), nprocs, mapping);
            },
            "domain"_a, "tile"_a, "nprocs"_a, "mapping"_a = "block",
            R"doc(A domain cut into tiles of a given shape, smaller ones at the upper ends.

`mapping` deals them to the ranks: "cyclic" round robin, "block" in contiguous shares as equal as
possible. Raises InvalidArgument, Mismatch (dimensions).
)doc")
        .def_static("from_splits", &FloorPlan::from_splits, "domain"_a, "splits"_a, "nprocs"_a,
                    R"doc(A domain cut at given coordinates.

`splits[d]` are the inner cuts of dimension d, ascending. Block i (last dimension fastest) goes to
rank i % nprocs. Raises Mismatch (dimensions), OutOfRange (a cut outside), InvalidArgument.
)doc")
        .def_static("bisected", &FloorPlan::bisected, "domain"_a, "weights"_a,
                    R"doc(A domain cut by recursive bisection, block i for rank i.

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
    add_common(c);
    bind_floor_plan_cuts(c);
    c.def("__len__", &FloorPlan::num_blocks)
        .def("region", &FloorPlan::region, "block"_a, "The region of a block. Raises OutOfRange.")
        .def_prop_ro("regions", &table_of, nb::rv_policy::move, nb::rv_policy::reference,
                     "All regions as an (n, 2, dims) array (int64), a copy.")
        .def_prop_ro(
            "owners", [](const FloorPlan& l) { return array_of(l.owners()); }, nb::rv_policy::move,
            nb::rv_policy::reference, "The rank of each block (int64), a copy.")
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

IndexList make_index_list(const Point& shape, nb::handle lists) {
    std::vector<std::int64_t> offsets{0}, indices;
    for (nb::handle list : lists) {
        const Integers of_rank(list, "indices of a list");
        indices.insert(indices.end(), of_rank.values().begin(), of_rank.values().end());
        offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    return IndexList(shape, offsets, indices);
}

void bind_index_list(nb::module_& m) {
    nb::class_<IndexList> c(m, "IndexList",
                            R"doc(A list of flat indices for each rank: any ownership at all.

The local array of a rank has one dimension, in the order of its list. An index may stand in no list
(nobody holds it) or in several (copies; the lowest rank sends). A value, cheap to copy.

Parameters
----------
shape : int or sequence of int
    Shape of the array that the indices point into.
lists : sequence of arrays of int
    One for each rank: indices as in ``array.ravel()[i]`` (last dimension fastest).

Raises
------
OutOfRange
    When an index lies outside the shape.
InvalidArgument
    When one index stands twice in one list.
WrongType
    When indices are no integers.

Examples
--------
>>> import datamover as dm
>>> odd_even = dm.IndexList(10, [range(1, 10, 2), range(0, 10, 2)])
>>> odd_even.nprocs, odd_even.indices_of(0).tolist(), odd_even.holders(4)
(2, [1, 3, 5, 7, 9], [(1, 2)])
)doc");
    c.def(
        "__init__",
        [](IndexList* self, const Point& shape, nb::handle lists) {
            new (self) IndexList(make_index_list(shape, lists));
        },
        "shape"_a, "lists"_a,
        nb::sig("def __init__(self, shape: int | collections.abc.Sequence[int], "
                "lists: collections.abc.Iterable[numpy.typing.ArrayLike]) -> None"));
    add_common(c);
    c.def_prop_ro("shape", &IndexList::shape, "Shape of the array that the indices point into.")
        .def(
            "indices_of",
            [](const IndexList& l, std::int64_t rank) { return array_of(l.indices_of(rank)); },
            "rank"_a, "The flat indices of a rank (int64), a copy. Raises OutOfRange.")
        .def(
            "holders",
            [](const IndexList& l, std::int64_t index) {
                nb::list all;
                for (const auto& h : l.holders(index))
                    all.append(nb::make_tuple(h.rank, h.position));
                return all;
            },
            "index"_a, nb::sig("def holders(self, index: int) -> list[tuple[int, int]]"),
            "Who holds a flat index, as (rank, position in its list), ascending.")
        .def("__hash__",
             [](const IndexList& l) { return nb::hash(nb::make_tuple(l.shape(), l.nprocs())); })
        .def("__repr__",
             [](const IndexList& l) {
                 return "<IndexList over " + l.shape().to_string() + " on " +
                        std::to_string(l.nprocs()) + " processes>";
             })
        .def("__getstate__",
             [](const IndexList& l) {
                 nb::list lists;
                 for (std::int64_t r = 0; r < l.nprocs(); ++r)
                     lists.append(array_of(l.indices_of(r)));
                 return nb::make_tuple(l.shape(), lists);
             })
        .def("__setstate__", [](IndexList& self, const nb::tuple& s) {
            new (&self) IndexList(make_index_list(nb::cast<Point>(s[0]), s[1]));
        });
}

MemoryLayout dense(const Layout& layout, std::int64_t rank, std::int64_t elem_bytes,
                   const std::string& order, const Point& ghost, const Point& ghost_upper) {
    const Point lower = in_all_dims(ghost, layout.dims());
    const Point upper = ghost_upper.dims() > 0 ? in_all_dims(ghost_upper, layout.dims()) : lower;
    const bool none = lower == Point::filled(layout.dims(), 0) && upper == lower;
    return dense_memory(layout, rank, elem_bytes, bindings::element_order(order),
                        none ? Point{} : lower, none ? Point{} : upper);
}

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
            [](BlockMemory* self, std::int64_t block, std::int64_t offset_bytes,
               const Point& strides_bytes, const Region& valid) {
                if (strides_bytes.dims() != valid.dims())
                    throw Error(ErrorCode::mismatch,
                                "strides " + strides_bytes.to_string() + " for a block of " +
                                    std::to_string(valid.dims()) + " dimensions");
                new (self) BlockMemory{block, offset_bytes, strides_bytes, valid};
            },
            "block"_a, "offset_bytes"_a, "strides_bytes"_a, "valid"_a)
        .def_ro("block", &BlockMemory::block, "The block's number.")
        .def_ro("offset_bytes", &BlockMemory::offset_bytes, "Of local index zero, from the base.")
        .def_prop_ro(
            "strides_bytes", [](const BlockMemory& b) { return b.strides_bytes; },
            "Bytes from one index to the next.")
        .def_ro("valid", &BlockMemory::valid, "The local indices that exist, ghosts included.")
        .def(
            "__eq__", [](const BlockMemory& a, const BlockMemory& b) { return a == b; },
            nb::is_operator());

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
            [](MemoryLayout* self, std::vector<BlockMemory> blocks, std::int64_t begin_bytes,
               std::int64_t end_bytes) {
                const auto before = [](const BlockMemory& a, const BlockMemory& b) {
                    return a.block < b.block;
                };
                std::sort(blocks.begin(), blocks.end(), before);
                new (self) MemoryLayout{std::move(blocks), begin_bytes, end_bytes};
            },
            "blocks"_a, "begin_bytes"_a, "end_bytes"_a)
        .def_ro("blocks", &MemoryLayout::blocks, "The blocks, ascending by number.")
        .def_ro("begin_bytes", &MemoryLayout::begin_bytes, "The lowest address, from the base.")
        .def_ro("end_bytes", &MemoryLayout::end_bytes, "One past the highest address.")
        .def(
            "__eq__", [](const MemoryLayout& a, const MemoryLayout& b) { return a == b; },
            nb::is_operator());

    m.def("dense_memory", &dense, "layout"_a, "rank"_a, "elem_bytes"_a, "order"_a = "C",
          "ghost"_a = 0, "ghost_upper"_a.none() = nb::none());
}

}  // namespace

void bind_layout(nb::module_& m) {
    bind_block_cyclic(m);
    bind_floor_plan(m);
    bind_index_list(m);
    bind_memory_layout(m);
}
