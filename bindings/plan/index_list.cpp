// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of IndexList.
#include <cstdint>
#include <vector>

#include "docstrings.hpp"
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
    nb::class_<IndexList> c(m, "IndexList", doc("IndexList"));
    c.def("__init__", &make_index_list, "shape"_a, "lists"_a);
    add_common(c);
    add_pickling(c, &index_list_arguments);
    c.def(
         "indices_of",
         [](const IndexList& l, std::int64_t rank) { return array_of(l.indices_of(rank)); },
         "rank"_a, "The flat indices of a rank (int64), a copy. Raises OutOfRange.")
        .def(
            "holders",
            [](const IndexList& l, std::int64_t index) {
                std::vector<std::pair<std::int64_t, std::int64_t>> all;
                for (const auto& h : l.holders(index)) all.emplace_back(h.rank, h.position);
                return all;
            },
            "index"_a, "Who holds a flat index, as (rank, position in its list), ascending.")
        .def("__repr__", [](const IndexList& l) {
            return concat("<IndexList over ", l.shape(), " on ", l.nprocs(), " processes>");
        });
}

}  // namespace datamover::bindings
