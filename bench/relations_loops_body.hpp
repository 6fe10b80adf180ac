// SPDX-License-Identifier: BSD-3-Clause
// Hand-written loops of a two-dimensional pattern. This file is included once per instruction set
// level, inside a namespace of that level, so it has no include guard.
// to[i * ti + j * tj] = from[i * fi + j * fj]
// Strides are in elements, and those along i are compile-time constants when the template arguments
// are not 0.

template <class T, std::int64_t FI, std::int64_t TI>
void rows(const T* __restrict from, T* __restrict to, const bench::Pattern& p) {
    const std::int64_t fi = FI ? FI : p.fi;
    const std::int64_t ti = TI ? TI : p.ti;
    for (std::int64_t j = 0; j < p.nj; ++j)
        for (std::int64_t i = 0; i < p.ni; ++i) to[i * ti + j * p.tj] = from[i * fi + j * p.fj];
}

template <class T, std::int64_t FI, std::int64_t TI>
void columns(const T* __restrict from, T* __restrict to, const bench::Pattern& p) {
    const std::int64_t fi = FI ? FI : p.fi;
    const std::int64_t ti = TI ? TI : p.ti;
    for (std::int64_t i = 0; i < p.ni; ++i)
        for (std::int64_t j = 0; j < p.nj; ++j) to[i * ti + j * p.tj] = from[i * fi + j * p.fj];
}

template <class T, std::int64_t FI, std::int64_t TI, std::int64_t edge>
void tiled(const T* __restrict from, T* __restrict to, const bench::Pattern& p) {
    const std::int64_t fi = FI ? FI : p.fi;
    const std::int64_t ti = TI ? TI : p.ti;
    for (std::int64_t jt = 0; jt < p.nj; jt += edge)
        for (std::int64_t it = 0; it < p.ni; it += edge) {
            const std::int64_t je = std::min(jt + edge, p.nj);
            const std::int64_t ie = std::min(it + edge, p.ni);
            for (std::int64_t j = jt; j < je; ++j)
                for (std::int64_t i = it; i < ie; ++i)
                    to[i * ti + j * p.tj] = from[i * fi + j * p.fj];
        }
}

template <class T, std::int64_t FI, std::int64_t TI>
void tiled_columns(const T* __restrict from, T* __restrict to, const bench::Pattern& p) {
    constexpr std::int64_t edge = 16;
    const std::int64_t fi = FI ? FI : p.fi;
    const std::int64_t ti = TI ? TI : p.ti;
    for (std::int64_t it = 0; it < p.ni; it += edge)
        for (std::int64_t jt = 0; jt < p.nj; jt += edge) {
            const std::int64_t je = std::min(jt + edge, p.nj);
            const std::int64_t ie = std::min(it + edge, p.ni);
            for (std::int64_t i = it; i < ie; ++i)
                for (std::int64_t j = jt; j < je; ++j)
                    to[i * ti + j * p.tj] = from[i * fi + j * p.fj];
        }
}

template <class T, std::int64_t FI, std::int64_t TI>
void add_of(bench::Contest& contest, const std::string& level, const T* from, T* to,
            const bench::Pattern& p) {
    auto add = [&](const char* name, auto loop) {
        contest.add("loop:" + (name + level), [=] { loop(from, to, p); });
    };
    add("rows", rows<T, FI, TI>);
    add("columns", columns<T, FI, TI>);
    add("tiled8", tiled<T, FI, TI, 8>);
    add("tiled32", tiled<T, FI, TI, 32>);
    add("tiled16-columns", tiled_columns<T, FI, TI>);
}

template <class T>
void add_loops(bench::Contest& contest, const std::string& level, const T* from, T* to,
               const bench::Pattern& p) {
    if (p.fi == 1 && p.ti == 1)
        add_of<T, 1, 1>(contest, level, from, to, p);
    else if (p.fi == 4 && p.ti == 1)
        add_of<T, 4, 1>(contest, level, from, to, p);
    else if (p.fi == 1 && p.ti == 4)
        add_of<T, 1, 4>(contest, level, from, to, p);
    else if (p.fi == 1)
        add_of<T, 1, 0>(contest, level, from, to, p);
    else if (p.fi == 4)
        add_of<T, 4, 0>(contest, level, from, to, p);
    else
        add_of<T, 0, 0>(contest, level, from, to, p);
}
