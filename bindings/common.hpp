// SPDX-License-Identifier: BSD-3-Clause
// What all files of both modules include: conversions must be the same wherever a type is bound.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "array_memory.hpp"
#include "casters.hpp"
#include "errors.hpp"
#include "geometry/make_error.hpp"
#include "numpy_arrays.hpp"

namespace datamover::bindings {

/// Binds the types and functions of one subject.
using Binding = void(nb::module_&);

/// Python's str.format: a text with parts of any type that Python knows.
template <class... Part>
nb::str formatted(const char* text, const Part&... parts) {
    return nb::str(nb::str(text).attr("format")(parts...));
}

/// The dict of names and values, as dict_of("rounds"_a = 3).
template <class... Entry>
nb::dict dict_of(const Entry&... entries) {
    nb::dict d;
    ((d[entries.name_] = entries.value), ...);
    return d;
}

}  // namespace datamover::bindings
