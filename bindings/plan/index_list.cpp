// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of IndexList.
#include <cstdint>
#include <vector>

#include "docstrings.hpp"
#include "layout_members.hpp"

namespace datamover::bindings {

namespace {

IndexList make_index_list(const Point& shape, nb::handle lists) {
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
    return IndexList(shape, offsets, indices);
}

nb::tuple index_list_state(const IndexList& l) {
    nb::list lists;
    for (std::int64_t r = 0; r < l.nprocs(); ++r) lists.append(array_of(l.indices_of(r)));
    return nb::make_tuple(l.shape(), lists);
}

IndexList index_list_from(const nb::tuple& s) {
    return make_index_list(nb::cast<Point>(s[0]), s[1]);
}

}  // namespace

/** Python IndexList
A list of flat indices for each rank: any ownership at all.

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
    An index lies outside the shape.
WrongType
    Indices are no integers.

Examples
--------
>>> import datamover as dm
>>> odd_even = dm.IndexList(10, [range(1, 10, 2), range(0, 10, 2)])
>>> odd_even.nprocs, odd_even.indices_of(0).tolist(), odd_even.holders(4)
(2, [1, 3, 5, 7, 9], [(1, 2)])
*/
void bind_index_list(nb::module_& m) {
    nb::class_<IndexList> c(m, "IndexList", doc("IndexList"));
    c.def(
        "__init__",
        [](IndexList* self, nb::handle shape, nb::handle lists) {
            new (self) IndexList(make_index_list(point_of(shape, "shape"), lists));
        },
        "shape"_a.none(), "lists"_a.none(),
        nb::sig("def __init__(self, shape: int | collections.abc.Sequence[int], "
                "lists: collections.abc.Iterable[numpy.typing.ArrayLike]) -> None"));
    add_common(c);
    add_pickling(c, &index_list_state, &index_list_from);
    c.def(
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
        .def("__repr__", [](const IndexList& l) {
            return concat("<IndexList over ", l.shape(), " on ", l.nprocs(), " processes>");
        });
}

}  // namespace datamover::bindings
