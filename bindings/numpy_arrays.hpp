// SPDX-License-Identifier: BSD-3-Clause
// Tables of numbers to NumPy without a copy, and from anything array-like.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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
    if (object.type().is(nb::module_::import_("numpy").attr("ndarray"))) return;
    nb::module_::import_("datamover.arguments").attr("refuse_mask")(object, name);
}

/// Integers of any array-like object as a dense int64 array; copied only where they are not that
/// already. Keeps them alive.
class Integers {
public:
    /// Throws as `datamover.arguments.int64_array`; `what` names them in the message.
    Integers(nb::handle object, const char* what) {
        const nb::object numpy_array = nb::module_::import_("numpy").attr("ndarray");
        if (object.type().is(numpy_array) && nb::try_cast(object, array_, false) && ndim() > 0)
            return;
        const nb::module_ arguments = nb::module_::import_("datamover.arguments");
        array_ = nb::cast<Array>(arguments.attr("int64_array")(object, what));
    }

    std::size_t ndim() const { return array_.ndim(); }
    std::size_t extent(std::size_t d) const { return array_.shape(d); }
    std::span<const std::int64_t> values() const { return {array_.data(), array_.size()}; }
    std::vector<std::int64_t> to_vector() const { return {values().begin(), values().end()}; }

private:
    using Array = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;

    Array array_;
};

}  // namespace datamover::bindings
