// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of AddressRelation: making, applying and handing on relations.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "array_memory.hpp"
#include "casters.hpp"
#include "datamover/advanced/decoding_costs.hpp"
#include "datamover/advanced/relation_messages.hpp"
#include "errors.hpp"
#include "geometry/make_error.hpp"
#include "numpy_arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::array_of;
using bindings::ArrayMemory;
using bindings::Integers;
using bindings::Unlocked;

namespace {

/// Throws wrong_type unless the array's elements are as wide as the relation's; bare bytes fit all.
void require_elems(const ArrayMemory& memory, std::int64_t elem_bytes) {
    if (memory.elem_bytes() == elem_bytes || memory.elem_bytes() == 1) return;
    throw Error(ErrorCode::wrong_type,
                memory.name() + " has elements of " + std::to_string(memory.elem_bytes()) +
                    " bytes, the relation moves elements of " + std::to_string(elem_bytes));
}

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
    const ElementUpdate update = bindings::update_between(from, to, op, bare);
    to.require_writable();
    require_elems(from, relation.source_elem_bytes());
    require_elems(to, relation.destination_elem_bytes());
    return {relation.bind(from.data(), bindings::bounds_of(from), to.data(),
                          bindings::bounds_of(to), update),
            nb::borrow(from.object()), nb::borrow(to.object()), relation.size()};
}

BoundArrays bind_gather(const AddressRelation& relation, nb::handle source, nb::handle buffer) {
    const ArrayMemory from(source, "source"), to(buffer, "buffer");
    to.require_writable();
    require_elems(from, relation.source_elem_bytes());
    require_elems(to, relation.source_elem_bytes());
    return {relation.bind_gather(from.data(), bindings::bounds_of(from), to.data(),
                                 bindings::bounds_of(to)),
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
    throw Error(ErrorCode::wrong_type,
                "bare bytes are not converted, and the relation takes elements of " +
                    std::to_string(relation.source_elem_bytes()) + " bytes to elements of " +
                    std::to_string(relation.destination_elem_bytes()) +
                    ": give arrays of their dtypes, as answer.view(dtype)");
}

BoundArrays bind_scatter(const AddressRelation& relation, nb::handle buffer, nb::handle destination,
                         Op op) {
    const ArrayMemory from(buffer, "buffer"), to(destination, "destination");
    const bool message_bytes = holds_message_bytes(from, to, relation);
    const bool bare = message_bytes || holds_bare_bytes(to, relation.destination_elem_bytes());
    const ElementUpdate update = bindings::update_between(message_bytes ? to : from, to, op, bare);
    to.require_writable();
    require_elems(to, relation.destination_elem_bytes());
    if (bare) require_same_elems(relation);
    if (update.is_plain_copy()) require_elems(from, relation.destination_elem_bytes());
    return {relation.bind_scatter(from.data(), bindings::bounds_of(from), to.data(),
                                  bindings::bounds_of(to), update),
            nb::borrow(from.object()), nb::borrow(to.object()), relation.size()};
}

BoundArrays bind(const AddressRelation& relation, nb::handle source, nb::handle destination,
                 nb::handle buffer, Op op) {
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

void copy(const AddressRelation& relation, nb::handle source, nb::handle destination, Op op) {
    bind_copy(relation, source, destination, op).run();
}

nb::object gather(const AddressRelation& relation, nb::handle source, nb::object buffer) {
    if (buffer.is_none()) {
        const ArrayMemory from(source, "source");
        require_elems(from, relation.source_elem_bytes());
        std::int64_t bytes = 0;
        if (__builtin_mul_overflow(relation.size(), relation.source_elem_bytes(), &bytes))
            throw Error(ErrorCode::out_of_range, "a message of " + std::to_string(relation.size()) +
                                                     " elements of " +
                                                     std::to_string(relation.source_elem_bytes()) +
                                                     " bytes has more than 2^63 bytes");
        const nb::object dtype = from.object().attr("dtype");
        buffer = nb::module_::import_("numpy").attr("empty")(bytes / from.elem_bytes(), dtype);
    }
    bind_gather(relation, source, buffer).run();
    return buffer;
}

void scatter(const AddressRelation& relation, nb::handle buffer, nb::handle destination, Op op) {
    bind_scatter(relation, buffer, destination, op).run();
}

/// The whole of one array to the whole of another, whatever their strides. Whether the two overlap
/// has been asked before.
void copy_strided(nb::handle source, nb::handle destination, Op op, bool around_caches) {
    const ArrayMemory from(source, "source"), to(destination, "destination");
    to.require_writable();
    if (from.shape() != to.shape())
        throw Error(ErrorCode::mismatch,
                    std::string("source has shape ") + nb::repr(nb::cast(from.shape())).c_str() +
                        ", destination " + nb::repr(nb::cast(to.shape())).c_str());
    if (from.end_bytes() == from.begin_bytes()) return;
    Product product;
    for (std::size_t d = 0; d < from.shape().size(); ++d) {
        const std::int64_t n = from.shape()[d];
        if (n > 1 && std::abs(to.strides_bytes()[d]) < to.elem_bytes())
            throw Error(ErrorCode::invalid_argument,
                        "destination has stride " + std::to_string(to.strides_bytes()[d]) +
                            " in dimension " + std::to_string(d) +
                            ": elements of the source would meet in one place");
        product.axes.push_back({std::make_shared<const AxisTable>(AxisTable::interval(0, 0, n)),
                                from.strides_bytes()[d], to.strides_bytes()[d]});
    }
    const auto update = bindings::update_between(from, to, op);
    const auto relation =
        AddressRelation::from_products({std::move(product)}, from.elem_bytes(), to.elem_bytes());
    relation.require_unambiguous(update);
    const CopyKernel kernel =
        relation.kernel(update, around_caches ? Stores::around_caches : Stores::chosen);
    Unlocked release;
    kernel(from.data(), to.data());
}

void bind_bound_copy(nb::module_& m) {
    nb::class_<BoundArrays>(m, "BoundCopy",
                            R"doc(A relation with the arrays that it moves between: call it to move.

Made by `AddressRelation.bind`. Everything has been checked and looked up; a call only copies. It
keeps the arrays alive; they must stay where they are (no `resize`).
)doc")
        .def("__call__", &BoundArrays::run, "Move every element. The GIL is released meanwhile.")
        .def("__len__", [](const BoundArrays& b) { return b.elems; })
        .def_ro("source", &BoundArrays::source, "The array that is read.")
        .def_ro("destination", &BoundArrays::destination, "The array that is written.")
        .def("__repr__", [](const BoundArrays& b) {
            return "<BoundCopy of " + std::to_string(b.elems) + " elements, " + b.copy.describe() +
                   ">";
        });
}

/// The methods that move elements, and the copy of whole arrays.
void bind_applying(nb::module_& m, nb::class_<AddressRelation>& c) {
    bind_bound_copy(m);
    c.def("bind", &bind, "source"_a = nb::none(), "destination"_a = nb::none(), nb::kw_only(),
          "buffer"_a = nb::none(), "op"_a.none() = nb::none(),
          nb::sig("def bind(self, source: typing.Any = None, destination: typing.Any = None, *, "
                  "buffer: typing.Any = None, op: typing.Any = None) -> BoundCopy"),
          R"doc(Check arrays once, to move between them many times.

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
)doc");
    c.def("copy", &copy, "source"_a, "destination"_a, "op"_a.none() = nb::none(),
          nb::sig("def copy(self, source: typing.Any, destination: typing.Any, "
                  "op: typing.Any = None) -> None"),
          R"doc(Move every element from one memory to the other.

Parameters
----------
source, destination : array or buffer
    NumPy arrays, or anything with a buffer. Addresses count in bytes from the first element. The
    elements must be as wide as the relation's, or bare bytes. Where the dtypes differ they are
    converted by NumPy's rules. The two must not overlap, except where the relation reads and writes
    different addresses.
op : {"add", "multiply", "min", "max"}, ufunc or MPI.Op, optional
    How an element is combined with the one in place; replaced without it.

Raises
------
OutOfRange
    When an address lies outside the memory given.
InvalidArgument
    When the destination is read-only, or `op` is another word.
WrongType
    When element sizes do not fit, or dtypes cannot be converted.

Notes
-----
Nothing has been written when an error is raised. The GIL is released meanwhile.
)doc")
        .def("gather", &gather, "source"_a, "buffer"_a = nb::none(),
             nb::sig(
                 "def gather(self, source: typing.Any, buffer: typing.Any = None) -> typing.Any"),
             R"doc(Assemble a message: copy the sources, in order, to the front of a buffer.

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
)doc")
        .def(
            "scatter", &scatter, "buffer"_a, "destination"_a, "op"_a.none() = nb::none(),
            nb::sig("def scatter(self, buffer: typing.Any, destination: typing.Any, "
                    "op: typing.Any = None) -> None"),
            R"doc(Disassemble a message: the elements of a buffer, in order, go to the destinations.

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
)doc");
    m.def("copy_strided", &copy_strided, "source"_a, "destination"_a, "op"_a.none() = nb::none(),
          "around_caches"_a = false,
          nb::sig("def copy_strided(source: typing.Any, destination: typing.Any, "
                  "op: typing.Any = None, around_caches: bool = False) -> None"));
}

/// The bytes of a buffer without gaps. Throws wrong_type on any other; `what` names it.
std::span<const std::uint8_t> bytes_of(const ArrayMemory& memory, const char* what) {
    if (memory.shape().size() != 1 || memory.strides_bytes() != std::vector<std::int64_t>{1})
        throw Error(ErrorCode::wrong_type,
                    concat(what, " must be a contiguous array of single bytes; it has ",
                           memory.shape().size(), " dimensions and elements of ",
                           memory.elem_bytes(), " bytes"));
    return {reinterpret_cast<const std::uint8_t*>(memory.data()),
            static_cast<std::size_t>(memory.end_bytes())};
}

nb::bytes as_bytes(const std::vector<std::uint8_t>& bytes) {
    return nb::bytes(bytes.data(), bytes.size());
}

nb::bytes to_bytes(const AddressRelation& relation) {
    return as_bytes(relation.to_bytes());
}

AddressRelation from_bytes(nb::handle buffer, std::optional<std::int64_t> most_elems) {
    const ArrayMemory memory(buffer, "the serialized relation");
    return AddressRelation::from_bytes(
        bytes_of(memory, "a serialized relation"),
        most_elems.value_or(std::numeric_limits<std::int64_t>::max()));
}

/// Rows of address and length in bytes, of the source side or the destination side. The base is an
/// address, or an array that the addresses must lie in.
bindings::NumpyArray<std::int64_t> iovec(const AddressRelation& relation, nb::handle base,
                                         const std::string& side) {
    const Side of = bindings::side_of(side);
    std::byte* start = nullptr;
    if (nb::isinstance<nb::int_>(base)) {
        start = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(base));
    } else {
        const ArrayMemory memory(base, "base");
        relation.require_inside(of, bindings::bounds_of(memory), "base");
        start = memory.data();
    }
    std::vector<std::int64_t> rows;
    for (const MemoryPiece& piece : relation.pieces(of, start)) {
        rows.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(piece.data)));
        rows.push_back(static_cast<std::int64_t>(piece.bytes));
    }
    const std::size_t n = rows.size() / 2;
    return array_of(std::move(rows), {n, 2});
}

/// Gathers what a put message carries; the array is checked first.
nb::bytes put(const AddressRelation& relation, nb::handle source) {
    const ArrayMemory from(source, "source");
    require_elems(from, relation.source_elem_bytes());
    relation.require_inside(Side::source, bindings::bounds_of(from), from.name());
    return as_bytes(put_message(relation, from.data()));
}

void accept(nb::handle message, nb::handle destination, Op op) {
    const ArrayMemory from(message, "message"), to(destination, "destination");
    to.require_writable();
    ElementUpdate update;
    if (op != Op::replace) update = bindings::update_between(to, to, op);
    // Naming the type lets a message with elements of another width be refused.
    if (to.elem_bytes() > 1) update.source_type = update.destination_type = to.scalar_type();
    accept_put(bytes_of(from, "a put message"), to.data(), bindings::bounds_of(to), update);
}

bindings::NumpyArray<std::uint8_t> answer(nb::handle request, nb::handle source,
                                          std::optional<std::int64_t> most_bytes) {
    const ArrayMemory from(request, "request"), memory(source, "source");
    if (most_bytes && *most_bytes < 0)
        throw Error(ErrorCode::invalid_argument,
                    "max_bytes must not be negative, got " + std::to_string(*most_bytes));
    return array_of(answer_get(bytes_of(from, "a get request"), memory.data(),
                               bindings::bounds_of(memory), most_bytes.value_or(-1)));
}

void bind_messages(nb::class_<AddressRelation>& c) {
    c.def("put_message", &put, "source"_a,
          nb::sig("def put_message(self, source: typing.Any) -> bytes"),
          R"doc(The elements with their destinations, for a receiver that knows neither.

The paper's put model: only the source holds the relation. Cost: one gather and the encoding's
bytes.

Parameters
----------
source : array or buffer
    What the source addresses count in.

Returns
-------
bytes
    What `accept_put` writes to the destination.

Raises
------
OutOfRange
    When an address lies outside the array.
WrongType
    When its elements are not as wide as the relation's.

Examples
--------
>>> import numpy as np, datamover as dm
>>> relation = dm.advanced.AddressRelation.from_pairs([0, 2], [3, 1])
>>> message = relation.put_message(np.arange(10.0, 14.0))
>>> b = np.zeros(4)
>>> dm.advanced.AddressRelation.accept_put(message, b)
>>> b
array([ 0., 12.,  0., 10.])
)doc")
        .def_static("accept_put", &accept, "message"_a, "destination"_a, "op"_a.none() = nb::none(),
                    nb::sig("def accept_put(message: typing.Any, destination: typing.Any, "
                            "op: typing.Any = None) -> None"),
                    R"doc(Write the elements of a put message where it says.

Nothing in the message is trusted; nothing has been written when an error is raised.

Parameters
----------
message : bytes-like
    From `put_message`.
destination : array or buffer
    What the destination addresses count in.
op : {"add", "multiply", "min", "max"}, ufunc or MPI.Op, optional
    How an element is combined with the one in place; the message's elements are of the
    destination's dtype then.

Raises
------
InvalidArgument
    When the message is none, or several of its elements have one destination and there is no `op`.
OutOfRange
    When it writes outside the array.
WrongType
    When its elements are not as wide as the array's.
)doc")
        .def(
            "get_request", [](const AddressRelation& r) { return as_bytes(get_request(r)); },
            nb::sig("def get_request(self) -> bytes"),
            R"doc(The addresses that a source needs to answer, as bytes.

The paper's get model: only the destination holds the relation. It sends the request, the source
replies by `answer_get`, and `scatter` takes the answer apart: as elements of the destination's
dtype, unless the answer is viewed as another one (``answer.view("f4")``), which is converted.

Examples
--------
>>> import numpy as np, datamover as dm
>>> relation = dm.advanced.AddressRelation.from_pairs([0, 2], [3, 1])
>>> answer = dm.advanced.AddressRelation.answer_get(relation.get_request(), np.arange(10.0, 14.0))
>>> b = np.zeros(4)
>>> relation.scatter(answer, b)
>>> b
array([ 0., 12.,  0., 10.])
)doc")
        .def_static("answer_get", &answer, "request"_a, "source"_a, nb::kw_only(),
                    "max_bytes"_a = nb::none(),
                    nb::sig("def answer_get(request: typing.Any, source: typing.Any, *, "
                            "max_bytes: int | None = None) -> "
                            "numpy.typing.NDArray[numpy.uint8]"),
                    R"doc(The elements that a get request asks for, in its order, as bytes.

Nothing in the request is trusted: a few bytes can ask for one element again and again.

Parameters
----------
request : bytes-like
    From `get_request`.
source : array or buffer
    What the source addresses count in.
max_bytes : int, optional
    How long the answer may be at most; without it, as many bytes as the source has and 64 for every
    byte of the request.

Returns
-------
numpy.ndarray
    Of bytes.

Raises
------
InvalidArgument
    When the request is none, or `max_bytes` is negative.
OutOfRange
    When it reads outside the array or asks for too much.
)doc");
}

/// The methods that hand a relation on: as bytes, as pieces of memory, as messages.
void bind_passing_on(nb::class_<AddressRelation>& c) {
    c.def("to_bytes", &to_bytes,
          "The relation as bytes, which `from_bytes` turns back into the same pairs in the same "
          "encoding, on machines with this machine's byte order.")
        .def_static("from_bytes", &from_bytes, "buffer"_a, nb::kw_only(),
                    "max_elements"_a = nb::none(),
                    nb::sig("def from_bytes(buffer: typing.Any, *, max_elements: int | None = "
                            "None) -> AddressRelation"),
                    R"doc(A relation from the bytes that `to_bytes` gave.

Nothing in them is trusted.

Parameters
----------
buffer : bytes-like
    The bytes.
max_elements : int, optional
    How many elements it may have. A few bytes can stand for any number, and what is done with the
    relation later takes work in their number: set it for bytes from outside.

Raises
------
InvalidArgument
    When they are not those of a relation: cut off, changed, of another version or byte order.
OutOfRange
    When it has more elements.
)doc")
        .def(
            "iovec", &iovec, "base"_a, "side"_a = "source",
            nb::sig("def iovec(self, base: typing.Any, side: str = 'source') -> "
                    "numpy.typing.NDArray[numpy.int64]"),
            R"doc(The contiguous pieces of memory of one side, in order, as in a scatter-gather list.

Parameters
----------
base : array, buffer or int
    What the addresses count from: an array that must hold them all, or an address.
side : {"source", "destination"}
    Which side.

Returns
-------
(n, 2) array of int64
    Address and length in bytes of each piece.

Raises
------
OutOfRange
    When an address lies outside the array.

Examples
--------
>>> import datamover as dm
>>> pieces = dm.advanced.AddressRelation.from_pairs([0, 1, 5], [0, 1, 2], elem_bytes=4)
>>> pieces.iovec(1000).tolist()
[[1000, 8], [1020, 4]]
)doc")
        .def("__getstate__", &to_bytes)
        .def("__setstate__", [](AddressRelation& self, nb::bytes state) {
            new (&self) AddressRelation(from_bytes(state, std::nullopt));
        });
    bind_messages(c);
}

/// Size of an element on both sides: one number, or a pair of numbers.
std::pair<std::int64_t, std::int64_t> both_sizes(nb::handle elem_bytes) {
    std::int64_t bytes = 0;
    if (nb::isinstance<nb::int_>(elem_bytes) && nb::try_cast(elem_bytes, bytes))
        return {bytes, bytes};
    const bool several = nb::isinstance<nb::sequence>(elem_bytes);
    const auto sizes = Integers(elem_bytes, "elem_bytes").to_vector();
    if (!several && sizes.size() == 1) return {sizes[0], sizes[0]};
    if (sizes.size() != 2)
        throw Error(
            ErrorCode::invalid_argument,
            "elem_bytes must be one number, or one for the source and one for the destination");
    return {sizes[0], sizes[1]};
}

nb::tuple to_pairs(const AddressRelation& relation, std::int64_t max_elems) {
    relation.check_expandable(max_elems);
    std::vector<std::int64_t> source, destination;
    {
        Unlocked release;
        relation.to_pairs(source, destination);
    }
    return nb::make_tuple(array_of(std::move(source)), array_of(std::move(destination)));
}

bindings::NumpyArray<std::int64_t> runs(const AddressRelation& relation, std::int64_t max_elems) {
    relation.check_expandable(max_elems);
    std::vector<std::int64_t> rows;
    relation.for_each_run([&](std::int64_t source, std::int64_t destination, std::int64_t elems) {
        rows.insert(rows.end(), {source, destination, elems});
    });
    const std::size_t n = rows.size() / 3;
    return array_of(std::move(rows), {n, 3});
}

void bind_making(nb::class_<AddressRelation>& c) {
    c.def_static(
         "from_pairs",
         [](nb::handle source, nb::handle destination, nb::handle elem_bytes) {
             const auto [from, to] = both_sizes(elem_bytes);
             return AddressRelation::from_pairs(
                 Integers(source, "source addresses").values(),
                 Integers(destination, "destination addresses").values(), from, to);
         },
         "source"_a, "destination"_a, "elem_bytes"_a = 8,
         nb::sig("def from_pairs(source: numpy.typing.ArrayLike, destination: "
                 "numpy.typing.ArrayLike, elem_bytes: int | tuple[int, int] = 8) "
                 "-> AddressRelation"),
         R"doc(A relation from element addresses, in the order given.

The encoding is chosen by size and predicted speed. Takes time in the number of pairs.

Parameters
----------
source, destination : (n,) array of int
    Element addresses, at least 0: element source[k] goes to element destination[k].
elem_bytes : int or (int, int)
    Size of an element; of the source and of the destination where they differ.

Raises
------
Mismatch
    When there are more sources than destinations, or fewer.
InvalidArgument
    When an address is negative, or an element size not positive.
WrongType
    When the addresses are no integers.
)doc")
        .def_static(
            "from_byte_pairs",
            [](nb::handle source, nb::handle destination, nb::handle elem_bytes) {
                const auto [from, to] = both_sizes(elem_bytes);
                return AddressRelation::from_byte_pairs(
                    Integers(source, "source addresses").to_vector(),
                    Integers(destination, "destination addresses").to_vector(), from, to);
            },
            "source"_a, "destination"_a, "elem_bytes"_a = 8,
            nb::sig("def from_byte_pairs(source: numpy.typing.ArrayLike, destination: "
                    "numpy.typing.ArrayLike, elem_bytes: int | tuple[int, int] = 8) "
                    "-> AddressRelation"),
            "The same from byte addresses, as `to_pairs` gives them; they may be negative.")
        .def_static("join", &AddressRelation::join, "source_half"_a, "destination_half"_a,
                    R"doc(The k-th source of one half goes to the k-th destination of another.

Raises Mismatch when they hold different numbers of elements.
)doc")
        .def(
            "encode",
            [](const AddressRelation& relation, const std::string& encoding,
               std::int64_t max_elems) {
                return relation.encode(encoding_from_name(encoding), max_elems);
            },
            "encoding"_a, "max_elems"_a = AddressRelation::most_expanded,
            R"doc(The same pairs in the same order, kept in another encoding.

Takes time and memory in the number of elements.

Parameters
----------
encoding : {"pairs", "blocks", "runs", "dictionary", "product", "offsets"}
    How they are kept. Each can hold any relation.
max_elems : int
    A short relation may stand for very many elements: more than these are refused, unless they
    are kept as products already.

Raises
------
InvalidArgument
    On another word, or beyond `max_elems` elements.
)doc")
        .def("source_half", &AddressRelation::source_half, "message_elem_bytes"_a = 0,
             "The same sources, going to 0, 1, 2, …: assembly of a message.")
        .def("destination_half", &AddressRelation::destination_half, "message_elem_bytes"_a = 0,
             "0, 1, 2, … going to the same destinations: disassembly of a message.")
        .def("ordered_by_source", &AddressRelation::ordered_by_source,
             "max_elems"_a = AddressRelation::most_expanded,
             "The same pairs, ordered by source address; at most `max_elems` of them, else "
             "InvalidArgument.")
        .def("ordered_by_destination", &AddressRelation::ordered_by_destination,
             "max_elems"_a = AddressRelation::most_expanded,
             "The same pairs, ordered by destination address; at most `max_elems` of them, else "
             "InvalidArgument.")
        .def("reversed", &AddressRelation::reversed, "Source and destination exchanged.");
}

nb::dict explain(const AddressRelation& relation, std::int64_t most_elems) {
    const EncodingChoice choice = explain_encoding(relation, most_elems);
    nb::dict candidates;
    for (const EncodingEstimate& e : choice.estimates) {
        nb::dict estimate;
        estimate["nbytes"] = e.nbytes;
        estimate["decode_seconds"] = e.decode_seconds;
        candidates[encoding_name(e.encoding)] = estimate;
    }
    nb::dict d;
    d["encoding"] = encoding_name(choice.chosen);
    d["reason"] = choice.reason;
    d["kernel"] = relation.source_elem_bytes() == relation.destination_elem_bytes()
                      ? relation.kernel().describe()
                      : "conversion";
    d["candidates"] = candidates;
    return d;
}

void bind_costs(nb::module_& m) {
    m.def(
        "decoding_costs",
        [] {
            const DecodingCosts c = decoding_costs();
            nb::dict d;
            d["pair"] = c.pair;
            d["block"] = c.block;
            d["symbol"] = c.symbol;
            d["offset"] = c.offset;
            d["byte"] = c.byte;
            d["tolerated_slowness"] = c.tolerated_slowness;
            return d;
        },
        nb::sig("def decoding_costs() -> dict[str, float]"),
        "The costs, in nanoseconds, that encodings are chosen by in this process.");
    m.def(
        "set_decoding_costs",
        [](double pair, double block, double symbol, double offset, double byte,
           double tolerated_slowness) {
            set_decoding_costs({pair, block, symbol, offset, byte, tolerated_slowness});
        },
        nb::kw_only(), "pair"_a, "block"_a, "symbol"_a, "offset"_a, "byte"_a,
        "tolerated_slowness"_a,
        "Set the costs that encodings are chosen by in this process, in nanoseconds.");
}

void bind_looking(nb::class_<AddressRelation>& c) {
    c.def("__len__", &AddressRelation::size)
        .def_prop_ro(
            "encoding", [](const AddressRelation& r) { return encoding_name(r.encoding()); },
            "Name of the encoding.")
        .def_prop_ro("nbytes", &AddressRelation::nbytes, "Bytes that the encoding occupies.")
        .def_prop_ro("source_elem_bytes", &AddressRelation::source_elem_bytes,
                     "Size of a source element.")
        .def_prop_ro("destination_elem_bytes", &AddressRelation::destination_elem_bytes,
                     "Size of a destination element.")
        .def_prop_ro(
            "source_bounds",
            [](const AddressRelation& r) {
                return nb::make_tuple(r.source_bounds().begin_bytes, r.source_bounds().end_bytes);
            },
            nb::sig("def source_bounds(self) -> tuple[int, int]"),
            "The lowest source address in bytes, and one past the highest.")
        .def_prop_ro(
            "destination_bounds",
            [](const AddressRelation& r) {
                return nb::make_tuple(r.destination_bounds().begin_bytes,
                                      r.destination_bounds().end_bytes);
            },
            nb::sig("def destination_bounds(self) -> tuple[int, int]"),
            "The lowest destination address in bytes, and one past the highest.")
        .def_prop_ro("source_contiguous", &AddressRelation::source_contiguous,
                     "Whether the sources are one ascending run: nothing to assemble.")
        .def_prop_ro("destination_contiguous", &AddressRelation::destination_contiguous,
                     "Whether the destinations are one ascending run: nothing to disassemble.")
        .def("to_pairs", &to_pairs, "max_elems"_a = AddressRelation::most_expanded,
             nb::sig("def to_pairs(self, max_elems: int = 4294967296) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], "
                     "numpy.typing.NDArray[numpy.int64]]"),
             "All pairs in order: two int64 arrays of byte addresses, of sources and destinations. "
             "Beyond `max_elems` of them, InvalidArgument.")
        .def(
            "runs", &runs, "max_elems"_a = AddressRelation::most_expanded,
            nb::sig(
                "def runs(self, max_elems: int = 4294967296) -> numpy.typing.NDArray[numpy.int64]"),
            "Maximal runs that are contiguous on both sides, in order: an (n, 3) array (int64) of "
            "source and destination byte address and number of elements. Takes time in the number "
            "of elements; beyond `max_elems` of them, InvalidArgument.")
        .def_prop_ro("destinations_repeat", &AddressRelation::destinations_repeat,
                     "Whether elements have the same destination: only an `op` makes sense then.")
        .def(
            "describe", [](const AddressRelation& r) { return r.kernel().describe(); },
            "The loops that a plain copy takes.")
        .def("explain", &explain, "max_elems"_a = std::int64_t{1} << 24,
             nb::sig("def explain(self, max_elems: int = 16777216) -> dict[str, typing.Any]"),
             R"doc(Which encoding was chosen, why, and what the others would cost.

Parameters
----------
max_elems : int
    Every encoding is tried, which takes time and memory in the number of elements; where the
    relation has more than these, none is.

Returns
-------
dict
    `encoding`, `reason`, `kernel` (the loops of a plain copy) and `candidates`: per encoding its
    `nbytes` and predicted `decode_seconds` beyond moving the bytes, empty where none was tried.
    The prediction uses the costs
    that `datamover bench model` measured on this machine, if it did.

Examples
--------
>>> import numpy as np, datamover as dm
>>> index = np.random.default_rng(0).permutation(1000)
>>> told = dm.advanced.AddressRelation.from_pairs(index, np.arange(1000)).explain()
>>> told["encoding"], told["candidates"]["pairs"]["nbytes"]
('offsets', 16000)
)doc")
        .def("__repr__", [](const AddressRelation& r) {
            return "<AddressRelation of " + std::to_string(r.size()) + " elements, " +
                   encoding_name(r.encoding()) + " in " + std::to_string(r.nbytes()) + " bytes>";
        });
}

}  // namespace

void bind_relation(nb::module_& m) {
    nb::class_<AddressRelation> c(
        m, "AddressRelation",
        R"doc(An ordered set of pairs: which address goes to which address.

Kept compactly, in one of six encodings, and decoded while copying. A value, cheap to copy. Its order
is that of a message. Made by `MotionPlan.relation`, or from arrays of addresses by `from_pairs`.

Notes
-----
The encodings and their names in the paper on compact address relations: pairs (AAPAIR), blocks
(AABLK), runs (DMRLE), dictionary (DMRLEC); product and offsets are ours.

Examples
--------
>>> import numpy as np, datamover as dm
>>> index = np.arange(0, 1000, 4)
>>> every_fourth = dm.advanced.AddressRelation.from_pairs(index, np.arange(250))
>>> len(every_fourth), every_fourth.encoding, every_fourth.nbytes < 200
(250, 'product', True)
>>> values, picked = np.arange(1000.0), np.zeros(250)
>>> every_fourth.copy(values, picked)
>>> picked[:4]
array([ 0.,  4.,  8., 12.])
>>> every_fourth.reversed().copy(picked, values, op="add")
>>> values[4]
np.float64(8.0)
)doc");
    bind_making(c);
    bind_costs(m);
    bind_applying(m, c);
    bind_looking(c);
    bind_passing_on(c);
}
