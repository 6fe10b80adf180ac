// SPDX-License-Identifier: BSD-3-Clause
// Errors for calls whose arguments fit no overload, in one line.
//
// nanobind says it in several, in the words of its own, and has no place for others. So what it
// calls its functions by (the first word behind the object's header) is replaced, where it is what
// Python would call.
#pragma once

#include <dlfcn.h>
#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <utility>

#include "errors.hpp"

namespace datamover::bindings {

/// The few functions of nanobind by which all others are called.
inline std::array<vectorcallfunc, 16> called_by{};

/// Replaces the error that is set, if it is that of arguments which fit nothing.
inline void say_in_a_line() {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return;
    nb::python_error error;
    try {
        const nb::object line =
            nb::module_::import_("datamover.call_errors").attr("in_a_line")(nb::str(error.value()));
        if (line.is_none())
            error.restore();
        else
            set_python_error(ErrorCode::wrong_type, nb::cast<std::string>(line).c_str());
    } catch (nb::python_error& of_signal) {
        of_signal.restore();
    }
}

template <std::size_t i>
PyObject* call_and_say(PyObject* function, PyObject* const* arguments, std::size_t count,
                       PyObject* names) {
    PyObject* result = called_by[i](function, arguments, count, names);
    if (result == nullptr) say_in_a_line();
    return result;
}

/// What Python calls an object by. The headers of the stable interface lack the question; every
/// version of Python answers it.
inline vectorcallfunc caller_of(nb::handle object) {
    static const auto ask = reinterpret_cast<vectorcallfunc (*)(PyObject*)>(
        dlsym(RTLD_DEFAULT, "PyVectorcall_Function"));
    return ask == nullptr ? nullptr : ask(object.ptr());
}

/// Has a function of nanobind say its errors in a line; nothing for other objects.
inline void say_errors_of(nb::handle object) {
    static constexpr auto callers = []<std::size_t... i>(std::index_sequence<i...>) {
        return std::array{call_and_say<i>...};
    }(std::make_index_sequence<called_by.size()>{});
    const vectorcallfunc caller = caller_of(object);
    if (caller == nullptr) return;
    auto& place = *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(object.ptr()) +
                                                     sizeof(PyVarObject));
    for (std::size_t i = 0; i < called_by.size(); ++i) {
        if (place != caller || caller == callers[i]) return;
        if (called_by[i] != nullptr && called_by[i] != caller) continue;
        called_by[i] = caller;
        place = callers[i];
        return;
    }
}

/// To be called at the end of a module: for all its functions, and the methods of its classes.
inline void say_call_errors(nb::module_& m) {
    const auto is_of_nanobind = [](nb::handle object) {
        return nb::hasattr(object, "__nb_signature__");
    };
    for (const nb::handle object : nb::object(m.attr("__dict__").attr("values")())) {
        if (is_of_nanobind(object)) say_errors_of(object);
        if (!PyType_Check(object.ptr())) continue;
        for (const nb::handle member : nb::object(object.attr("__dict__").attr("values")()))
            if (is_of_nanobind(member)) say_errors_of(member);
    }
}

}  // namespace datamover::bindings
