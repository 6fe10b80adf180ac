// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of AddressRelation: as bytes, as pieces of memory, as messages.
#include "datamover/advanced/relation_messages.hpp"
#include "module.hpp"

namespace datamover::bindings {
namespace {

/// The bytes of a buffer without gaps. Throws wrong_type on any other; `what` names it.
std::span<const std::uint8_t> bytes_of(const ArrayMemory& memory, const char* what) {
    if (memory.shape().size() != 1 || memory.strides_bytes() != std::vector<std::int64_t>{1})
        throw Error(ErrorCode::wrong_type,
                    concat(what, " must be a contiguous array of single bytes; it has ",
                           memory.shape().size(), " dimensions and elements of ",
                           memory.elem_bytes(), " bytes"));
    return {reinterpret_cast<const std::uint8_t*>(memory.data()),
            static_cast<std::size_t>(memory.bounds().end_bytes)};
}

AddressRelation from_bytes(nb::any buffer, std::optional<std::int64_t> most_elems) {
    const ArrayMemory memory(buffer, "the serialized relation");
    return AddressRelation::from_bytes(
        bytes_of(memory, "a serialized relation"),
        most_elems.value_or(std::numeric_limits<std::int64_t>::max()));
}

/// Rows of address and length in bytes, of the source side or the destination side. The base is an
/// address, or an array that the addresses must lie in.
NumpyArray<std::int64_t> iovec(const AddressRelation& relation, nb::any base,
                               const std::string& side) {
    const Side of = side_of(side);
    std::byte* start = nullptr;
    if (nb::isinstance<nb::int_>(base)) {
        start = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(base));
    } else {
        const ArrayMemory memory(base, "base");
        relation.require_inside(of, memory.bounds(), "base");
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
nb::bytes put(const AddressRelation& relation, nb::any source) {
    const ArrayMemory from(source, "source");
    require_elems(from, relation.source_elem_bytes());
    relation.require_inside(Side::source, from.bounds(), from.name());
    return as_bytes(put_message(relation, from.data()));
}

void accept(nb::any message, nb::any destination, Op op) {
    const ArrayMemory from(message, "message"), to(destination, "destination");
    to.require_writable();
    ElementUpdate update;
    if (op != Op::replace) update = update_between(to, to, op);
    // Naming the type lets a message with elements of another width be refused.
    if (to.elem_bytes() > 1) update.source_type = update.destination_type = to.scalar_type();
    accept_put(bytes_of(from, "a put message"), to.data(), to.bounds(), update);
}

NumpyArray<std::uint8_t> answer(nb::any request, nb::any source,
                                std::optional<std::int64_t> most_bytes) {
    const ArrayMemory from(request, "request"), memory(source, "source");
    if (most_bytes && *most_bytes < 0)
        throw make_error(ErrorCode::invalid_argument, "max_bytes must not be negative, got ",
                         *most_bytes);
    return array_of(answer_get(bytes_of(from, "a get request"), memory.data(), memory.bounds(),
                               most_bytes.value_or(-1)));
}

/** Python AddressRelation.put_message
The elements with their destinations, for a receiver that knows neither.

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
    An address lies outside the array.
WrongType
    Its elements are not as wide as the relation's.

Examples
--------
>>> import numpy as np, datamover as dm
>>> relation = dm.advanced.AddressRelation.from_pairs([0, 2], [3, 1])
>>> message = relation.put_message(np.arange(10.0, 14.0))
>>> b = np.zeros(4)
>>> dm.advanced.AddressRelation.accept_put(message, b)
>>> b
array([ 0., 12.,  0., 10.])
*/
/** Python AddressRelation.accept_put
Write the elements of a put message to the addresses that it contains.

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
    The message is none, or several of its elements have one destination and there is no `op`.
OutOfRange
    It writes outside the array.
WrongType
    Its elements are not as wide as the array's.
*/
/** Python AddressRelation.get_request
The addresses that a source needs to answer, as bytes.

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
*/
/** Python AddressRelation.answer_get
The elements that a get request asks for, in its order, as bytes.

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
    The request is none, or `max_bytes` is negative.
OutOfRange
    It reads outside the array or asks for too much.
*/
void bind_put_and_get(Class<AddressRelation>& c) {
    c.def("put_message", &put, "source"_a)
        .def_static("accept_put", &accept, "message"_a, "destination"_a, "op"_a = nb::none())
        .def("get_request", [](const AddressRelation& r) { return as_bytes(get_request(r)); })
        .def_static("answer_get", &answer, "request"_a, "source"_a, nb::kw_only(),
                    "max_bytes"_a = nb::none());
}

}  // namespace

/** Python AddressRelation.to_bytes
The relation as bytes, which `from_bytes` turns back into the same pairs in the same encoding, on
machines with this machine's byte order.
*/
/** Python AddressRelation.from_bytes
A relation from the bytes that `to_bytes` gave.

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
    They are not those of a relation: cut off, changed, of another version or byte order.
OutOfRange
    It has more elements.
*/
/** Python AddressRelation.iovec
The contiguous pieces of memory of one side, in order, as in a scatter-gather list.

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
    An address lies outside the array.

Examples
--------
>>> import datamover as dm
>>> pieces = dm.advanced.AddressRelation.from_pairs([0, 1, 5], [0, 1, 2], elem_bytes=4)
>>> pieces.iovec(1000).tolist()
[[1000, 8], [1020, 4]]
*/
void bind_relation_messages(Class<AddressRelation>& c) {
    add_bytes(c);
    c.def_static("from_bytes", &from_bytes, "buffer"_a, nb::kw_only(),
                 "max_elements"_a = nb::none())
        .def("iovec", &iovec, "base"_a, "side"_a = "source");
    bind_put_and_get(c);
}

}  // namespace datamover::bindings
