// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of the layouts: BlockCyclic, IndexList, FloorPlan and FlatCyclic, and the methods
// that all of them have.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "casters.hpp"
#include "datamover/flat_cyclic.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/layout.hpp"
#include "datamover/scalapack_descriptor.hpp"
#include "numpy_arrays.hpp"

namespace datamover::bindings {

template <class Kind>
void add_common(nanobind::class_<Kind>& c) {
    namespace nb = nanobind;
    using namespace nb::literals;
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
        .def(nb::self == nb::self);
}

}  // namespace datamover::bindings

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::array_of;
using bindings::in_all_dims;
using bindings::integer_of;
using bindings::Integers;
using bindings::point_of;
using bindings::point_or_none;
using bindings::text_of;

namespace {

/// The number of processes that is given, or that a communicator of mpi4py has; one of the two.
std::int64_t processes_of(nb::handle nprocs, nb::handle comm) {
    if (comm.is_none()) {
        if (nprocs.is_none())
            throw Error(ErrorCode::wrong_type,
                        "nprocs= is missing: pass the number of processes, or a communicator as "
                        "comm=");
        return integer_of(nprocs, "nprocs");
    }
    if (!nprocs.is_none())
        throw Error(ErrorCode::invalid_argument,
                    "nprocs= and comm= are both given; pass only one of them");
    if (!nb::hasattr(comm, "Get_size"))
        bindings::refuse_type(comm, "comm", "a communicator of mpi4py");
    const nb::dict modules = nb::module_::import_("sys").attr("modules");
    if (modules.contains("mpi4py.MPI") &&
        nb::cast<bool>(modules["mpi4py.MPI"].attr("Is_finalized")()))
        throw Error(ErrorCode::mpi, "comm cannot be used: MPI has ended");
    try {
        return nb::cast<std::int64_t>(comm.attr("Get_size")());
    } catch (const nb::cast_error&) {
        bindings::refuse_type(comm, "comm", "a communicator of mpi4py");
    } catch (const nb::python_error& e) {
        if (!e.matches(PyExc_Exception)) throw;  // an interrupt
        throw Error(ErrorCode::invalid_argument,
                    "comm has no processes: it is MPI.COMM_NULL, or was freed");
    }
}

BlockCyclic make_block_cyclic(const Point& shape, const std::string& distribution,
                              std::int64_t nprocs, const Point& grid, const Point& first_process,
                              const std::string& grid_order, nb::handle ranks,
                              std::int64_t replicas) {
    BlockCyclicOptions options;
    if (grid.dims() > 0) options.grid = grid.to_vector();
    options.first_process = first_process.to_vector();
    options.column_major_grid = bindings::column_major(grid_order, "grid_order");
    if (!ranks.is_none()) options.ranks = Integers(ranks, "ranks").to_vector();
    options.replicas = replicas;
    return BlockCyclic(shape, distribution, nprocs, options);
}

nb::list global_indices(const BlockCyclic& layout, std::int64_t rank) {
    nb::list lists;
    for (auto& indices : layout.global_indices(rank)) lists.append(array_of(std::move(indices)));
    return lists;
}

std::string repr_text(nb::handle object) {
    return nb::cast<std::string>(nb::repr(object));
}

std::string block_cyclic_repr(const BlockCyclic& l) {
    return "BlockCyclic(" + repr_text(nb::cast(l.shape())) + ", " +
           repr_text(nb::cast(l.distribution())) + ", nprocs=" + std::to_string(l.nprocs()) +
           ", grid=" + repr_text(nb::cast(l.grid())) +
           (l.replicas() > 1 ? ", replicas=" + std::to_string(l.replicas()) : "") + ")";
}

nb::tuple block_cyclic_state(const BlockCyclic& l) {
    return nb::make_tuple(l.shape(), l.distribution(), l.nprocs(), l.grid(), l.first_process(),
                          l.column_major_grid() ? "F" : "C",
                          array_of(std::span<const std::int64_t>(l.ranks())), l.replicas());
}

BlockCyclic block_cyclic_from(const nb::tuple& s) {
    const bool identity = nb::len(nb::object(s[6])) == 0;
    return make_block_cyclic(
        nb::cast<Point>(s[0]), nb::cast<std::string>(s[1]), nb::cast<std::int64_t>(s[2]),
        nb::cast<Point>(s[3]), nb::cast<Point>(s[4]), nb::cast<std::string>(s[5]),
        identity ? nb::object(nb::none()) : nb::object(s[6]), nb::cast<std::int64_t>(s[7]));
}

BlockCyclic from_scalapack(nb::handle descriptor, nb::handle given_grid, nb::handle nprocs,
                           nb::handle grid_order, nb::handle ranks, nb::handle comm) {
    const Point grid = point_of(given_grid, "grid");
    const Integers given(descriptor, "entries of a descriptor");
    if (given.values().size() != 9)
        throw Error(ErrorCode::invalid_argument, "a ScaLAPACK descriptor has 9 entries, not " +
                                                     std::to_string(given.values().size()));
    if (grid.dims() != 2)
        throw Error(ErrorCode::invalid_argument,
                    "a BLACS grid has 2 dimensions, not " + std::to_string(grid.dims()));
    std::array<int, 9> entries{};
    std::transform(
        given.values().begin(), given.values().end(), entries.begin(), [](std::int64_t entry) {
            if (entry != static_cast<int>(entry))
                throw Error(ErrorCode::out_of_range, "entry " + std::to_string(entry) +
                                                         " of a descriptor does not fit an int");
            return static_cast<int>(entry);
        });
    const std::string order = text_of(grid_order, "grid_order");
    ProcessGrid processes{grid[0], grid[1], bindings::column_major(order, "grid_order"), {}};
    if (!ranks.is_none()) processes.ranks = Integers(ranks, "ranks").to_vector();
    return ScalapackDescriptor::from_entries(entries).layout(processes, processes_of(nprocs, comm));
}

void bind_scalapack(nb::class_<BlockCyclic>& c) {
    c.def_static("from_scalapack", &from_scalapack, "descriptor"_a.none(), "grid"_a.none(),
                 "nprocs"_a.none() = nb::none(), "grid_order"_a.none() = "C",
                 "ranks"_a.none() = nb::none(), nb::kw_only(), "comm"_a.none() = nb::none(),
                 nb::sig("def from_scalapack(descriptor: numpy.typing.ArrayLike, "
                         "grid: collections.abc.Sequence[int], nprocs: int | None = None, "
                         "grid_order: str = 'C', ranks: numpy.typing.ArrayLike | None = None, *, "
                         "comm: typing.Any = None) -> BlockCyclic"),
                 R"doc(The layout that a ScaLAPACK array descriptor says.

Local matrices are column-major: NumPy arrays with ``order="F"``, or the first rows of one with LLD
rows.

Parameters
----------
descriptor : array of 9 int
    DTYPE_ (1, dense), CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_, as ``descinit`` makes them. CTXT_
    and LLD_ are not looked at.
grid : (int, int)
    Rows and columns of the BLACS process grid.
nprocs : int
    Number of processes of the communicator. Pass either this or `comm`.
grid_order : {"C", "F"}
    "C" for a grid that ``blacs_gridinit`` made with 'R', "F" for one made with 'C'.
ranks : array of int, optional
    The rank at each grid position, where it is not the position's number.
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

Raises
------
InvalidArgument
    When an entry makes no sense, or the grid does not hold RSRC_ and CSRC_.
Unsupported
    When DTYPE_ is not 1.

Notes
-----
Source: ScaLAPACK Users' Guide, section 4.3.3.

Examples
--------
>>> import datamover as dm
>>> layout = dm.BlockCyclic.from_scalapack([1, 0, 9, 9, 2, 2, 0, 1, 5], grid=(2, 3), nprocs=6)
>>> layout.distribution, layout.first_process, layout.local_shape(1)
('(cyclic(2), cyclic(2))', (0, 1), (5, 4))
>>> layout.scalapack_descriptor(rank=1, context=0).tolist()
[1, 0, 9, 9, 2, 2, 0, 1, 5]
)doc")
        .def(
            "scalapack_descriptor",
            [](const BlockCyclic& layout, std::int64_t rank, int context, std::int64_t lld) {
                const auto entries = ScalapackDescriptor::of(layout, rank, lld).to_entries(context);
                return array_of(std::vector<int>(entries.begin(), entries.end()));
            },
            "rank"_a, "context"_a = 0, "lld"_a = 0,
            nb::sig("def scalapack_descriptor(self, rank: int, context: int = 0, lld: int = 0) -> "
                    "numpy.typing.NDArray[numpy.int32]"),
            R"doc(The ScaLAPACK descriptor of a rank's part, for a two-dimensional layout.

Parameters
----------
rank : int
    Of which process.
context : int
    The BLACS context, which becomes ``CTXT_``.
lld : int
    Elements from one local column to the next; the least that is allowed where it is less.

Returns
-------
ndarray of int32
    Nine entries, as Fortran wants them.

Raises
------
InvalidArgument
    When the layout does not have two dimensions.
OutOfRange
    When an entry does not fit 32 bits.
)doc");
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
    Number of processes; the ranks are 0 to nprocs - 1. Pass either this or `comm`.
grid : sequence of int, optional
    Processes along each dimension, 1 where the distribution says ``*``. Chosen when not given.
first_process : sequence of int, optional
    The grid coordinates of the process that holds index 0 (ScaLAPACK's RSRC and CSRC).
grid_order : {"C", "F"}
    How ranks are numbered in the grid: last dimension fastest, or first.
ranks : array of int, optional
    The rank of each block: each grid position in grid order, replica by replica; the identity
    without it.
replicas : int
    Copies of the whole array, each on a grid of its own: HPF's ``ALIGN WITH T(..., *)``. As a
    destination all receive; as a source the nearest sends: the receiver's own, then the lowest rank
    on its node, then the lowest rank.
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

Raises
------
InvalidArgument
    When an extent is negative, a block or grid not positive, there are more blocks than processes, `ranks` has
    another number of entries than there are blocks, a grid extent is not 1 where the distribution says ``*``, a word of the distribution
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
>>> copies = dm.BlockCyclic(8, "block", nprocs=4, replicas=2)
>>> [copies.global_indices(rank)[0].tolist() for rank in range(4)]
[[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]]
)doc");
    c.def(
        "__init__",
        [](BlockCyclic* self, nb::handle shape, nb::handle distribution, nb::handle nprocs,
           nb::handle grid, nb::handle first_process, nb::handle grid_order, nb::handle ranks,
           nb::handle replicas, nb::handle comm) {
            new (self) BlockCyclic(make_block_cyclic(
                point_of(shape, "shape"), text_of(distribution, "distribution"),
                processes_of(nprocs, comm), point_or_none(grid, "grid"),
                point_or_none(first_process, "first_process"), text_of(grid_order, "grid_order"),
                ranks, integer_of(replicas, "replicas")));
        },
        "shape"_a.none(), "distribution"_a.none(), "nprocs"_a.none() = nb::none(),
        "grid"_a.none() = nb::none(), "first_process"_a.none() = nb::none(),
        "grid_order"_a.none() = "C", "ranks"_a.none() = nb::none(), "replicas"_a.none() = 1,
        nb::kw_only(), "comm"_a.none() = nb::none(),
        nb::sig("def __init__(self, shape: int | collections.abc.Sequence[int], distribution: str, "
                "nprocs: int | None = None, "
                "grid: int | collections.abc.Sequence[int] | None = None, "
                "first_process: int | collections.abc.Sequence[int] | None = None, "
                "grid_order: str = 'C', ranks: numpy.typing.ArrayLike | None = None, "
                "replicas: int = 1, *, comm: typing.Any = None) -> None"));
    bindings::add_common(c);
    bind_scalapack(c);
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
            "The rank of each block: each grid position in grid order, replica by replica (int64).")
        .def_prop_ro("replicas", &BlockCyclic::replicas, "Copies of the whole array.")
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
                 return nb::hash(nb::make_tuple(l.shape(), l.nprocs(), l.grid(), l.block()));
             })
        .def("__repr__", &block_cyclic_repr)
        .def("__getstate__", &block_cyclic_state)
        .def("__setstate__", [](BlockCyclic& self, const nb::tuple& state) {
            new (&self) BlockCyclic(block_cyclic_from(state));
        });
}

IndexList make_index_list(const Point& shape, nb::handle lists) {
    const nb::object each = nb::steal(PyObject_GetIter(lists.ptr()));
    if (!each.is_valid()) {
        PyErr_Clear();
        bindings::refuse_type(lists, "lists",
                              "a sequence of arrays of integers, one for each rank");
    }
    std::vector<std::int64_t> offsets{0}, indices;
    for (nb::handle list : each) {
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
(nobody holds it), or several times in one list or in several: these are copies, of which the first
of the lowest rank sends, and all receive. A value, cheap to copy.

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
        [](IndexList* self, nb::handle shape, nb::handle lists) {
            new (self) IndexList(make_index_list(point_of(shape, "shape"), lists));
        },
        "shape"_a.none(), "lists"_a.none(),
        nb::sig("def __init__(self, shape: int | collections.abc.Sequence[int], "
                "lists: collections.abc.Iterable[numpy.typing.ArrayLike]) -> None"));
    bindings::add_common(c);
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

}  // namespace

void bind_layout(nb::module_& m) {
    bind_block_cyclic(m);
    bind_index_list(m);
}

// Python bindings of FloorPlan. As FloorPlan.

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
std::int64_t checked_nprocs(nb::handle given, nb::handle comm) {
    if (given.is_none() && comm.is_none()) return -1;
    const std::int64_t nprocs = processes_of(given, comm);
    if (nprocs < 1)
        throw Error(ErrorCode::invalid_argument,
                    "nprocs is " + std::to_string(nprocs) + ", it must be at least 1");
    return nprocs;
}

/// Whether regions are objects, else they are a table.
bool are_objects(nb::handle regions) {
    if (nb::hasattr(regions, "dtype")) return false;
    if (!PySequence_Check(regions.ptr()) || PyUnicode_Check(regions.ptr()))
        bindings::refuse_type(regions, "regions",
                              "a sequence of Region or an array of integers (n, 2, dims)");
    return nb::len(regions) > 0 && nb::isinstance<Region>(nb::object(regions[0]));
}

FloorPlan make_floor_plan(nb::handle regions, nb::handle owners, nb::handle nprocs,
                          nb::handle comm) {
    const bool objects = are_objects(regions);
    const Integers owner_of = checked_owners(owners);
    const std::int64_t procs = checked_nprocs(nprocs, comm);
    if (!objects) return floor_plan_of_table(regions, owner_of, procs);
    std::vector<Region> boxes;
    for (nb::handle region : regions)
        boxes.push_back(
            bindings::region_of(region, "regions[" + std::to_string(boxes.size()) + "]"));
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

FloorPlan with_owners(const FloorPlan& plan, nb::handle owners, nb::handle nprocs,
                      nb::handle comm) {
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

void bind_floor_plan_cuts(nb::class_<FloorPlan>& c) {
    c.def_static(
         "uniform",
         [](nb::handle domain, nb::handle grid, nb::handle nprocs, nb::handle comm) {
             const Region all = domain_of(domain);
             return FloorPlan::uniform(all, in_dims_of(all, grid, "grid"),
                                       processes_of(nprocs, comm));
         },
         "domain"_a.none(), "grid"_a.none(), "nprocs"_a.none() = nb::none(), nb::kw_only(),
         "comm"_a.none() = nb::none(),
         nb::sig("def uniform(domain: Region | int | collections.abc.Sequence[int], "
                 "grid: int | collections.abc.Sequence[int], nprocs: int | None = None, *, "
                 "comm: typing.Any = None) -> FloorPlan"),
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
            [](nb::handle domain, nb::handle tile, nb::handle nprocs, nb::handle mapping,
               nb::handle comm) {
                const Region all = domain_of(domain);
                return FloorPlan::tiles(all, in_dims_of(all, tile, "tile"),
                                        processes_of(nprocs, comm),
                                        bindings::text_of(mapping, "mapping"));
            },
            "domain"_a.none(), "tile"_a.none(), "nprocs"_a.none() = nb::none(),
            "mapping"_a.none() = "block", nb::kw_only(), "comm"_a.none() = nb::none(),
            nb::sig("def tiles(domain: Region | int | collections.abc.Sequence[int], "
                    "tile: int | collections.abc.Sequence[int], nprocs: int | None = None, "
                    "mapping: str = 'block', *, comm: typing.Any = None) -> FloorPlan"),
            R"doc(A domain, or a shape, cut into tiles of a given shape, smaller ones at the upper ends.

`mapping` deals them to the ranks: "cyclic" round robin, "block" in contiguous shares as equal as
possible. Raises InvalidArgument, Mismatch (dimensions).
)doc")
        .def_static(
            "from_splits",
            [](nb::handle domain, nb::handle splits, nb::handle nprocs, nb::handle comm) {
                return FloorPlan::from_splits(
                    domain_of(domain),
                    bindings::value_of<Splits>(splits, "splits",
                                               "a list of integers for each dimension"),
                    processes_of(nprocs, comm));
            },
            "domain"_a.none(), "splits"_a.none(), "nprocs"_a.none() = nb::none(), nb::kw_only(),
            "comm"_a.none() = nb::none(),
            nb::sig("def from_splits(domain: Region | int | collections.abc.Sequence[int], "
                    "splits: collections.abc.Sequence[collections.abc.Sequence[int]], "
                    "nprocs: int | None = None, *, comm: typing.Any = None) -> FloorPlan"),
            R"doc(A domain, or a shape, cut at given coordinates.

`splits[d]` are the inner cuts of dimension d, ascending. Block i (last dimension fastest) goes to
rank i % nprocs. Raises Mismatch (dimensions), OutOfRange (a cut outside), InvalidArgument.
)doc")
        .def_static(
            "bisected",
            [](nb::handle domain, nb::handle weights) {
                return FloorPlan::bisected(domain_of(domain),
                                           bindings::value_of<std::vector<double>>(
                                               weights, "weights", "a list of numbers"));
            },
            "domain"_a.none(), "weights"_a.none(),
            nb::sig("def bisected(domain: Region | int | collections.abc.Sequence[int], "
                    "weights: collections.abc.Sequence[float]) -> FloorPlan"),
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
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

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
        [](FloorPlan* self, nb::handle regions, nb::handle owners, nb::handle nprocs,
           nb::handle comm) {
            new (self) FloorPlan(make_floor_plan(regions, owners, nprocs, comm));
        },
        "regions"_a.none(), "owners"_a.none(), "nprocs"_a.none() = nb::none(), nb::kw_only(),
        "comm"_a.none() = nb::none(),
        nb::sig("def __init__(self, regions: collections.abc.Sequence[Region] | "
                "numpy.typing.ArrayLike, owners: numpy.typing.ArrayLike, "
                "nprocs: int | None = None, *, comm: typing.Any = None) -> None"));
    bindings::add_common(c);
    bind_floor_plan_cuts(c);
    c.def("__len__", &FloorPlan::num_blocks)
        .def("region", &FloorPlan::region, "block"_a, "The region of a block. Raises OutOfRange.")
        .def_prop_ro("regions", &table_of, nb::rv_policy::move, nb::rv_policy::reference,
                     "All regions as an (n, 2, dims) array (int64), a copy.")
        .def_prop_ro(
            "owners", [](const FloorPlan& l) { return array_of(l.owners()); }, nb::rv_policy::move,
            nb::rv_policy::reference, "The rank of each block (int64), a copy.")
        .def("with_owners", &with_owners, "owners"_a.none(), "nprocs"_a.none() = nb::none(),
             nb::kw_only(), "comm"_a.none() = nb::none(),
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
                     "numpy.typing.ArrayLike, nprocs: int | None = None, *, "
                     "comm: typing.Any = None) -> FloorPlan"))
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
            new (&self) FloorPlan(make_floor_plan(s[0], s[1], s[2], nb::none()));
        });
}

// Python bindings of FlatCyclic.

namespace {

/// Owners that are given are some: none at all would stand for all.
std::vector<std::int64_t> owners_of(nb::handle owners) {
    if (owners.is_none()) return {};
    auto ranks = Integers(owners, "owners").to_vector();
    if (ranks.empty())
        throw Error(ErrorCode::invalid_argument, "owners is empty; somebody has to hold the array");
    return ranks;
}

FlatCyclic of_bytes(nb::handle shape, nb::handle block_bytes, nb::handle dtype, nb::handle nprocs,
                    nb::handle owners, nb::handle comm) {
    if (dtype.is_none()) bindings::refuse_type(dtype, "dtype", "a dtype");  // NumPy's is "f8"
    const nb::object type = nb::module_::import_("numpy").attr("dtype")(dtype);
    return FlatCyclic::of_bytes(point_of(shape, "shape"), integer_of(block_bytes, "block_bytes"),
                                nb::cast<std::int64_t>(type.attr("itemsize")),
                                processes_of(nprocs, comm), owners_of(owners));
}

std::vector<std::int64_t> all_owners(const FlatCyclic& l) {
    std::vector<std::int64_t> all;
    for (std::int64_t b = 0; b < l.num_blocks(); ++b) all.push_back(l.owner(b));
    return all;
}

std::vector<std::int64_t> indices_of(const FlatCyclic& l, std::int64_t rank) {
    const std::int64_t block = l.block_of(rank);
    if (block < 0) return {};
    const AxisSet set = l.flat_set(block);
    std::vector<std::int64_t> indices(static_cast<std::size_t>(set.size()));
    for (std::size_t i = 0; i < indices.size(); ++i)
        indices[i] = set.global(static_cast<std::int64_t>(i));
    return indices;
}

std::string repr_of(const FlatCyclic& l) {
    constexpr std::size_t most_shown = 8;
    std::string owners;
    for (std::size_t i = 0; i < std::min(most_shown, l.owners().size()); ++i)
        owners += (i > 0 ? ", " : "") + std::to_string(l.owners()[i]);
    if (l.owners().size() > most_shown)
        owners += ", ... (" + std::to_string(l.owners().size()) + " in all)";
    return "FlatCyclic(" + nb::cast<std::string>(nb::repr(nb::cast(l.shape()))) +
           ", block_elems=" + std::to_string(l.block_elems()) +
           ", nprocs=" + std::to_string(l.nprocs()) +
           (owners.empty() ? "" : ", owners=[" + owners + "]") + ")";
}

void bind_making(nb::class_<FlatCyclic>& c) {
    c.def(
        "__init__",
        [](FlatCyclic* self, nb::handle shape, nb::handle block_elems, nb::handle nprocs,
           nb::handle owners, nb::handle comm) {
            new (self) FlatCyclic(point_of(shape, "shape"), integer_of(block_elems, "block_elems"),
                                  processes_of(nprocs, comm), owners_of(owners));
        },
        "shape"_a.none(), "block_elems"_a.none(), "nprocs"_a.none() = nb::none(),
        "owners"_a.none() = nb::none(), nb::kw_only(), "comm"_a.none() = nb::none(),
        nb::sig("def __init__(self, shape: int | collections.abc.Sequence[int], block_elems: int, "
                "nprocs: int | None = None, owners: numpy.typing.ArrayLike | None = None, *, "
                "comm: typing.Any = None) -> None"));
    c.def_static("of_bytes", &of_bytes, "shape"_a.none(), "block_bytes"_a.none(), "dtype"_a.none(),
                 "nprocs"_a.none() = nb::none(), "owners"_a.none() = nb::none(), nb::kw_only(),
                 "comm"_a.none() = nb::none(),
                 nb::sig("def of_bytes(shape: int | collections.abc.Sequence[int], "
                         "block_bytes: int, dtype: numpy.typing.DTypeLike, "
                         "nprocs: int | None = None, "
                         "owners: numpy.typing.ArrayLike | None = None, *, "
                         "comm: typing.Any = None) -> FlatCyclic"),
                 R"doc(The layout with ranges of so many bytes, for elements of a dtype.

Parameters
----------
shape : int or sequence of int
    Extents of the array.
block_bytes : int
    Bytes of each range: a whole number of elements.
dtype : dtype
    Of the elements.
nprocs : int
    Number of processes. Pass either this or `comm`.
owners : array of int, optional
    As for the class.
comm : mpi4py communicator, optional
    Whose processes are meant; only its size is used.

Raises
------
InvalidArgument
    When elements of the dtype do not divide `block_bytes`, and as the class does.

Examples
--------
>>> import datamover as dm
>>> dm.FlatCyclic.of_bytes((1024, 1024), 8192, "f8", nprocs=4).block_elems
1024
)doc");
}

}  // namespace

void bind_flat_cyclic(nb::module_& m) {
    nb::class_<FlatCyclic> c(
        m, "FlatCyclic",
        R"doc(Contiguous ranges of the flattened array, dealt to processes in turn.

The array is flattened as ``array.ravel()`` does (last dimension fastest) and cut into ranges of
`block_elems` elements; the last may be shorter. ``owners[0]`` holds the first range, ``owners[1]``
the next, and so on, beginning again after the last. The local array of a process has one dimension:
its ranges, one behind the other. This is how files of raw bytes and flat shards lie. A value; its
size does not depend on the array.

Parameters
----------
shape : int or sequence of int
    Extents of the array, 1 to 8 dimensions.
block_elems : int
    Elements of each range.
nprocs : int
    Number of processes; the ranks are 0 to nprocs - 1. Pass either this or `comm`.
owners : array of int, optional
    The ranks that hold ranges, in order; all of them without it.
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

Raises
------
InvalidArgument
    When an extent is negative, `block_elems` is not positive, or a rank stands twice in `owners`.
OutOfRange
    When `owners` holds a rank outside 0 to nprocs - 1, or the array has more than 2^63 elements.

Notes
-----
Plans from and to block-cyclic layouts and floor plans are compact where rows and ranges repeat
together after few rows. Elsewhere what two processes share is worked out row by row whenever it is
needed: binding a mover takes time for each part of a row, and about 24 bytes at most; beyond 2^28
rows and ranges of one process a plan is refused as Unsupported. Source: the I/O mapping of the paper
on network I/O, section 6.3.

Examples
--------
>>> import datamover as dm
>>> shards = dm.FlatCyclic((4, 6), block_elems=8, nprocs=4, owners=[2, 0])
>>> shards.indices_of(2).tolist(), shards.local_elems(0), shards.place_of(9)
([0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23], 8, (0, 1))
>>> plan = dm.redistribute(dm.BlockCyclic((4, 6), "(block, block)", nprocs=4), shards)
>>> sorted(plan.incoming(0))
[0, 1, 2, 3]
)doc");
    bind_making(c);
    bindings::add_common(c);
    c.def_prop_ro("shape", &FlatCyclic::shape, "Extents of the array.")
        .def_prop_ro("block_elems", &FlatCyclic::block_elems,
                     "Elements of each range, at most those of the array.")
        .def_prop_ro(
            "owners", [](const FlatCyclic& l) { return array_of(all_owners(l)); },
            nb::rv_policy::move, nb::rv_policy::reference,
            "The rank that holds each block: the ranges that have the same owner (int64).")
        .def("block_of", &FlatCyclic::block_of, "rank"_a,
             "The block of a rank, its place in `owners`, or -1. Raises OutOfRange.")
        .def(
            "indices_of",
            [](const FlatCyclic& l, std::int64_t rank) { return array_of(indices_of(l, rank)); },
            "rank"_a,
            "The flat indices that a rank holds (int64), in the order of its local array. O(their "
            "number). Raises OutOfRange.")
        .def(
            "place_of",
            [](const FlatCyclic& l, std::int64_t index) {
                const FlatCyclic::Place place = l.place_of(index);
                return nb::make_tuple(l.owner(place.block), place.position);
            },
            "index"_a, nb::sig("def place_of(self, index: int) -> tuple[int, int]"),
            "Who holds a flat index, and at which place of its local array. Raises OutOfRange.")
        .def("__hash__",
             [](const FlatCyclic& l) {
                 return nb::hash(nb::make_tuple(l.shape(), l.nprocs(), l.block_elems()));
             })
        .def("__repr__", &repr_of)
        .def("__getstate__",
             [](const FlatCyclic& l) {
                 return nb::make_tuple(l.shape(), l.block_elems(), l.nprocs(),
                                       array_of(std::span<const std::int64_t>(l.owners())));
             })
        .def("__setstate__", [](FlatCyclic& self, const nb::tuple& s) {
            new (&self)
                FlatCyclic(nb::cast<Point>(s[0]), nb::cast<std::int64_t>(s[1]),
                           nb::cast<std::int64_t>(s[2]), Integers(s[3], "owners").to_vector());
        });
}
