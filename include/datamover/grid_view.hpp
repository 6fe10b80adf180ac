// SPDX-License-Identifier: BSD-3-Clause
// Access to the elements of a local block by global index.
#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <version>

#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif

#include "datamover/export.h"
#include "datamover/region.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// A view of a block's elements by local index, in any memory order: (0, …, 0) is the first element
/// that the block owns, with ghosts around. Small; the memory must outlive it. Every function is
/// local. Indices are checked only by assert.
template <class T>
class GridView {
public:
    GridView() = default;
    /// Make a view. `origin` is the element with local index 0, `shape` that of the block without
    /// ghosts, `valid` the legal indices with ghosts; `strides` are in elements.
    GridView(T* origin, const Point& shape, const Point& strides, const Region& valid)
        : origin_(origin), shape_(shape), strides_(strides), valid_(valid) {}
    /// Make a read-only view.
    template <class U>
        requires std::same_as<T, const U>
    GridView(const GridView<U>& other)
        : GridView(other.data(), other.shape(), other.strides(), other.valid()) {}

    int dims() const { return shape_.dims(); }
    /// Return the element with local index 0; with ghosts, it is not the lowest address.
    T* data() const { return origin_; }
    const Point& shape() const { return shape_; }
    std::int64_t extent(int d) const { return shape_[d]; }
    const Point& strides() const { return strides_; }
    std::int64_t stride(int d) const { return strides_[d]; }
    const Region& valid() const { return valid_; }

    /// Return the element at a local index, one number per dimension. O(dimensions).
    template <std::integral... Index>
    T& operator()(Index... index) const {
        assert(sizeof...(Index) == static_cast<std::size_t>(dims()));
        std::int64_t at = 0;
        int d = 0;
        ((at += static_cast<std::int64_t>(index) * strides_[d++]), ...);
        return origin_[at];
    }
    T& operator[](const Point& index) const {
        assert(valid_.contains(index));
        std::int64_t at = 0;
        for (int d = 0; d < dims(); ++d) at += index[d] * strides_[d];
        return origin_[at];
    }

#ifdef __cpp_lib_mdspan
    /// The same block without its ghosts, if the standard library has std::mdspan.
    template <std::size_t Rank>
    using Span = std::mdspan<T, std::dextents<std::int64_t, Rank>, std::layout_stride>;
    /// Precondition: the block has these extents, of which any may be dynamic.
    template <std::size_t... Extents>
    operator std::mdspan<T, std::extents<std::int64_t, Extents...>, std::layout_stride>() const {
        assert(sizeof...(Extents) == static_cast<std::size_t>(dims()));
        std::array<std::int64_t, sizeof...(Extents)> extents{}, strides{};
        for (std::size_t d = 0; d < extents.size(); ++d) {
            extents[d] = shape_[static_cast<int>(d)];
            strides[d] = strides_[static_cast<int>(d)];
        }
        return {origin_, {std::extents<std::int64_t, Extents...>(extents), strides}};
    }
#endif

private:
    T* origin_ = nullptr;
    Point shape_, strides_;
    Region valid_;
};

}  // namespace datamover
