// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of AddressRelation: copies between arrays, and between arrays and messages.
#include <cstdlib>

#include "module.hpp"

namespace datamover::bindings {

void require_elems(const ArrayMemory& memory, std::int64_t elem_bytes) {
    if (memory.elem_bytes() == elem_bytes || memory.elem_bytes() == 1) return;
    throw make_error(ErrorCode::wrong_type, memory.name(), " has elements of ", memory.elem_bytes(),
                     " bytes, the relation moves elements of ", elem_bytes);
}

namespace {

/// A copy bound to arrays, which it keeps alive.
struct BoundArrays {
    BoundCopy copy;
    nb::object source, destination;
    std::int64_t elems;

    void run() const {
        Unlocked release;
        copy();
    }
};

bool holds_bare_bytes(const ArrayMemory& memory, std::int64_t elem_bytes) {
    return memory.elem_bytes() == 1 && elem_bytes != 1;
}

BoundArrays bind_copy(const AddressRelation& relation, nb::handle source, nb::handle destination,
                      Op op) {
    const ArrayMemory from(source, "source"), to(destination, "destination");
    const bool bare = holds_bare_bytes(from, relation.source_elem_bytes()) ||
                      holds_bare_bytes(to, relation.destination_elem_bytes());
    const ElementUpdate update = update_between(from, to, op, bare);
    to.require_writable();
    require_elems(from, relation.source_elem_bytes());
    require_elems(to, relation.destination_elem_bytes());
    return {relation.bind(from.data(), from.bounds(), to.data(), to.bounds(), update),
            nb::borrow(from.object()), nb::borrow(to.object()), relation.size()};
}

BoundArrays bind_gather(const AddressRelation& relation, nb::handle source, nb::handle buffer) {
    const ArrayMemory from(source, "source"), to(buffer, "buffer");
    to.require_writable();
    require_elems(from, relation.source_elem_bytes());
    require_elems(to, relation.source_elem_bytes());
    return {relation.bind_gather(from.data(), from.bounds(), to.data(), to.bounds()),
            nb::borrow(from.object()), nb::borrow(to.object()), relation.size()};
}

/// Whether a message is bytes, which stand for elements of the destination's dtype. Elements of one
/// byte come as uint8 from answer_get, of whatever type they are: booleans and integers are the
/// same as numbers and as bytes, floats and others are not.
bool holds_message_bytes(const ArrayMemory& message, const ArrayMemory& destination,
                         const AddressRelation& relation) {
    if (relation.source_elem_bytes() != 1 || relation.destination_elem_bytes() != 1)
        return holds_bare_bytes(message, relation.source_elem_bytes());
    if (message.scalar_type() != ScalarType::uint8) return false;
    switch (destination.scalar_type()) {
        case ScalarType::opaque:
        case ScalarType::float8_e4m3fn:
        case ScalarType::float8_e5m2:
            return true;
        default:
            return false;
    }
}

/// Throws wrong_type where bytes would have to be converted, of which nobody says what they are.
void require_same_elems(const AddressRelation& relation) {
    if (relation.source_elem_bytes() == relation.destination_elem_bytes()) return;
    throw make_error(
        ErrorCode::wrong_type, "bare bytes are not converted, and the relation takes elements of ",
        relation.source_elem_bytes(), " bytes to elements of ", relation.destination_elem_bytes(),
        ": give arrays of their dtypes, as answer.view(dtype)");
}

BoundArrays bind_scatter(const AddressRelation& relation, nb::handle buffer, nb::handle destination,
                         Op op) {
    const ArrayMemory from(buffer, "buffer"), to(destination, "destination");
    const bool message_bytes = holds_message_bytes(from, to, relation);
    const bool bare = message_bytes || holds_bare_bytes(to, relation.destination_elem_bytes());
    const ElementUpdate update = update_between(message_bytes ? to : from, to, op, bare);
    to.require_writable();
    require_elems(to, relation.destination_elem_bytes());
    if (bare) require_same_elems(relation);
    if (update.is_plain_copy()) require_elems(from, relation.destination_elem_bytes());
    return {relation.bind_scatter(from.data(), from.bounds(), to.data(), to.bounds(), update),
            nb::borrow(from.object()), nb::borrow(to.object()), relation.size()};
}

BoundArrays bind(const AddressRelation& relation, nb::any source, nb::any destination,
                 nb::any buffer, Op op) {
    if (!source.is_none() && !destination.is_none() && buffer.is_none())
        return bind_copy(relation, source, destination, op);
    if (source.is_none() && !destination.is_none() && !buffer.is_none())
        return bind_scatter(relation, buffer, destination, op);
    if (!source.is_none() && destination.is_none() && !buffer.is_none()) {
        if (op == Op::replace) return bind_gather(relation, source, buffer);
        throw Error(ErrorCode::invalid_argument,
                    "op combines elements at a destination; a buffer is only filled");
    }
    throw Error(ErrorCode::invalid_argument,
                "bind takes two of source, destination and buffer: source and destination to copy, "
                "source and buffer to gather, buffer and destination to scatter");
}

void copy(const AddressRelation& relation, nb::any source, nb::any destination, Op op) {
    bind_copy(relation, source, destination, op).run();
}

nb::any gather(const AddressRelation& relation, nb::any source, nb::any buffer) {
    if (buffer.is_none()) {
        const ArrayMemory from(source, "source");
        require_elems(from, relation.source_elem_bytes());
        std::int64_t bytes = 0;
        if (__builtin_mul_overflow(relation.size(), relation.source_elem_bytes(), &bytes))
            throw make_error(ErrorCode::out_of_range, "a message of ", relation.size(),
                             " elements of ", relation.source_elem_bytes(),
                             " bytes has more than 2^63 bytes");
        const nb::object dtype = from.object().attr("dtype");
        buffer = nb::borrow<nb::any>(
            nb::module_::import_("numpy").attr("empty")(bytes / from.elem_bytes(), dtype));
    }
    bind_gather(relation, source, buffer).run();
    return buffer;
}

void scatter(const AddressRelation& relation, nb::any buffer, nb::any destination, Op op) {
    bind_scatter(relation, buffer, destination, op).run();
}

/// The whole of one array to the whole of another, whatever their strides. Whether the two overlap
/// has been asked before.
void copy_strided(nb::any source, nb::any destination, Op op, bool around_caches) {
    const ArrayMemory from(source, "source"), to(destination, "destination");
    to.require_writable();
    if (from.shape() != to.shape())
        throw make_error(ErrorCode::mismatch, "source has shape ",
                         nb::repr(nb::cast(from.shape())).c_str(), ", destination ",
                         nb::repr(nb::cast(to.shape())).c_str());
    if (from.bounds().end_bytes == from.bounds().begin_bytes) return;
    Product product;
    for (std::size_t d = 0; d < from.shape().size(); ++d) {
        const std::int64_t n = from.shape()[d];
        if (n > 1 && std::abs(to.strides_bytes()[d]) < to.elem_bytes())
            throw make_error(ErrorCode::invalid_argument, "destination has stride ",
                             to.strides_bytes()[d], " in dimension ", d,
                             ": elements of the source would meet in one place");
        product.axes.push_back({std::make_shared<const AxisTable>(AxisTable::interval(0, 0, n)),
                                from.strides_bytes()[d], to.strides_bytes()[d]});
    }
    const auto update = update_between(from, to, op);
    const auto relation =
        AddressRelation::from_products({std::move(product)}, from.elem_bytes(), to.elem_bytes());
    relation.require_unambiguous(update);
    const CopyKernel kernel =
        relation.kernel(update, around_caches ? Stores::around_caches : Stores::chosen);
    Unlocked release;
    kernel(from.data(), to.data());
}

/** Python BoundCopy
A relation with the arrays that it moves between: call it to move.

Made by `AddressRelation.bind`. Everything has been checked and looked up; a call only copies. It
keeps the arrays alive; they must stay where they are (no `resize`).
*/
void bind_bound_copy(nb::module_& m) {
    Class<BoundArrays>(m, "BoundCopy")
        /// Move every element. The GIL is released meanwhile.
        .def("__call__", &BoundArrays::run)
        .def("__len__", [](const BoundArrays& b) { return b.elems; })
        /// The array that is read.
        .def_prop_ro("source", [](const BoundArrays& b) { return b.source; })
        /// The array that is written.
        .def_prop_ro("destination", [](const BoundArrays& b) { return b.destination; })
        .def("__repr__", [](const BoundArrays& b) {
            return concat("<BoundCopy of ", b.elems, " elements, ", b.copy.describe(), ">");
        });
}

}  // namespace

/** Python AddressRelation.bind
Check arrays once, to move between them many times.

Takes two of the three: source and destination to copy, source and buffer to gather, buffer and
destination to scatter.

Parameters
----------
source, destination : array or buffer, optional
    As for `copy`.
buffer : array or buffer, optional
    A message of at least ``len(self)`` elements.
op : {"add", "multiply", "min", "max"}, ufunc or MPI.Op, optional
    How an element is combined with the one at the destination; replaced without it.

Returns
-------
BoundCopy
    Call it to move the elements.

Raises
------
As `copy` does; InvalidArgument when not two of the three are given.

Examples
--------
>>> import numpy as np, datamover as dm
>>> relation = dm.advanced.AddressRelation.from_pairs([0, 2, 4], [2, 1, 0])
>>> a, b = np.arange(5.0), np.zeros(3)
>>> move = relation.bind(a, b)
>>> for step in range(3):
...     a += 1
...     move()
>>> b
array([7., 5., 3.])
*/
/** Python AddressRelation.copy
Move every element from one memory to the other.

Parameters
----------
source, destination : array or buffer
    NumPy arrays, or anything with a buffer. Addresses count in bytes from the first element. The
    elements must be as wide as the relation's, or bare bytes. Where the dtypes differ they are
    converted by NumPy's rules. The two must not overlap, except where the relation reads and writes
    different addresses.
op : {"add", "multiply", "min", "max"}, ufunc or MPI.Op, optional
    How an element is combined with the existing one; by default it replaces it.

Raises
------
OutOfRange
    An address lies outside the memory given.
InvalidArgument
    The destination is read-only, or `op` is another word.
WrongType
    Element sizes do not fit, or dtypes cannot be converted.

Notes
-----
Nothing has been written when an error is raised. The GIL is released meanwhile.
*/
/** Python AddressRelation.gather
Assemble a message: copy the sources, in order, to the front of a buffer.

Parameters
----------
source : array or buffer
    What the source addresses count in.
buffer : array or buffer, optional
    Of at least ``len(self)`` elements; a new array without it.

Returns
-------
array or buffer
    The buffer.

Raises
------
As `copy` does.
*/
/** Python AddressRelation.scatter
Disassemble a message: the elements of a buffer, in order, go to the destinations.

What `gather` has assembled arrives as by `copy`, converted in the same way.

Parameters
----------
buffer : array or buffer
    A message of at least ``len(self)`` elements. Bare bytes, as `answer_get` gives them, are
    elements of the destination's dtype; so is uint8 where that is a type of one byte other than
    booleans and integers.
destination : array or buffer
    What the destination addresses count in.
op : {"add", "multiply", "min", "max"}, ufunc or MPI.Op, optional
    As for `copy`.

Raises
------
As `copy` does; WrongType too for bare bytes where elements of source and destination differ in
size.
*/
void bind_relation_copies(nb::module_& m, Class<AddressRelation>& c) {
    bind_bound_copy(m);
    c.def("bind", &bind, "source"_a = nb::none(), "destination"_a = nb::none(), nb::kw_only(),
          "buffer"_a = nb::none(), "op"_a = nb::none())
        .def("copy", &copy, "source"_a, "destination"_a, "op"_a = nb::none())
        .def("gather", &gather, "source"_a, "buffer"_a = nb::none())
        .def("scatter", &scatter, "buffer"_a, "destination"_a, "op"_a = nb::none());
    m.def("copy_strided", &copy_strided, "source"_a, "destination"_a, "op"_a = nb::none(),
          "around_caches"_a = false);
}

}  // namespace datamover::bindings
