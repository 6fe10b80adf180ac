// SPDX-License-Identifier: BSD-3-Clause
// Translation of the library's errors to Python exceptions, and calls without the interpreter lock.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "datamover/error.hpp"

namespace datamover::bindings {

namespace nb = nanobind;
using namespace nb::literals;

/// Sets the Python exception of a code, found by name in datamover.errors at the time of the error,
/// so that no module has to be imported before another. An exception that is set stays: a signal
/// handler raised it in a wait within the call (Ctrl-C), whatever error that wait ended in.
inline void set_python_error(ErrorCode code, const char* message) {
    if (PyErr_Occurred() != nullptr) return;
    try {
        const nb::object type =
            nb::module_::import_("datamover.errors").attr("class_of")(error_code_name(code));
        PyErr_SetString(type.ptr(), message);
    } catch (nb::python_error& of_signal) {  // its handler ran within that call: Ctrl-C stays one
        of_signal.restore();
    }
}

/// Whether a signal that Python has a handler for ends a wait: Ctrl-C with KeyboardInterrupt. Only
/// the first thread hears of signals; others do not ask for the interpreter's lock, for which they
/// could not wait when Python ends.
inline bool signal_handler_raised() {
    if (!Py_IsInitialized() || ::gettid() != ::getpid()) return false;
    const nb::gil_scoped_acquire acquired;
    return PyErr_CheckSignals() != 0;
}

/// The code of a name such as "mismatch"; invalid_argument for an unknown one.
inline ErrorCode error_code_from_name(const std::string& name) {
    for (int c = 1; c <= static_cast<int>(ErrorCode::unsupported); ++c)
        if (name == error_code_name(static_cast<ErrorCode>(c))) return static_cast<ErrorCode>(c);
    return ErrorCode::invalid_argument;
}

/// To be called once by every module whose functions throw datamover::Error. Memory that the
/// standard library did not get is an error of the library's, too.
inline void register_error_translator() {
    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const Error& e) {
            set_python_error(e.code(), e.what());
        } catch (const std::bad_alloc&) {
            set_python_error(ErrorCode::no_memory, "out of memory");
        } catch (const std::length_error&) {
            set_python_error(ErrorCode::no_memory, "more entries than memory can hold");
        }
    });
}

// Releasing the interpreter lock during a call, also if Python ends meanwhile.

/// Without the interpreter lock as long as this lives.
///
/// Where Python ends meanwhile, a daemon thread never gets the lock again: until Python 3.13 it is
/// ended within the call that asks for it, by unwinding, which in a destructor ends the program.
/// So it stays there until the program has ended, as Python 3.14 has it stay.
class Unlocked {
public:
    Unlocked() : thread_(PyEval_SaveThread()) {}
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;
    ~Unlocked() {
        try {
            PyEval_RestoreThread(thread_);
        } catch (...) {  // the unwinding: Python throws nothing
            while (true) ::pause();
        }
    }

private:
    PyThreadState* thread_;
};

/// Calls without the interpreter lock; returns the result.
template <class Call>
auto unlocked(Call&& call) {
    const Unlocked released;
    return call();
}

/// A call by which an object takes part in what the others do, as one that cannot.
template <class Object>
auto refusing(void (Object::*refuse)(const Error&)) {
    return [refuse](Object& object, const std::string& code, const std::string& message) {
        (object.*refuse)(Error(error_code_from_name(code), message));
    };
}

}  // namespace datamover::bindings
