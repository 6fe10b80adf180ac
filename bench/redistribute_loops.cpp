// SPDX-License-Identifier: BSD-3-Clause
// Hand-written loops that copy a block-cyclic pattern between two shared arrays.
#include "redistribute_loops.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace bench {
namespace {

/// What goes from one process to another: two loops over runs within a list of outer positions.
struct Pair {
    const double* source = nullptr;
    double* destination = nullptr;
    std::vector<std::pair<std::int64_t, std::int64_t>> outer;  ///< offsets on the two sides
    PairAxis middle, inner;                                    ///< inner: the destination's fastest

    bool transposed() const { return inner.source_stride != 1; }
};

PairAxis single() {
    return {{{0, 0, 1}}, 0, 0};
}

void spread(const PairAxis& axis, Pair& pair) {
    decltype(pair.outer) wider;
    for (const auto& [s, d] : pair.outer)
        for (const Run& r : axis.runs)
            for (std::int64_t x = 0; x < r.length; ++x)
                wider.emplace_back(s + (r.source + x) * axis.source_stride,
                                   d + (r.destination + x) * axis.destination_stride);
    pair.outer = std::move(wider);
}

Pair make_pair_of(std::vector<PairAxis> axes, const double* source, double* destination) {
    Pair pair{source, destination, {{0, 0}}, single(), single()};
    pair.inner = std::move(axes.back());
    axes.pop_back();
    if (!axes.empty()) {
        pair.middle = std::move(axes.back());
        axes.pop_back();
    }
    for (const PairAxis& axis : axes) spread(axis, pair);
    return pair;
}

/// Calls visit(source, destination) for each position of the middle run.
template <class Visit>
void along(const Run& run, const PairAxis& axis, const double* s, double* d, Visit&& visit) {
    s += run.source * axis.source_stride;
    d += run.destination * axis.destination_stride;
    for (std::int64_t x = 0; x < run.length; ++x)
        visit(s + x * axis.source_stride, d + x * axis.destination_stride);
}

void copy_run(const Run& r, const double* s, double* d) {
    std::memcpy(d + r.destination, s + r.source, static_cast<std::size_t>(r.length) * 8);
}

/// Row after row of the destination.
void by_rows(const Pair& p) {
    for (const auto& [so, to] : p.outer)
        for (const Run& m : p.middle.runs)
            along(m, p.middle, p.source + so, p.destination + to, [&](const double* s, double* d) {
                for (const Run& r : p.inner.runs) copy_run(r, s, d);
            });
}

/// Block after block, each with all its rows.
void by_blocks(const Pair& p) {
    for (const auto& [so, to] : p.outer)
        for (const Run& m : p.middle.runs)
            for (const Run& r : p.inner.runs)
                along(m, p.middle, p.source + so, p.destination + to,
                      [&](const double* s, double* d) { copy_run(r, s, d); });
}

/// Rows with runs of a length that the compiler knows.
template <int length>
void by_fixed_runs(const Pair& p) {
    for (const auto& [so, to] : p.outer)
        for (const Run& m : p.middle.runs)
            along(m, p.middle, p.source + so, p.destination + to, [&](const double* s, double* d) {
                for (const Run& r : p.inner.runs)
                    for (int i = 0; i < length; ++i) d[r.destination + i] = s[r.source + i];
            });
}

/// Rows of equally spaced single elements.
void by_strides(const Pair& p) {
    const std::vector<Run>& runs = p.inner.runs;
    const auto n = static_cast<std::int64_t>(runs.size());
    const std::int64_t ss = n > 1 ? runs[1].source - runs[0].source : 1;
    const std::int64_t ds = n > 1 ? runs[1].destination - runs[0].destination : 1;
    for (const auto& [so, to] : p.outer)
        for (const Run& m : p.middle.runs)
            along(m, p.middle, p.source + so + runs[0].source,
                  p.destination + to + runs[0].destination, [&](const double* s, double* d) {
                      if (ds == 1)
                          for (std::int64_t i = 0; i < n; ++i) d[i] = s[i * ss];
                      else if (ss == 1)
                          for (std::int64_t i = 0; i < n; ++i) d[i * ds] = s[i];
                      else
                          for (std::int64_t i = 0; i < n; ++i) d[i * ds] = s[i * ss];
                  });
}

/// A transposed pair in tiles of two runs, each cut to at most `edge` positions.
template <int edge>
void by_tiles(const Pair& p) {
    const PairAxis &m = p.middle, &n = p.inner;
    for (const auto& [so, to] : p.outer)
        for (const Run& a : m.runs)
            for (const Run& b : n.runs)
                for (std::int64_t x = 0; x < a.length; x += edge)
                    for (std::int64_t y = 0; y < b.length; y += edge) {
                        const double* s = p.source + so + (a.source + x) * m.source_stride +
                                          (b.source + y) * n.source_stride;
                        double* d = p.destination + to +
                                    (a.destination + x) * m.destination_stride +
                                    (b.destination + y) * n.destination_stride;
                        const std::int64_t rows = std::min<std::int64_t>(edge, a.length - x);
                        const std::int64_t columns = std::min<std::int64_t>(edge, b.length - y);
                        for (std::int64_t i = 0; i < rows; ++i)
                            for (std::int64_t j = 0; j < columns; ++j)
                                d[i * m.destination_stride + j * n.destination_stride] =
                                    s[i * m.source_stride + j * n.source_stride];
                    }
}

/// A transposed pair, element by element in the destination's order.
void by_elements(const Pair& p) {
    for (const auto& [so, to] : p.outer)
        for (const Run& m : p.middle.runs)
            along(m, p.middle, p.source + so, p.destination + to, [&](const double* s, double* d) {
                for (const Run& r : p.inner.runs)
                    for (std::int64_t i = 0; i < r.length; ++i)
                        d[(r.destination + i) * p.inner.destination_stride] =
                            s[(r.source + i) * p.inner.source_stride];
            });
}

using Way = void (*)(const Pair&);

bool equally_spaced(const std::vector<Run>& runs) {
    for (std::size_t i = 1; i < runs.size(); ++i)
        if (runs[i].source - runs[i - 1].source != runs[1].source - runs[0].source ||
            runs[i].destination - runs[i - 1].destination !=
                runs[1].destination - runs[0].destination)
            return false;
    return true;
}

/// The loop for pairs all of whose runs have the same small length; null when they have not.
Way fixed_way(const std::vector<Pair>& pairs) {
    std::int64_t length = 0;
    bool spaced = true;
    for (const Pair& p : pairs) {
        for (const Run& r : p.inner.runs) {
            if (length != 0 && r.length != length) return nullptr;
            length = r.length;
        }
        spaced = spaced && equally_spaced(p.inner.runs);
    }
    switch (length) {
        case 1:
            return spaced ? by_strides : by_fixed_runs<1>;
        case 2:
            return by_fixed_runs<2>;
        case 3:
            return by_fixed_runs<3>;
        case 4:
            return by_fixed_runs<4>;
        case 8:
            return by_fixed_runs<8>;
        case 16:
            return by_fixed_runs<16>;
        case 32:
            return by_fixed_runs<32>;
        case 64:
            return by_fixed_runs<64>;
        default:
            return nullptr;
    }
}

std::vector<std::pair<std::string, Way>> ways_for(const std::vector<Pair>& pairs) {
    const bool transposed =
        std::any_of(pairs.begin(), pairs.end(), [](const Pair& p) { return p.transposed(); });
    if (transposed)
        return {{"elements", by_elements}, {"tiles8", by_tiles<8>}, {"tiles32", by_tiles<32>}};
    std::vector<std::pair<std::string, Way>> ways{{"rows", by_rows}, {"blocks", by_blocks}};
    if (const Way fixed = fixed_way(pairs)) ways.emplace_back("fixed", fixed);
    return ways;
}

}  // namespace

std::vector<std::pair<std::string, std::function<void()>>> hand_loops(const Case& c, int rank,
                                                                      int size,
                                                                      const SharedArrays& arrays) {
    using Pairs = std::vector<Pair>;
    auto pull = std::make_shared<Pairs>(), push = std::make_shared<Pairs>();
    Pairs all;  // what is chosen for the whole case must be the same everywhere
    for (int from = 0; from < size; ++from)
        for (int to = 0; to < size; ++to) {
            std::vector<PairAxis> axes = pair_axes(c, from, to);
            if (axes.empty()) continue;
            const std::size_t f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
            Pair pair = make_pair_of(std::move(axes), arrays.source[f], arrays.destination[t]);
            if (to == rank) pull->push_back(pair);
            if (from == rank) push->push_back(pair);
            pair.outer.clear();
            all.push_back(std::move(pair));
        }
    std::vector<std::pair<std::string, std::function<void()>>> loops;
    for (const auto& [name, way] : ways_for(all))
        for (const auto& [side, pairs] : {std::pair{"pull", pull}, std::pair{"push", push}})
            loops.emplace_back("loop:" + name + "_" + side, [pairs = pairs, way = way] {
                for (const Pair& p : *pairs) way(p);
            });
    return loops;
}

}  // namespace bench
