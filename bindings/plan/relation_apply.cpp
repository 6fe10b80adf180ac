// SPDX-License-Identifier: BSD-3-Clause
// How are relations applied to arrays from Python? Checked against the arrays' memory first.
#include "relation_apply.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::ArrayMemory;
using OpName = std::optional<std::string>;

void bindings::require_elems(const ArrayMemory& memory, std::int64_t elem_bytes) {
    if (memory.elem_bytes() == elem_bytes || memory.elem_bytes() == 1) return;
    throw Error(ErrorCode::wrong_type,
                memory.name() + " has elements of " + std::to_string(memory.elem_bytes()) +
                    " bytes, the relation moves elements of " + std::to_string(elem_bytes));
}

namespace {

/// Checks both memories and only then moves.
void apply(const AddressRelation& relation, const ArrayMemory& source,
           const ArrayMemory& destination, const ElementUpdate& update) {
    destination.require_writable();
    bindings::require_elems(source, relation.source_elem_bytes());
    bindings::require_elems(destination, relation.destination_elem_bytes());
    relation.require_inside(RelationSide::source, bindings::bounds_of(source), source.name());
    relation.require_inside(RelationSide::destination, bindings::bounds_of(destination),
                            destination.name());
    nb::gil_scoped_release release;
    relation.copy(source.data(), destination.data(), update);
}

bool holds_bare_bytes(const ArrayMemory& memory, std::int64_t elem_bytes) {
    return memory.elem_bytes() == 1 && elem_bytes != 1;
}

void copy(const AddressRelation& relation, nb::handle source, nb::handle destination,
          const OpName& op) {
    const ArrayMemory from(source, "source"), to(destination, "destination");
    const bool bare = holds_bare_bytes(from, relation.source_elem_bytes()) ||
                      holds_bare_bytes(to, relation.destination_elem_bytes());
    apply(relation, from, to, bindings::update_between(from, to, op, bare));
}

nb::object gather(const AddressRelation& relation, nb::handle source, nb::object buffer) {
    const ArrayMemory from(source, "source");
    if (buffer.is_none()) {
        const nb::object dtype = from.object().attr("dtype");
        const std::int64_t elems = relation.size() * relation.source_elem_bytes();
        buffer = nb::module_::import_("numpy").attr("empty")(elems / from.elem_bytes(), dtype);
    }
    apply(relation.source_half(), from, ArrayMemory(buffer, "buffer"), {});
    return buffer;
}

void scatter(const AddressRelation& relation, nb::handle buffer, nb::handle destination,
             const OpName& op) {
    const ArrayMemory from(buffer, "buffer"), to(destination, "destination");
    const bool bare =
        from.elem_bytes() == 1 || holds_bare_bytes(to, relation.destination_elem_bytes());
    const bool plain = bare && from.typestr() != to.typestr();
    const ElementUpdate update = bindings::update_between(from, to, op, plain);
    relation.require_unambiguous(update);
    apply(relation.destination_half(plain ? 0 : from.elem_bytes()), from, to, update);
}

/// The whole of one array to the whole of another, whatever their strides. Whether the two overlap
/// has been asked before.
void copy_strided(nb::handle source, nb::handle destination, const OpName& op) {
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
        if (n > 1 && to.strides_bytes()[d] == 0)
            throw Error(ErrorCode::invalid_argument,
                        "destination has stride 0 in dimension " + std::to_string(d) +
                            ": elements of the source would meet in one place");
        product.axes.push_back({std::make_shared<const AxisTable>(AxisTable::interval(0, 0, n)),
                                from.strides_bytes()[d], to.strides_bytes()[d]});
    }
    const auto update = bindings::update_between(from, to, op);
    apply(AddressRelation::from_products({std::move(product)}, from.elem_bytes(), to.elem_bytes()),
          from, to, update);
}

}  // namespace

void bindings::bind_applying(nb::module_& m, nb::class_<AddressRelation>& c) {
    c.def("copy", &copy, "source"_a, "destination"_a, "op"_a = nb::none(),
          nb::sig("def copy(self, source: typing.Any, destination: typing.Any, "
                  "op: str | None = None) -> None"),
          R"doc(Move every element from one memory to the other.

Parameters
----------
source, destination : array or buffer
    NumPy arrays, or anything with a buffer. Addresses count in bytes from the first element. The
    elements must be as wide as the relation's, or bare bytes. Where the dtypes differ they are
    converted by NumPy's rules. The two must not overlap, except where the relation reads and writes
    different addresses.
op : {"add", "multiply", "min", "max"}, optional
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
        .def("scatter", &scatter, "buffer"_a, "destination"_a, "op"_a = nb::none(),
             nb::sig("def scatter(self, buffer: typing.Any, destination: typing.Any, "
                     "op: str | None = None) -> None"),
             "Disassemble a message: the elements of a buffer, in order, go to the destinations. "
             "Arguments and errors as for `copy`.");
    m.def("copy_strided", &copy_strided, "source"_a, "destination"_a, "op"_a = nb::none(),
          nb::sig("def copy_strided(source: typing.Any, destination: typing.Any, "
                  "op: str | None = None) -> None"));
}
