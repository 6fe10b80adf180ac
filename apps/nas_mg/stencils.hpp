// SPDX-License-Identifier: BSD-3-Clause
// Stencils on a level and between two levels, shared by all versions. Source: NAS Parallel
// Benchmarks, MG: its operators of 27 points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mg {

using Index = std::array<std::int64_t, 3>;

/// A process's box of a level, at global indices from `lo` on, with one ghost on each side. Local
/// index (0, 0, 0) is its lowest point; the last dimension is contiguous.
struct Field {
    double* origin = nullptr;
    std::int64_t stride_j = 0, stride_i = 0;
    Index lo{}, extent{};

    double* row(std::int64_t i, std::int64_t j) const {
        return origin + i * stride_i + j * stride_j;
    }
};

/// Local indices from lo to hi - 1.
struct Box {
    Index lo{}, hi{};
};

inline Box whole(const Field& field) {
    return {{0, 0, 0}, field.extent};
}

template <class Visit>
void for_each_row(const Box& box, Visit&& visit) {
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i)
        for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j) visit(i, j);
}

/// The sums over the points around those of a row: four beside each, four at the edges.
class RowSums {
public:
    /// For rows at k from k0 - 1 to k1.
    RowSums(std::int64_t k0, std::int64_t k1)
        : k0_(k0 - 1),
          k1_(k1 + 1),
          beside_(static_cast<std::size_t>(k1_ - k0_)),
          edges_(beside_.size()) {}

    void add_up(const Field& f, std::int64_t i, std::int64_t j) {
        const double *const a = f.row(i - 1, j - 1), *const b = f.row(i - 1, j),
                            *const c = f.row(i - 1, j + 1), *const d = f.row(i, j - 1),
                            *const e = f.row(i, j + 1), *const g = f.row(i + 1, j - 1),
                            *const h = f.row(i + 1, j), *const l = f.row(i + 1, j + 1);
        double *const beside = beside_.data() - k0_, *const edges = edges_.data() - k0_;
        for (std::int64_t k = k0_; k < k1_; ++k) {
            beside[k] = d[k] + e[k] + b[k] + h[k];
            edges[k] = a[k] + c[k] + g[k] + l[k];
        }
    }
    const double* beside() const { return beside_.data() - k0_; }
    const double* edges() const { return edges_.data() - k0_; }

private:
    std::int64_t k0_, k1_;
    std::vector<double> beside_, edges_;
};

/// Weights of a point and of its neighbours by faces and by edges; corners have none.
using Smoother = std::array<double, 3>;

/// u += C r within a box. Source: `psinv`.
inline void smooth(const Field& u, const Field& r, const Smoother& c, const Box& box) {
    RowSums sums(box.lo[2], box.hi[2]);
    for_each_row(box, [&](std::int64_t i, std::int64_t j) {
        sums.add_up(r, i, j);
        const double *const in = r.row(i, j), *const beside = sums.beside(),
                            *const edges = sums.edges();
        double* const out = u.row(i, j);
        for (std::int64_t k = box.lo[2]; k < box.hi[2]; ++k)
            out[k] += c[0] * in[k] + c[1] * (in[k - 1] + in[k + 1] + beside[k]) +
                      c[2] * (edges[k] + beside[k - 1] + beside[k + 1]);
    });
}

/// r = v - A u within a box; r may be v. Source: `resid`.
inline void residual(const Field& r, const Field& u, const Field& v, const Box& box) {
    RowSums sums(box.lo[2], box.hi[2]);
    for_each_row(box, [&](std::int64_t i, std::int64_t j) {
        sums.add_up(u, i, j);
        const double *const in = u.row(i, j), *const right = v.row(i, j),
                            *const beside = sums.beside(), *const edges = sums.edges();
        double* const out = r.row(i, j);
        for (std::int64_t k = box.lo[2]; k < box.hi[2]; ++k)
            out[k] = right[k] + 8.0 / 3 * in[k] -
                     1.0 / 6 * (edges[k] + beside[k - 1] + beside[k + 1]) -
                     1.0 / 12 * (edges[k - 1] + edges[k + 1]);
    });
}

/// From the fine level to a box of the coarse one. Source: `rprj3`.
inline void restrict_to(const Field& coarse, const Field& fine, const Box& box) {
    RowSums sums(2 * box.lo[2] + 1, 2 * box.hi[2]);
    for_each_row(box, [&](std::int64_t i, std::int64_t j) {
        sums.add_up(fine, 2 * i + 1, 2 * j + 1);
        const double *const in = fine.row(2 * i + 1, 2 * j + 1), *const beside = sums.beside(),
                            *const edges = sums.edges();
        double* const out = coarse.row(i, j);
        for (std::int64_t k = box.lo[2]; k < box.hi[2]; ++k) {
            const std::int64_t f = 2 * k + 1;
            out[k] = 0.5 * in[f] + 0.25 * (in[f - 1] + in[f + 1] + beside[f]) +
                     0.125 * (beside[f - 1] + beside[f + 1] + edges[f]) +
                     0.0625 * (edges[f - 1] + edges[f + 1]);
        }
    });
}

/// Adds a sum of coarse values, weighted: to the fine points upon them, and half to those between.
inline void add_spread(double* fine, const double* coarse, std::int64_t extent, double weight) {
    for (std::int64_t k = -1; k < extent; ++k) {
        fine[2 * k + 1] += weight * coarse[k];
        fine[2 * k + 2] += 0.5 * weight * (coarse[k] + coarse[k + 1]);
    }
}

/// Adds the trilinear interpolation of the coarse level, ghosts included. Source: `interp`.
inline void interpolate(const Field& fine, const Field& coarse) {
    const std::int64_t extent = coarse.extent[2];
    std::vector<double> memory(static_cast<std::size_t>(3 * (extent + 2)));
    double* const along_j = memory.data() + 1;
    double *const along_i = along_j + extent + 2, *const both = along_i + extent + 2;
    const Box cells{{-1, -1, 0}, {coarse.extent[0], coarse.extent[1], 1}};
    for_each_row(cells, [&](std::int64_t i, std::int64_t j) {
        const double *const a = coarse.row(i, j), *const b = coarse.row(i, j + 1),
                            *const c = coarse.row(i + 1, j), *const d = coarse.row(i + 1, j + 1);
        for (std::int64_t k = -1; k <= extent; ++k) {
            along_j[k] = b[k] + a[k];
            along_i[k] = c[k] + a[k];
            both[k] = d[k] + c[k] + along_j[k];
        }
        add_spread(fine.row(2 * i + 1, 2 * j + 1), a, extent, 1);
        add_spread(fine.row(2 * i + 1, 2 * j + 2), along_j, extent, 0.5);
        add_spread(fine.row(2 * i + 2, 2 * j + 1), along_i, extent, 0.5);
        add_spread(fine.row(2 * i + 2, 2 * j + 2), both, extent, 0.25);
    });
}

/// Sets a box and its ghosts to 0.
inline void clear(const Field& f) {
    const Box all{{-1, -1, 0}, {f.extent[0] + 1, f.extent[1] + 1, 1}};
    for_each_row(all, [&](std::int64_t i, std::int64_t j) {
        double* const row = f.row(i, j);
        for (std::int64_t k = -1; k <= f.extent[2]; ++k) row[k] = 0;
    });
}

inline double sum_of_squares(const Field& f) {
    double sum = 0;
    for_each_row(whole(f), [&](std::int64_t i, std::int64_t j) {
        const double* const row = f.row(i, j);
        for (std::int64_t k = 0; k < f.extent[2]; ++k) sum += row[k] * row[k];
    });
    return sum;
}

}  // namespace mg
