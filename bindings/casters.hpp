// SPDX-License-Identifier: BSD-3-Clause
// Conversions between Python's tuples, layouts and letters and the library's types.
// Every file that binds functions with these types includes this one.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/layout.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/region.hpp"
#include "datamover/side.hpp"

namespace datamover::bindings {

/// The value of an object that is an integer; `overflow` is not 0 beyond 64 bits. None for other
/// objects, such as an array of several numbers.
inline std::optional<std::int64_t> integer_in(PyObject* object, int& overflow) noexcept {
    if (!PyIndex_Check(object)) return std::nullopt;
    const nanobind::object number = nanobind::steal(PyNumber_Index(object));
    const long long value =
        number.is_valid() ? PyLong_AsLongLongAndOverflow(number.ptr(), &overflow) : -1;
    if (!PyErr_Occurred()) return value;
    PyErr_Clear();
    return std::nullopt;
}

}  // namespace datamover::bindings

namespace nanobind::detail {

/// From an integer (one dimension) or a sequence of integers, to a tuple. None, where an argument
/// allows it, is the point of no dimensions. Too many dimensions, and numbers beyond 64 bits, are
/// errors of the library, which from_python may not throw: they are thrown when the value is taken.
template <>
struct type_caster<datamover::Point> {
    using Value = datamover::Point;
    static constexpr auto Name = io_name("int | collections.abc.Sequence[int]", "tuple[int, ...]");
    template <typename>
    using Cast = Value;
    template <typename>
    static constexpr bool can_cast() {
        return true;
    }

    bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
        count_ = 0;
        too_large_ = false;
        if (source.is_none()) return true;
        if (PyUnicode_Check(source.ptr())) return false;
        // An array of NumPy answers both questions; one of no dimensions has no length.
        const Py_ssize_t n = PySequence_Check(source.ptr()) ? PySequence_Size(source.ptr()) : -1;
        if (n < 0) {
            PyErr_Clear();
            return append(source.ptr());
        }
        for (Py_ssize_t i = 0; i < n; ++i) {
            const object item = steal(PySequence_GetItem(source.ptr(), i));
            if (!item.is_valid() || !append(item.ptr())) {
                PyErr_Clear();
                return false;
            }
        }
        return true;
    }

    explicit operator Value() {
        if (count_ > coordinates_.size())
            throw datamover::Error(datamover::ErrorCode::invalid_argument,
                                   "at most " + std::to_string(datamover::max_dims) +
                                       " dimensions are possible, not " + std::to_string(count_));
        if (too_large_)
            throw datamover::Error(datamover::ErrorCode::out_of_range,
                                   "a coordinate or extent does not fit 64 bits");
        return Value(std::span<const std::int64_t>(coordinates_).first(count_));
    }

    static handle from_cpp(const Value& p, rv_policy, cleanup_list*) noexcept {
        object result = steal(PyTuple_New(p.dims()));
        if (!result.is_valid()) return {};
        for (int d = 0; d < p.dims(); ++d)
            PyTuple_SetItem(result.ptr(), d, PyLong_FromLongLong(p[d]));
        return result.release();
    }

private:
    bool append(PyObject* item) noexcept {
        int overflow = 0;
        const auto value = datamover::bindings::integer_in(item, overflow);
        if (!value) return false;
        too_large_ = too_large_ || overflow != 0;
        if (count_ < coordinates_.size()) coordinates_[count_] = *value;
        ++count_;
        return true;
    }

    std::array<std::int64_t, datamover::max_dims> coordinates_{};
    std::size_t count_ = 0;  ///< of all that were given
    bool too_large_ = false;
};

/// A layout is in Python simply an object of its kind: BlockCyclic, FloorPlan, IndexList or
/// FlatCyclic.
template <>
struct type_caster<datamover::Layout> {
    NB_TYPE_CASTER(datamover::Layout,
                   const_name("datamover._plan.BlockCyclic | datamover._plan.FloorPlan | "
                              "datamover._plan.IndexList | datamover._plan.FlatCyclic"))

    bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
        return take<datamover::BlockCyclic>(source) || take<datamover::FloorPlan>(source) ||
               take<datamover::IndexList>(source) || take<datamover::FlatCyclic>(source);
    }

    static handle from_cpp(const datamover::Layout& layout, rv_policy,
                           cleanup_list* list) noexcept {
        if (const auto* l = layout.block_cyclic()) return given(*l, list);
        if (const auto* l = layout.floor_plan()) return given(*l, list);
        if (const auto* l = layout.index_list()) return given(*l, list);
        if (const auto* l = layout.flat_cyclic()) return given(*l, list);
        return none().release();
    }

private:
    template <class Kind>
    bool take(handle source) noexcept {
        if (!isinstance<Kind>(source)) return false;
        value = datamover::Layout(*inst_ptr<Kind>(source));
        return true;
    }
    template <class Kind>
    static handle given(const Kind& layout, cleanup_list* list) noexcept {
        return make_caster<Kind>::from_cpp(layout, rv_policy::copy, list);
    }
};

}  // namespace nanobind::detail

namespace datamover::bindings {

namespace nb = nanobind;
using namespace nb::literals;

/// One number stands for that number in each dimension.
inline Point in_all_dims(const Point& p, int dims) {
    return p.dims() == 1 && dims > 1 ? Point::filled(dims, p[0]) : p;
}

/// A step per dimension; none where every index takes part.
inline Point step_of(const Point& given, int dims) {
    const Point step = in_all_dims(given, dims);
    return step == Point::filled(step.dims(), 1) ? Point{} : step;
}

inline Side side_of(const std::string& name) {
    for (const Side side : both_sides)
        if (name == side_name(side)) return side;
    throw Error(ErrorCode::invalid_argument,
                "side is '" + name + "', it must be 'source' or 'destination'");
}

/// Axes as numpy.transpose takes them, none for all in order; negative ones count from the end.
using Axes = std::optional<std::vector<int>>;

inline std::vector<int> axes_of(const Axes& given) {
    std::vector<int> axes = given.value_or(std::vector<int>{});
    for (int& a : axes)
        if (a < 0) a += static_cast<int>(axes.size());
    return axes;
}

/// Flags per dimension, none for false in each.
using Flip = std::optional<std::vector<bool>>;

inline std::vector<bool> flip_of(const Flip& given) {
    return given.value_or(std::vector<bool>{});
}

// Element orders by NumPy's letters "C" and "F".

/// True for "F", false for "C"; throws invalid_argument, naming the argument, for other words.
inline bool column_major(const std::string& order, const char* argument) {
    if (order == "C" || order == "F") return order == "F";
    throw Error(ErrorCode::invalid_argument,
                std::string(argument) + " is '" + order + "', it must be 'C' or 'F'");
}

inline ElementOrder element_order(const std::string& order) {
    return column_major(order, "order") ? ElementOrder::column_major : ElementOrder::row_major;
}

// Errors that name the argument that has a wrong type.

/// The text for a type in Python signatures: its member `words`, or the name by nanobind's caster.
template <class Wanted>
constexpr auto words_for() {
    if constexpr (requires { Wanted::words; })
        return Wanted::words;
    else
        return nb::detail::make_caster<Wanted>::Name;
}
struct ArrayLike {
    static constexpr auto words = nb::detail::const_name("numpy.typing.ArrayLike");
};

/// An argument of any type, which signatures show as `Wanted` and the bound function converts: its
/// errors name the argument, nanobind's list the signatures. None is accepted only as a default.
template <class Wanted>
struct Given : nb::handle {
    static constexpr auto Name = words_for<Wanted>();
    using nb::handle::handle;
    using nb::handle::operator=;
};

/// An object in a line; one that is long by its type.
inline std::string shown(nb::handle object) {
    constexpr std::size_t most_shown = 80;
    const std::string text = nb::repr(object).c_str();
    if (text.size() <= most_shown && text.find('\n') == std::string::npos) return text;
    return std::string("a ") + nb::type_name(object.type()).c_str();
}

/// Throws wrong_type: "NAME is OBJECT, it must be WANTED".
[[noreturn]] inline void refuse_type(nb::handle object, const std::string& name,
                                     const std::string& wanted) {
    throw Error(ErrorCode::wrong_type, name + " is " + shown(object) + ", it must be " + wanted);
}

/// Throws wrong_type, and out_of_range beyond 64 bits.
inline std::int64_t integer_of(nb::handle object, const char* name) {
    int overflow = 0;
    const auto value = integer_in(object.ptr(), overflow);
    if (!value) refuse_type(object, name, "an integer");
    if (overflow != 0)
        throw Error(ErrorCode::out_of_range, std::string(name) + " does not fit 64 bits");
    return *value;
}

/// Throws wrong_type if it is not a string, and invalid_argument if the string is not valid text.
inline std::string text_of(nb::handle object, const char* name) {
    if (!PyUnicode_Check(object.ptr())) refuse_type(object, name, "a string");
    Py_ssize_t bytes = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &bytes);
    if (!text) {
        PyErr_Clear();  // of half a surrogate pair
        throw Error(ErrorCode::invalid_argument,
                    std::string(name) + " is " + shown(object) + ", which is not valid text");
    }
    return {text, static_cast<std::size_t>(bytes)};
}

/// Throws wrong_type, and as the caster of points does.
inline Point point_of(nb::handle object, const char* name,
                      const char* wanted = "an integer or a sequence of integers") {
    nb::detail::make_caster<Point> caster;
    if (object.is_none() || !caster.from_python(object, 0, nullptr))
        refuse_type(object, name, wanted);
    return caster.operator Point();
}

/// The same; a point of no dimensions for None.
inline Point point_or_none(nb::handle object, const char* name) {
    return object.is_none() ? Point{} : point_of(object, name);
}

/// Converts an object by nanobind, for example a list to a vector. Throws wrong_type.
template <class Value>
Value value_of(nb::handle object, const char* name, const char* wanted) {
    Value value;
    if (!nb::try_cast(object, value)) refuse_type(object, name, wanted);
    return value;
}

/// Throws wrong_type.
inline Region region_of(nb::handle object, const std::string& name) {
    if (!nb::isinstance<Region>(object)) refuse_type(object, name, "a Region");
    return nb::cast<Region>(object);
}

}  // namespace datamover::bindings
