// SPDX-License-Identifier: BSD-3-Clause
// Members of bound classes: attributes of aggregates, pickling, iterators, texts and dicts.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <functional>
#include <new>
#include <optional>
#include <vector>

#include "datamover/error.hpp"

namespace datamover::bindings {

namespace nb = nanobind;
using namespace nb::literals;

/// Python's str.format: a text with parts of any type that Python knows.
template <class... Part>
nb::str formatted(const char* text, const Part&... parts) {
    return nb::str(nb::str(text).attr("format")(parts...));
}

/// ", name=value" in the repr of an object; nothing without a value.
template <class Value>
nb::str keyword(const char* name, const std::optional<Value>& value) {
    return value ? formatted(", {}={}", name, *value) : nb::str("");
}

/// The dict of names and values, as dict_of("rounds"_a = 3).
template <class... Entry>
nb::dict dict_of(const Entry&... entries) {
    nb::dict d;
    ((d[entries.name_] = entries.value), ...);
    return d;
}

/// Lets objects be pickled: `made_from` makes from a state, a tuple, what had that state.
template <class Kind, class StateOf, class MadeFrom>
void add_pickling(nb::class_<Kind>& c, StateOf state_of, MadeFrom made_from) {
    c.def("__getstate__", state_of)
        .def("__setstate__", [made_from](Kind& self, const nb::tuple& state) {
            new (&self) Kind(made_from(state));
        });
}

/// Lets objects be pickled as a call of their class with these arguments, a tuple.
template <class Kind, class ArgumentsOf>
void add_pickling(nb::class_<Kind>& c, ArgumentsOf arguments_of) {
    c.def("__reduce__", [arguments_of](const Kind& self) {
        return nb::make_tuple(nb::type<Kind>(), arguments_of(self));
    });
}

/// A member of an aggregate that is an attribute in Python, where `convert` gives its value.
template <class Kind, class Member, class Convert>
struct Field {
    const char* name;
    Member Kind::* at;
    const char* doc;
    Convert convert;
};

template <class Kind, class Member, class Convert = std::identity>
Field<Kind, Member, Convert> field(const char* name, Member Kind::* at, const char* doc,
                                   Convert convert = {}) {
    return {name, at, doc, convert};
}

/// Attributes, comparison and pickling of an aggregate of these fields.
template <class Kind, class... Member, class... Convert>
void add_fields(nb::class_<Kind>& c, Field<Kind, Member, Convert>... fields) {
    (c.def_prop_ro(
         fields.name, [fields](const Kind& kind) { return fields.convert(kind.*fields.at); },
         fields.doc),
     ...);
    c.def(nb::self == nb::self);
    add_pickling(
        c, [fields...](const Kind& kind) { return nb::make_tuple(kind.*fields.at...); },
        [](const nb::tuple& state) {
            std::size_t i = 0;
            return Kind{nb::cast<Member>(state[i++])...};
        });
}

/// A vector as a tuple; none for an empty one.
template <class Value>
std::optional<nb::typed<nb::tuple, Value, nb::ellipsis>> tuple_or_none(
    const std::vector<Value>& values) {
    if (values.empty()) return std::nullopt;
    return nb::tuple(nb::cast(values));
}

/// A class whose objects give one value after the other by next(), which throws stop_iteration.
template <class Iterator>
void bind_iterator(nb::module_& m, const char* name, const char* doc) {
    nb::class_<Iterator>(m, name, doc)
        .def(
            "__iter__", [](Iterator& self) -> Iterator& { return self; }, nb::rv_policy::reference)
        .def("__next__", &Iterator::next);
}

}  // namespace datamover::bindings
