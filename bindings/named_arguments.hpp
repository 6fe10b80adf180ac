// SPDX-License-Identifier: BSD-3-Clause
// Errors that name the argument that has a wrong type.
//
// Functions that take it as nb::handle, with `.none()`, hear of any object. nanobind's own error
// lists signatures.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "casters.hpp"
#include "datamover/error.hpp"
#include "datamover/region.hpp"

namespace datamover::bindings {

/// An object in a line; one that is long by its type.
inline std::string shown(nanobind::handle object) {
    constexpr std::size_t most_shown = 80;
    const std::string text = nanobind::repr(object).c_str();
    if (text.size() <= most_shown && text.find('\n') == std::string::npos) return text;
    return std::string("a ") + nanobind::type_name(object.type()).c_str();
}

/// Throws wrong_type: "NAME is OBJECT, it must be WANTED".
[[noreturn]] inline void refuse_type(nanobind::handle object, const std::string& name,
                                     const std::string& wanted) {
    throw Error(ErrorCode::wrong_type, name + " is " + shown(object) + ", it must be " + wanted);
}

/// Throws wrong_type, and out_of_range beyond 64 bits.
inline std::int64_t integer_of(nanobind::handle object, const char* name) {
    if (!PyIndex_Check(object.ptr())) refuse_type(object, name, "an integer");
    const nanobind::object number = nanobind::steal(PyNumber_Index(object.ptr()));
    if (!number.is_valid()) {
        PyErr_Clear();  // of an array of several numbers
        refuse_type(object, name, "an integer");
    }
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0)
        throw Error(ErrorCode::out_of_range, std::string(name) + " does not fit 64 bits");
    return value;
}

/// Throws wrong_type, and invalid_argument where a string is no text.
inline std::string text_of(nanobind::handle object, const char* name) {
    if (!PyUnicode_Check(object.ptr())) refuse_type(object, name, "a string");
    Py_ssize_t bytes = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &bytes);
    if (!text) {
        PyErr_Clear();  // of half a surrogate pair
        throw Error(ErrorCode::invalid_argument,
                    std::string(name) + " is " + shown(object) + ", which is no text");
    }
    return {text, static_cast<std::size_t>(bytes)};
}

/// Throws wrong_type, and as the caster of points does.
inline Point point_of(nanobind::handle object, const char* name,
                      const char* wanted = "an integer or a sequence of integers") {
    nanobind::detail::make_caster<Point> caster;
    if (object.is_none() || !caster.from_python(object, 0, nullptr))
        refuse_type(object, name, wanted);
    return caster.operator Point();
}

/// The same; a point of no dimensions for None.
inline Point point_or_none(nanobind::handle object, const char* name) {
    return object.is_none() ? Point{} : point_of(object, name);
}

/// What nanobind makes of an object, such as a vector of a list. Throws wrong_type.
template <class Value>
Value value_of(nanobind::handle object, const char* name, const char* wanted) {
    Value value;
    if (!nanobind::try_cast(object, value)) refuse_type(object, name, wanted);
    return value;
}

/// Throws wrong_type.
inline Region region_of(nanobind::handle object, const std::string& name) {
    if (!nanobind::isinstance<Region>(object)) refuse_type(object, name, "a Region");
    return nanobind::cast<Region>(object);
}

}  // namespace datamover::bindings
