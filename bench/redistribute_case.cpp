// SPDX-License-Identifier: BSD-3-Clause
// Cases of block-cyclic redistribution, computed in the simplest way: block by block.
#include "redistribute_case.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <stdexcept>

namespace bench {
namespace {

constexpr double untouched = -1;

std::int64_t product(const Extents& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{1}, std::multiplies<>());
}

/// Global index of each local position along a dimension.
Extents global_indices(const Side& side, int d, std::int64_t coordinate) {
    Extents indices;
    for (std::int64_t i = 0; i < side.shape[Side::at(d)]; ++i)
        if (side.owner(d, i) == coordinate) indices.push_back(i);
    return indices;
}

/// For every local position of every dimension a term; the sum of an element's terms is its value.
/// A negative term means that the element is not in the section.
using Terms = std::vector<Extents>;

/// Calls visit(row, fixed, terms) for the rows along dimension `fast`, where `fixed` is the sum of
/// the other dimensions' terms, or -1.
template <class Visit>
void for_each_row(const Case& c, const Terms& terms, Visit&& visit) {
    const int dims = static_cast<int>(terms.size());
    const int fast = c.column_major ? 0 : dims - 1;
    Extents shape;
    for (const Extents& t : terms) shape.push_back(static_cast<std::int64_t>(t.size()));
    const std::int64_t rows =
        shape[Side::at(fast)] == 0 ? 0 : product(shape) / shape[Side::at(fast)];
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t rest = row, fixed = 0;
        for (int step = 1; step < dims; ++step) {
            const std::size_t d = Side::at(c.column_major ? step : dims - 1 - step);
            const std::int64_t term = terms[d][Side::at(static_cast<int>(rest % shape[d]))];
            rest /= shape[d];
            fixed = term < 0 || fixed < 0 ? -1 : fixed + term;
        }
        visit(row * shape[Side::at(fast)], fixed, terms[Side::at(fast)]);
    }
}

/// Steps of the global index that is an element's value.
Extents value_steps(const Case& c) {
    Extents steps(c.source.shape.size(), 1);
    for (int d = c.source.dims() - 2; d >= 0; --d)
        steps[Side::at(d)] = steps[Side::at(d + 1)] * c.source.shape[Side::at(d + 1)];
    return steps;
}

Terms destination_terms(const Case& c, const Extents& coordinates) {
    const Extents steps = value_steps(c);
    Terms terms;
    for (int k = 0; k < c.destination.dims(); ++k) {
        const std::size_t a = Side::at(c.axes[Side::at(k)]);
        Extents& t = terms.emplace_back();
        for (const std::int64_t j : global_indices(c.destination, k, coordinates[Side::at(k)])) {
            const std::int64_t offset = j - c.destination.section_begin[Side::at(k)];
            const bool inside = offset >= 0 && offset < c.extent[a];
            t.push_back(inside ? (c.source.section_begin[a] + offset) * steps[a] : -1);
        }
    }
    return terms;
}

Extents read_numbers(std::istream& in, int count) {
    Extents numbers(Side::at(count));
    for (std::int64_t& n : numbers) in >> n;
    return numbers;
}

Side read_side(std::istream& in, int dims) {
    Side side;
    side.shape = read_numbers(in, dims);
    side.block = read_numbers(in, dims);
    side.grid = read_numbers(in, dims);
    side.first_process = read_numbers(in, dims);
    side.section_begin = read_numbers(in, dims);
    return side;
}

}  // namespace

std::int64_t Side::processes() const {
    return product(grid);
}

Extents Side::coordinates(int rank) const {
    if (rank >= processes()) return {};
    Extents c(shape.size());
    std::int64_t rest = rank;
    for (int d = dims() - 1; d >= 0; --d) {
        c[at(d)] = rest % grid[at(d)];
        rest /= grid[at(d)];
    }
    return c;
}

std::int64_t Side::local_extent(int d, std::int64_t coordinate) const {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < shape[at(d)]; i += block[at(d)])
        if (owner(d, i) == coordinate) n += std::min(block[at(d)], shape[at(d)] - i);
    return n;
}

Extents Side::local_shape(int rank) const {
    const Extents c = coordinates(rank);
    if (c.empty()) return Extents(shape.size(), 0);
    Extents local;
    for (int d = 0; d < dims(); ++d) local.push_back(local_extent(d, c[at(d)]));
    return local;
}

std::int64_t Side::local_elems(int rank) const {
    return product(local_shape(rank));
}

std::int64_t Case::bytes() const {
    return product(extent) * 8;
}

Extents Case::strides(const Extents& local_shape) const {
    const int dims = static_cast<int>(local_shape.size());
    Extents steps(local_shape.size(), 1);
    for (int step = 1; step < dims; ++step) {
        const int d = column_major ? step : dims - 1 - step;
        const int inner = column_major ? d - 1 : d + 1;
        steps[Side::at(d)] = steps[Side::at(inner)] * local_shape[Side::at(inner)];
    }
    return steps;
}

std::optional<Case> read_case(std::istream& in) {
    Case c;
    std::string order;
    int dims = 0;
    if (!(in >> c.name >> order >> dims)) return {};
    c.column_major = order == "F";
    c.source = read_side(in, dims);
    c.destination = read_side(in, dims);
    c.extent = read_numbers(in, dims);
    for (const std::int64_t a : read_numbers(in, dims)) c.axes.push_back(static_cast<int>(a));
    if (!in) throw std::runtime_error("case " + c.name + " is cut off");
    return c;
}

std::vector<Case> read_cases(const std::string& path) {
    std::ifstream in(path);
    std::vector<Case> cases;
    while (auto c = read_case(in)) cases.push_back(*std::move(c));
    if (cases.empty()) throw std::runtime_error("there are no cases in " + path);
    return cases;
}

std::vector<Run> common_runs(const Case& c, int k, std::int64_t source_coordinate,
                             std::int64_t destination_coordinate) {
    const int a = c.axes[Side::at(k)];
    const std::int64_t s0 = c.source.section_begin[Side::at(a)];
    const std::int64_t d0 = c.destination.section_begin[Side::at(k)];
    const std::int64_t sb = c.source.block[Side::at(a)], db = c.destination.block[Side::at(k)];
    const std::int64_t n = c.extent[Side::at(a)];
    std::vector<Run> runs;
    for (std::int64_t t = 0, step = 0; t < n; t += step) {
        step = std::min({n - t, sb - (s0 + t) % sb, db - (d0 + t) % db});
        if (c.source.owner(a, s0 + t) != source_coordinate ||
            c.destination.owner(k, d0 + t) != destination_coordinate)
            continue;
        const Run run{c.source.local(a, s0 + t), c.destination.local(k, d0 + t), step};
        Run* last = runs.empty() ? nullptr : &runs.back();
        if (last && last->source + last->length == run.source &&
            last->destination + last->length == run.destination)
            last->length += step;
        else
            runs.push_back(run);
    }
    return runs;
}

std::int64_t PairAxis::size() const {
    std::int64_t n = 0;
    for (const Run& r : runs) n += r.length;
    return n;
}

std::vector<PairAxis> pair_axes(const Case& c, int from, int to) {
    const Extents s = c.source.coordinates(from), d = c.destination.coordinates(to);
    if (s.empty() || d.empty()) return {};
    const Extents source_strides = c.strides(c.source.local_shape(from));
    const Extents destination_strides = c.strides(c.destination.local_shape(to));
    std::vector<PairAxis> axes;
    for (int k = 0; k < c.destination.dims(); ++k) {
        const int a = c.axes[Side::at(k)];
        axes.push_back({common_runs(c, k, s[Side::at(a)], d[Side::at(k)]),
                        source_strides[Side::at(a)], destination_strides[Side::at(k)]});
        if (axes.back().runs.empty()) return {};
    }
    if (c.column_major) std::reverse(axes.begin(), axes.end());
    return axes;
}

void fill_source(const Case& c, int rank, double* local) {
    const Extents coordinates = c.source.coordinates(rank);
    if (coordinates.empty()) return;
    const Extents steps = value_steps(c);
    Terms terms;
    for (int d = 0; d < c.source.dims(); ++d) {
        terms.push_back(global_indices(c.source, d, coordinates[Side::at(d)]));
        for (std::int64_t& t : terms.back()) t *= steps[Side::at(d)];
    }
    for_each_row(c, terms, [&](std::int64_t begin, std::int64_t fixed, const Extents& row) {
        for (std::size_t i = 0; i < row.size(); ++i)
            local[static_cast<std::size_t>(begin) + i] = static_cast<double>(fixed + row[i]);
    });
}

void clear_destination(const Case& c, int rank, double* local) {
    std::fill_n(local, c.destination.local_elems(rank), untouched);
}

bool destination_right(const Case& c, int rank, const double* local) {
    const Extents coordinates = c.destination.coordinates(rank);
    if (coordinates.empty()) return true;
    bool right = true;
    const Terms terms = destination_terms(c, coordinates);
    for_each_row(c, terms, [&](std::int64_t begin, std::int64_t fixed, const Extents& row) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const bool moved = fixed >= 0 && row[i] >= 0;
            const double expected = moved ? static_cast<double>(fixed + row[i]) : untouched;
            right = right && local[static_cast<std::size_t>(begin) + i] == expected;
        }
    });
    return right;
}

}  // namespace bench
