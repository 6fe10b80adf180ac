// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of the layouts of flat indices: IndexList and FlatCyclic.
#include "layout_members.hpp"

namespace datamover::bindings {

namespace {

struct Lists {
    static constexpr auto words =
        nb::detail::const_name("collections.abc.Iterable[numpy.typing.ArrayLike]");
};

void make_index_list(IndexList* self, Given<Point> shape, Given<Lists> lists) {
    const Point extents = point_of(shape, "shape");
    const nb::object each = nb::steal(PyObject_GetIter(lists.ptr()));
    if (!each.is_valid()) {
        PyErr_Clear();
        refuse_type(lists, "lists", "a sequence of arrays of integers, one for each rank");
    }
    std::vector<std::int64_t> offsets{0}, indices;
    for (nb::handle list : each) {
        const Integers of_rank(list, "indices of a list");
        indices.insert(indices.end(), of_rank.values().begin(), of_rank.values().end());
        offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    new (self) IndexList(extents, offsets, indices);
}

nb::tuple index_list_arguments(const IndexList& l) {
    nb::list lists;
    for (std::int64_t r = 0; r < l.nprocs(); ++r) lists.append(array_of(l.indices_of(r)));
    return nb::make_tuple(l.shape(), lists);
}

struct DtypeLike {
    static constexpr auto words = nb::detail::const_name("numpy.typing.DTypeLike");
};

/// Owners that are given are some: none at all would stand for all.
std::vector<std::int64_t> given_owners(Given<ArrayLike> owners) {
    if (owners.is_none()) return {};
    auto ranks = Integers(owners, "owners").to_vector();
    if (ranks.empty())
        throw Error(ErrorCode::invalid_argument, "owners is empty; somebody has to hold the array");
    return ranks;
}

FlatCyclic of_bytes(Given<Point> shape, Given<std::int64_t> block_bytes, Given<DtypeLike> dtype,
                    Given<std::int64_t> nprocs, Given<ArrayLike> owners, nb::any comm) {
    const nb::object type = nb::module_::import_("numpy").attr("dtype")(dtype);
    return FlatCyclic::of_bytes(point_of(shape, "shape"), integer_of(block_bytes, "block_bytes"),
                                nb::cast<std::int64_t>(type.attr("itemsize")),
                                processes_of(nprocs, comm), given_owners(owners));
}

NumpyArray<std::int64_t> indices_of(const FlatCyclic& l, std::int64_t rank) {
    const std::int64_t block = l.block_of(rank);
    return array_of(block < 0 ? std::vector<std::int64_t>{} : l.flat_set(block).indices());
}

nb::str flat_cyclic_repr(const FlatCyclic& l) {
    constexpr std::size_t most_shown = 8;
    const auto& owners = l.owners();
    std::string shown;
    for (std::size_t i = 0; i < std::min(most_shown, owners.size()); ++i)
        shown += concat(i > 0 ? ", " : ", owners=[", owners[i]);
    if (owners.size() > most_shown) shown += concat(", ... (", owners.size(), " in all)");
    return formatted("FlatCyclic({}, block_elems={}, nprocs={}{}{})", l.shape(), l.block_elems(),
                     l.nprocs(), shown, shown.empty() ? "" : "]");
}

nb::tuple flat_cyclic_arguments(const FlatCyclic& l) {
    return nb::make_tuple(l.shape(), l.block_elems(), l.nprocs(),
                          array_of(std::span<const std::int64_t>(l.owners())));
}

/** Python FlatCyclic.of_bytes
Make the layout whose ranges have `block_bytes` bytes, for elements of a dtype.

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
    `block_bytes` is not a multiple of the size of the dtype; also as for the class.

Examples
--------
>>> import datamover as dm
>>> dm.FlatCyclic.of_bytes((1024, 1024), 8192, "f8", nprocs=4).block_elems
1024
*/
void bind_making_flat_cyclic(Class<FlatCyclic>& c) {
    c.def(
        "__init__",
        [](FlatCyclic* self, Given<Point> shape, Given<std::int64_t> block_elems,
           Given<std::int64_t> nprocs, Given<ArrayLike> owners, nb::any comm) {
            new (self) FlatCyclic(point_of(shape, "shape"), integer_of(block_elems, "block_elems"),
                                  processes_of(nprocs, comm), given_owners(owners));
        },
        "shape"_a, "block_elems"_a, "nprocs"_a = nb::none(), "owners"_a = nb::none(), nb::kw_only(),
        "comm"_a = nb::none());
    c.def_static("of_bytes", &of_bytes, "shape"_a, "block_bytes"_a, "dtype"_a,
                 "nprocs"_a = nb::none(), "owners"_a = nb::none(), nb::kw_only(),
                 "comm"_a = nb::none());
}

}  // namespace

/** Python IndexList
A list of flat indices for each rank: any assignment of elements to processes.

The local array of a rank has one dimension, in the order of its list. An index may be missing from
all lists, or occur several times in one list or in several. These are copies of the element: in a
source, the first copy of the lowest rank is sent; in a destination, all copies receive it.
Immutable and cheap to copy.

Parameters
----------
shape : int or sequence of int
    Shape of the array that the indices point into.
lists : sequence of arrays of int
    One for each rank: indices as in ``array.ravel()[i]`` (last dimension fastest).

Raises
------
OutOfRange
    An index is outside the shape.
WrongType
    Indices are not integers.

Examples
--------
>>> import datamover as dm
>>> odd_even = dm.IndexList(10, [range(1, 10, 2), range(0, 10, 2)])
>>> odd_even.nprocs, odd_even.indices_of(0).tolist(), odd_even.holders(4)
(2, [1, 3, 5, 7, 9], [(1, 2)])
*/
void bind_index_list(nb::module_& m) {
    Class<IndexList> c(m, "IndexList");
    c.def("__init__", &make_index_list, "shape"_a, "lists"_a);
    add_common(c);
    add_pickling(c, &index_list_arguments);
    /// The flat indices of a rank (int64), a copy. Raises OutOfRange.
    c.def(
         "indices_of",
         [](const IndexList& l, std::int64_t rank) { return array_of(l.indices_of(rank)); },
         "rank"_a)
        /// Who holds a flat index, as (rank, position in its list), ascending.
        .def(
            "holders",
            [](const IndexList& l, std::int64_t index) {
                std::vector<std::pair<std::int64_t, std::int64_t>> all;
                for (const auto& h : l.holders(index)) all.emplace_back(h.rank, h.position);
                return all;
            },
            "index"_a)
        .def("__repr__", [](const IndexList& l) {
            return concat("<IndexList over ", l.shape(), " on ", l.nprocs(), " processes>");
        });
}

/** Python FlatCyclic
Contiguous ranges of the flattened array, distributed to processes in turn.

The array is flattened as ``array.ravel()`` does (last dimension fastest) and cut into ranges of
`block_elems` elements; the last may be shorter. ``owners[0]`` holds the first range, ``owners[1]``
the next, and so on, beginning again after the last. The local array of a process has one dimension:
its ranges, one after the other, as in files of raw bytes and flat shards. Immutable; its size does
not depend on the array.

Parameters
----------
shape : int or sequence of int
    Extents of the array, 1 to 8 dimensions.
block_elems : int
    Elements of each range.
nprocs : int
    Number of processes; the ranks are 0 to nprocs - 1. Pass either this or `comm`.
owners : array of int, optional
    The ranks that hold ranges, in order; by default all.
comm : mpi4py communicator, optional
    The communicator whose processes are meant, instead of `nprocs`. Only its size is used. Local.

Raises
------
InvalidArgument
    An extent is negative, `block_elems` is not positive, or a rank occurs twice in `owners`.
OutOfRange
    `owners` holds a rank outside 0 to nprocs - 1, or the array has more than 2^63 elements.

Notes
-----
Plans from and to block-cyclic layouts and floor plans are compact if rows and ranges repeat
together after few rows. Otherwise the common elements of two processes are computed row by row
whenever they are needed: binding a mover takes time, and at most about 24 bytes, for each part of a
row. With more than 2^28 rows and ranges of one process, a plan raises Unsupported. Source: the I/O
mapping of the paper on network I/O, section 6.3.

Examples
--------
>>> import datamover as dm
>>> shards = dm.FlatCyclic((4, 6), block_elems=8, nprocs=4, owners=[2, 0])
>>> shards.indices_of(2).tolist(), shards.local_elems(0), shards.place_of(9)
([0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23], 8, (0, 1))
>>> plan = dm.redistribute(dm.BlockCyclic((4, 6), "(block, block)", nprocs=4), shards)
>>> sorted(plan.incoming(0))
[0, 1, 2, 3]
*/
void bind_flat_cyclic(nb::module_& m) {
    Class<FlatCyclic> c(m, "FlatCyclic");
    bind_making_flat_cyclic(c);
    add_common(c);
    /// The rank that holds each block: the ranges that have the same owner (int64).
    add_owners(c, "owners");
    add_pickling(c, &flat_cyclic_arguments);
    /// Elements of each range, at most those of the array.
    c.def_prop_ro("block_elems", &FlatCyclic::block_elems)
        /// The block of a rank, its place in `owners`, or -1. Raises OutOfRange.
        .def("block_of", &FlatCyclic::block_of, "rank"_a)
        /// The flat indices that a rank holds (int64), in the order of its local array. O(their
        /// number). Raises OutOfRange.
        .def("indices_of", &indices_of, "rank"_a)
        /// The rank that holds a flat index, and the position in its array. Raises OutOfRange.
        .def(
            "place_of",
            [](const FlatCyclic& l, std::int64_t index) {
                const FlatCyclic::Place place = l.place_of(index);
                return std::pair(l.owner(place.block), place.position);
            },
            "index"_a)
        .def("__repr__", &flat_cyclic_repr);
}

}  // namespace datamover::bindings
