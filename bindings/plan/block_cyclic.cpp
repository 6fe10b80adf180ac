// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of BlockCyclic, from and to ScaLAPACK's descriptors too.
#include <array>

#include "datamover/scalapack_descriptor.hpp"
#include "layout_members.hpp"

namespace datamover::bindings {

namespace {

void make_block_cyclic(BlockCyclic* self, Given<Point> shape, Given<std::string> distribution,
                       Given<std::int64_t> nprocs, Given<Point> grid, Given<Point> first_process,
                       Given<std::string> grid_order, Given<ArrayLike> ranks,
                       Given<std::int64_t> replicas, nb::any comm) {
    const Point extents = point_of(shape, "shape");
    const std::string words = text_of(distribution, "distribution");
    const std::int64_t processes = processes_of(nprocs, comm);
    BlockCyclicOptions options;
    const Point given_grid = point_or_none(grid, "grid");
    if (given_grid.dims() > 0) options.grid = given_grid.to_vector();
    options.first_process = point_or_none(first_process, "first_process").to_vector();
    options.column_major_grid = column_major(text_of(grid_order, "grid_order"), "grid_order");
    if (!ranks.is_none()) options.ranks = Integers(ranks, "ranks").to_vector();
    options.replicas = integer_of(replicas, "replicas");
    new (self) BlockCyclic(extents, words, processes, options);
}

std::vector<NumpyArray<std::int64_t>> global_indices(const BlockCyclic& layout, std::int64_t rank) {
    std::vector<NumpyArray<std::int64_t>> lists;
    for (auto& indices : layout.global_indices(rank)) lists.push_back(array_of(std::move(indices)));
    return lists;
}

nb::str block_cyclic_repr(const BlockCyclic& l) {
    return formatted("BlockCyclic({}, {!r}, nprocs={}, grid={}{})", l.shape(), l.distribution(),
                     l.nprocs(), l.grid(),
                     l.replicas() > 1 ? concat(", replicas=", l.replicas()) : "");
}

/// Without entries, the ranks are the identity.
nb::tuple block_cyclic_arguments(const BlockCyclic& l) {
    return nb::make_tuple(l.shape(), l.distribution(), l.nprocs(), l.grid(), l.first_process(),
                          l.column_major_grid() ? "F" : "C",
                          array_of(std::span<const std::int64_t>(l.ranks())), l.replicas());
}

BlockCyclic from_scalapack(Given<ArrayLike> descriptor, Given<std::vector<std::int64_t>> given_grid,
                           Given<std::int64_t> nprocs, Given<std::string> grid_order,
                           Given<ArrayLike> ranks, nb::any comm) {
    const Point grid = point_of(given_grid, "grid");
    const Integers given(descriptor, "entries of a descriptor");
    if (given.values().size() != 9)
        throw make_error(ErrorCode::invalid_argument, "a ScaLAPACK descriptor has 9 entries, not ",
                         given.values().size());
    if (grid.dims() != 2)
        throw make_error(ErrorCode::invalid_argument, "a BLACS grid has 2 dimensions, not ",
                         grid.dims());
    std::array<int, 9> entries{};
    std::transform(given.values().begin(), given.values().end(), entries.begin(),
                   [](std::int64_t entry) {
                       if (entry != static_cast<int>(entry))
                           throw make_error(ErrorCode::out_of_range, "entry ", entry,
                                            " of a descriptor does not fit an int");
                       return static_cast<int>(entry);
                   });
    const std::string order = text_of(grid_order, "grid_order");
    ProcessGrid processes{grid[0], grid[1], column_major(order, "grid_order"), {}};
    if (!ranks.is_none()) processes.ranks = Integers(ranks, "ranks").to_vector();
    return ScalapackDescriptor::from_entries(entries).layout(processes, processes_of(nprocs, comm));
}

/** Python BlockCyclic.from_scalapack
Make the layout of a ScaLAPACK array descriptor.

Local matrices are column-major: NumPy arrays with ``order="F"``, or the first rows of one with LLD
rows.

Parameters
----------
descriptor : array of 9 int
    DTYPE_ (1, dense), CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_, as ``descinit`` makes them.
    CTXT_ and LLD_ are not used.
grid : (int, int)
    Rows and columns of the BLACS process grid.
nprocs : int
    Number of processes of the communicator. Pass either this or `comm`.
grid_order : {"C", "F"}
    "C" for a grid that ``blacs_gridinit`` made with 'R', "F" for one made with 'C'.
ranks : array of int, optional
    The rank at each grid position, if it differs from the number of the position.
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

Raises
------
InvalidArgument
    An entry is not valid, or the grid does not contain RSRC_ and CSRC_.
Unsupported
    DTYPE_ is not 1.

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
*/
/** Python BlockCyclic.scalapack_descriptor
The ScaLAPACK descriptor of a rank's part, for a two-dimensional layout.

Parameters
----------
rank : int
    The process.
context : int
    The BLACS context, which becomes ``CTXT_``.
lld : int
    Elements from one local column to the next; if it is too small, the minimum is used.

Returns
-------
ndarray of int32
    Nine entries, as in Fortran.

Raises
------
InvalidArgument
    The layout does not have two dimensions.
OutOfRange
    An entry does not fit 32 bits.
*/
void bind_scalapack(Class<BlockCyclic>& c) {
    c.def_static("from_scalapack", &from_scalapack, "descriptor"_a, "grid"_a,
                 "nprocs"_a = nb::none(), "grid_order"_a = "C", "ranks"_a = nb::none(),
                 nb::kw_only(), "comm"_a = nb::none())
        .def(
            "scalapack_descriptor",
            [](const BlockCyclic& layout, std::int64_t rank, int context, std::int64_t lld) {
                const auto entries = ScalapackDescriptor::of(layout, rank, lld).to_entries(context);
                return array_of(std::vector<int>(entries.begin(), entries.end()));
            },
            "rank"_a, "context"_a = 0, "lld"_a = 0);
}

}  // namespace

/** Python BlockCyclic
An array distributed in blocks to a grid of processes, as in HPF and ScaLAPACK.

The local storage of a process is one dense array of shape `local_shape(rank)`. Immutable; its size
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
    Processes along each dimension, 1 if the distribution is ``*``; by default, the library chooses.
first_process : sequence of int, optional
    The grid coordinates of the process that holds index 0 (ScaLAPACK's RSRC and CSRC).
grid_order : {"C", "F"}
    How ranks are numbered in the grid: last dimension fastest, or first.
ranks : array of int, optional
    The rank of each block: each grid position in grid order, replica by replica; by default
    0, 1, 2, ...
replicas : int
    Copies of the whole array, each on a grid of its own: HPF's ``ALIGN WITH T(..., *)``. In a
    destination all copies are filled. In a source the nearest copy is sent: the receiver's own,
    then that of the lowest rank on its node, then that of the lowest rank.
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

Raises
------
InvalidArgument
    An extent is negative, a block or grid not positive, there are more blocks than processes, the
    number of `ranks` is not the number of blocks, a grid extent is not 1 although the distribution
    is ``*``, a word of the distribution is unknown, or a rank is repeated.
OutOfRange
    `ranks` holds a rank outside 0 to nprocs - 1.

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
*/
/** Python BlockCyclic.global_indices
The global indices that a rank holds, one int64 array for each dimension.

Their product contains the rank's elements: ``whole[np.ix_(*layout.global_indices(rank))]`` is its
local array. Takes time and memory in the sum of the local extents. Raises OutOfRange.
*/
void bind_block_cyclic(nb::module_& m) {
    Class<BlockCyclic> c(m, "BlockCyclic");
    c.def("__init__", &make_block_cyclic, "shape"_a, "distribution"_a, "nprocs"_a = nb::none(),
          "grid"_a = nb::none(), "first_process"_a = nb::none(), "grid_order"_a = "C",
          "ranks"_a = nb::none(), "replicas"_a = 1, nb::kw_only(), "comm"_a = nb::none());
    add_common(c);
    bind_scalapack(c);
    /// The rank of each block: each grid position in grid order, replica by replica
    /// (int64).
    add_owners(c, "ranks");
    add_pickling(c, &block_cyclic_arguments);
    /// Processes along each dimension.
    c.def_prop_ro("grid", &BlockCyclic::grid)
        /// Block size along each dimension.
        .def_prop_ro("block", &BlockCyclic::block)
        /// Grid coordinates of the process that holds index 0.
        .def_prop_ro("first_process", &BlockCyclic::first_process)
        /// "C" or "F": how positions of the grid are numbered.
        .def_prop_ro("grid_order",
                     [](const BlockCyclic& l) { return l.column_major_grid() ? "F" : "C"; })
        /// In HPF's notation, as given.
        .def_prop_ro("distribution", &BlockCyclic::distribution)
        /// Copies of the whole array.
        .def_prop_ro("replicas", &BlockCyclic::replicas)
        /// The grid position (block number) of a rank, or -1 for a rank outside the grid.
        .def("block_of", &BlockCyclic::block_of, "rank"_a)
        /// The rank that holds an index. Raises OutOfRange.
        .def("owner_of", &BlockCyclic::owner_of, "index"_a)
        /// The shape of a rank's local array; zeros for a rank outside the grid.
        .def("local_shape", &BlockCyclic::local_shape, "rank"_a)
        /// Return the position of a global index in its owner's block. Raises OutOfRange.
        .def("local_index", &BlockCyclic::local_index, "index"_a)
        /// The global index of a local one. Raises OutOfRange.
        .def("global_index", &BlockCyclic::global_index, "rank"_a, "local_index"_a)
        .def("global_indices", &global_indices, "rank"_a)
        .def("__repr__", &block_cyclic_repr);
}

}  // namespace datamover::bindings
