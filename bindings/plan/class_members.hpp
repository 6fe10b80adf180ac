// SPDX-License-Identifier: BSD-3-Clause
// Bound classes whose docstrings are comments, and members: attributes of aggregates, pickling,
// iterators, texts.
#pragma once

#include <nanobind/operators.h>

#include <concepts>

#include "common.hpp"
#include "docstrings.hpp"

namespace datamover::bindings {

/// nanobind's class_, with docstrings from the comments that docstrings.py describes.
template <class Kind>
class Class : public nb::class_<Kind> {
    using Base = nb::class_<Kind>;

public:
    template <class... Extra>
    Class(nb::handle scope, const char* name, const Extra&... extra)
        : Base(scope, name, docstring_of(name), extra...), name_(name) {}

    template <class Function, class... Extra>
    Class& def(const char* name, Function&& function, const Extra&... extra) {
        Base::def(name, std::forward<Function>(function), extra..., doc_of(name));
        return *this;
    }
    /// A constructor or an operator, by nanobind's description.
    template <class Described, class... Extra>
        requires(!std::convertible_to<Described, const char*>)
    Class& def(Described&& described, const Extra&... extra) {
        Base::def(std::forward<Described>(described), extra...);
        return *this;
    }
    template <class Function, class... Extra>
    Class& def_static(const char* name, Function&& function, const Extra&... extra) {
        Base::def_static(name, std::forward<Function>(function), extra..., doc_of(name));
        return *this;
    }
    template <class Getter, class... Extra>
    Class& def_prop_ro(const char* name, Getter&& getter, const Extra&... extra) {
        Base::def_prop_ro(name, std::forward<Getter>(getter), extra..., doc_of(name));
        return *this;
    }
    template <class Getter, class Setter, class... Extra>
    Class& def_prop_rw(const char* name, Getter&& getter, Setter&& setter, const Extra&... extra) {
        Base::def_prop_rw(name, std::forward<Getter>(getter), std::forward<Setter>(setter),
                          extra..., doc_of(name));
        return *this;
    }

private:
    /// The docstring of a member, or that of the member of a class template's `Kind`.
    const char* doc_of(const std::string& member) const {
        const char* own = docstring_of(name_ + "." + member);
        return *own != '\0' ? own : docstring_of("Kind." + member);
    }

    std::string name_;
};

/// ", name=value" in the repr of an object; nothing without a value.
template <class Value>
nb::str keyword(const char* name, const std::optional<Value>& value) {
    return value ? formatted(", {}={}", name, *value) : nb::str("");
}

/// A vector as a tuple; none for an empty one.
template <class Value>
std::optional<nb::typed<nb::tuple, Value, nb::ellipsis>> tuple_or_none(
    const std::vector<Value>& values) {
    if (values.empty()) return std::nullopt;
    return nb::tuple(nb::cast(values));
}

inline nb::bytes as_bytes(const std::vector<std::uint8_t>& bytes) {
    return nb::bytes(bytes.data(), bytes.size());
}

/// Lets objects be pickled as a call of their class with these arguments, a tuple.
template <class Kind, class ArgumentsOf>
void add_pickling(Class<Kind>& c, ArgumentsOf arguments_of) {
    c.def("__reduce__", [arguments_of](const Kind& self) {
        return nb::make_tuple(nb::type<Kind>(), arguments_of(self));
    });
}

template <class Kind>
Kind of_bytes(const nb::bytes& bytes) {
    return Kind::from_bytes({static_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

/// `to_bytes`, and pickling by these bytes.
template <class Kind>
void add_bytes(Class<Kind>& c) {
    const auto to_bytes = [](const Kind& self) { return as_bytes(self.to_bytes()); };
    c.def("to_bytes", to_bytes)
        .def("__getstate__", to_bytes)
        .def("__setstate__",
             [](Kind& self, const nb::bytes& state) { new (&self) Kind(of_bytes<Kind>(state)); });
}

/// A member of an aggregate that is an attribute in Python, where `convert` gives its value.
template <class Kind, class Member, class Convert>
struct Field {
    const char* name;
    Member Kind::* at;
    Convert convert;
};

template <class Kind, class Member, class Convert = std::identity>
Field<Kind, Member, Convert> field(const char* name, Member Kind::* at, Convert convert = {}) {
    return {name, at, convert};
}

/// Attributes, comparison, hash and pickling of an aggregate of these fields.
template <class Kind, class... Member, class... Convert>
void add_fields(Class<Kind>& c, Field<Kind, Member, Convert>... fields) {
    (c.def_prop_ro(fields.name,
                   [fields](const Kind& kind) { return fields.convert(kind.*fields.at); }),
     ...);
    const auto state_of = [fields...](const Kind& kind) {
        return nb::make_tuple(kind.*fields.at...);
    };
    const auto hashable = [](const nb::object& value) {
        return nb::isinstance<nb::list>(value) ? nb::object(nb::tuple(value)) : value;
    };
    c.def(nb::self == nb::self)
        .def("__hash__",
             [fields..., hashable](const Kind& kind) {
                 return nb::hash(nb::make_tuple(hashable(nb::cast(kind.*fields.at))...));
             })
        .def("__getstate__", state_of)
        .def("__setstate__", [](Kind& self, const nb::tuple& state) {
            std::size_t i = 0;
            new (&self) Kind{nb::cast<Member>(state[i++])...};
        });
}

/// A class whose objects give one value after the other by next(), which throws stop_iteration.
template <class Iterator>
void bind_iterator(nb::module_& m, const char* name) {
    Class<Iterator>(m, name)
        .def(
            "__iter__", [](Iterator& self) -> Iterator& { return self; }, nb::rv_policy::reference)
        .def("__next__", &Iterator::next);
}

}  // namespace datamover::bindings
