// SPDX-License-Identifier: BSD-3-Clause
// Stencil: updates the points of one color from their six neighbors. All versions share it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace redblack {

using Index = std::array<std::int64_t, 3>;

/// One process's box of the grid, row-major, with a layer of ghosts where `u` needs them.
struct Field {
    double* origin = nullptr;  ///< the point with local index (0, 0, 0)
    std::int64_t stride_i = 0, stride_j = 0;
    Index lo{}, extent{};  ///< the box, in the whole grid

    double* row(std::int64_t i, std::int64_t j) const {
        return origin + i * stride_i + j * stride_j;
    }
};

/// Points lo to hi - 1, in local indices.
struct Box {
    Index lo{}, hi{};
};

inline Box whole(const Field& field) {
    return {{0, 0, 0}, field.extent};
}

/// Gives the points of `box` with (i + j + k) % 2 == color new values. Source: the Gauss-Seidel
/// step of the Poisson equation; `f` is the right side times the square of the mesh width.
inline void sweep(const Field& u, const Field& f, const Box& box, int color) {
    const std::int64_t first_point = u.lo[0] + u.lo[1] + u.lo[2] + color;
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i)
        for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j) {
            double* const p = u.row(i, j);
            const double* const right = f.row(i, j);
            const std::int64_t begin = box.lo[2] + ((first_point + i + j + box.lo[2]) & 1);
            for (std::int64_t k = begin; k < box.hi[2]; k += 2)
                p[k] = (p[k - u.stride_i] + p[k + u.stride_i] + p[k - u.stride_j] +
                        p[k + u.stride_j] + p[k - 1] + p[k + 1] - right[k]) *
                       (1.0 / 6);
        }
}

/// A number in [-1, 1) that tells a point from others; `kind` tells the uses of it apart.
inline double noise(std::int64_t i, std::int64_t j, std::int64_t k, std::uint64_t kind) {
    std::uint64_t x = (static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u) ^
                      (static_cast<std::uint64_t>(j) * 0xc2b2ae3d27d4eb4fu) ^
                      (static_cast<std::uint64_t>(k) * 0x165667b19e3779f9u) ^ kind;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 32)) * 0x94d049bb133111ebu;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1;
}

/// The beginning: values and right sides inside, fixed values around a grid of n³ points, and in
/// ghosts that a neighbour has to fill what would spoil every result.
inline void fill(const Field& u, const Field& f, std::int64_t n) {
    const auto inside = [](std::int64_t x, std::int64_t size) { return x >= 0 && x < size; };
    for (std::int64_t i = -1; i <= u.extent[0]; ++i)
        for (std::int64_t j = -1; j <= u.extent[1]; ++j)
            for (std::int64_t k = -1; k <= u.extent[2]; ++k) {
                const std::int64_t a = i + u.lo[0], b = j + u.lo[1], c = k + u.lo[2];
                const bool mine =
                    inside(i, u.extent[0]) && inside(j, u.extent[1]) && inside(k, u.extent[2]);
                const bool in_grid = inside(a, n) && inside(b, n) && inside(c, n);
                u.row(i, j)[k] =
                    mine || !in_grid ? noise(a, b, c, 1) : std::numeric_limits<double>::quiet_NaN();
                if (mine) f.row(i, j)[k] = noise(a, b, c, 2) * 0.01;
            }
}

}  // namespace redblack
