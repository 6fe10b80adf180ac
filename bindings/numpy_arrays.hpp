// SPDX-License-Identifier: BSD-3-Clause
// Tables of numbers to NumPy without a copy, and from anything array-like.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "datamover/error.hpp"

namespace datamover::bindings {

namespace nb = nanobind;
using namespace nb::literals;

template <class T>
using NumpyArray = nb::ndarray<nb::numpy, T, nb::c_contig>;

/// A NumPy array over memory that an object keeps.
template <class T, class Keeper>
NumpyArray<T> array_over(T* data, std::initializer_list<std::size_t> shape, Keeper&& keeper) {
    using Kept = std::remove_cvref_t<Keeper>;
    auto* kept = new Kept(std::forward<Keeper>(keeper));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Kept*>(p); });
    return NumpyArray<T>(data, shape, owner);
}

/// A NumPy array of the given shape that takes over a vector.
template <class T>
NumpyArray<T> array_of(std::vector<T>&& values, std::initializer_list<std::size_t> shape) {
    T* const data = values.data();
    return array_over(data, shape, std::move(values));
}

template <class T>
NumpyArray<T> array_of(std::vector<T>&& values) {
    const std::size_t n = values.size();
    return array_of(std::move(values), {n});
}

inline NumpyArray<std::int64_t> array_of(std::span<const std::int64_t> values) {
    return array_of(std::vector<std::int64_t>(values.begin(), values.end()));
}

/// Throws wrong_type for a masked array, of which only the elements would be looked at; `name`
/// stands for it in the message.
inline void refuse_mask(nb::handle object, const std::string& name) {
    const nb::module_ numpy = nb::module_::import_("numpy");
    if (object.type().is(numpy.attr("ndarray"))) return;
    if (nb::isinstance(object, numpy.attr("ma").attr("MaskedArray")))
        throw Error(ErrorCode::wrong_type,
                    name +
                        " is a masked array, and its mask would be lost: give .filled(value), "
                        "or .data and .mask as two arrays");
}

/// Integers of any array-like object as a dense int64 array; copied only where they are not that
/// already. Keeps them alive.
class Integers {
public:
    /// Throws wrong_type when they are no integers; `what` names them in the message.
    Integers(nb::handle object, const char* what) {
        refuse_mask(object, what);
        const nb::module_ numpy = nb::module_::import_("numpy");
        nb::object array = numpy.attr("asarray")(object);
        const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
        if (nb::cast<std::int64_t>(array.attr("size")) > 0 && kind != "i" && kind != "u")
            throw Error(ErrorCode::wrong_type, std::string(what) +
                                                   " must be integers, not of dtype " +
                                                   nb::repr(array.attr("dtype")).c_str());
        require_64_bits(array, kind, what);
        array = numpy.attr("ascontiguousarray")(array, numpy.attr("int64"));
        array_ = nb::cast<Array>(array);
    }

    std::size_t ndim() const { return array_.ndim(); }
    std::size_t extent(std::size_t d) const { return array_.shape(d); }
    std::span<const std::int64_t> values() const { return {array_.data(), array_.size()}; }
    std::vector<std::int64_t> to_vector() const { return {values().begin(), values().end()}; }

private:
    using Array = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;

    /// Unsigned numbers beyond would become negative ones.
    static void require_64_bits(const nb::object& array, const std::string& kind,
                                const char* what) {
        if (kind != "u" || nb::cast<std::int64_t>(array.attr("size")) == 0) return;
        const auto largest = nb::cast<std::uint64_t>(nb::int_(array.attr("max")()));
        if (largest > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            throw Error(ErrorCode::out_of_range, std::string(what) + " hold " +
                                                     std::to_string(largest) +
                                                     ", which is beyond signed 64 bits");
    }

    Array array_;
};

}  // namespace datamover::bindings
