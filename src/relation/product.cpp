// SPDX-License-Identifier: BSD-3-Clause
// The product encoding: Cartesian products of one-dimensional tables.
#include <span>
#include <utility>

#include "encodings.hpp"

namespace datamover {

namespace {

/// Calls visit for the rows of a nest that starts at `at` and has these axes, in order.
void walk_rows(std::span<const NestAxis> axes, AddressPair at, AddressPair elem_bytes,
               const RunVisitor& visit) {
    if (axes.empty()) return visit({at, 1, elem_bytes});
    const NestAxis& axis = axes.front();
    const std::span<const NestAxis> inner = axes.subspan(1);
    const auto block = [&](AddressPair start, std::int64_t n) {
        if (inner.empty()) return visit({start, n, axis.stride});
        for (std::int64_t i = 0; i < n; ++i)
            walk_rows(inner, start + i * axis.stride, elem_bytes, visit);
    };
    if (axis.table == nullptr) return block(at, axis.count);
    axis.table->for_each_block([&](std::int64_t s, std::int64_t d, std::int64_t n) {
        block(at + AddressPair{s, d} * axis.stride, n);
    });
}

/// A row may reach over all addresses, so that the place behind its last element does not fit.
bool is_product(std::int64_t value, std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    return !__builtin_mul_overflow(a, b, &product) && product == value;
}

/// Whether an axis goes on where one inside it ends.
bool continues(const NestAxis& outer, const NestAxis& inner) {
    return outer.table == nullptr && inner.table == nullptr &&
           is_product(outer.stride.source, inner.count, inner.stride.source) &&
           is_product(outer.stride.destination, inner.count, inner.stride.destination);
}

/// The run that holds all positions of a table, with its periods; nullptr where there are several.
const AxisRun* only_run(const AxisTable& table, std::int64_t& periods) {
    periods = table.runs().empty() ? 0 : table.periods();
    const std::vector<AxisRun>& runs = periods > 0 ? table.runs() : table.tail();
    if (periods > 0 && !table.tail().empty()) return nullptr;
    return runs.size() == 1 ? &runs.front() : nullptr;
}

}  // namespace

std::int64_t Product::size() const {
    std::int64_t n = 1;
    for (const ProductAxis& axis : axes) n *= axis.table ? axis.table->size() : 0;
    return n;
}

std::int64_t Nest::size() const {
    std::int64_t n = 1;
    for (const NestAxis& axis : axes) n *= axis.count;
    return n;
}

void fold_axes(std::vector<NestAxis>& axes) {
    std::erase_if(axes, [](const NestAxis& a) { return a.count == 1 && a.table == nullptr; });
    std::size_t kept = 0;
    for (const NestAxis& inner : axes) {
        if (kept > 0 && continues(axes[kept - 1], inner))
            axes[kept - 1] = {{axes[kept - 1].count * inner.count, inner.stride}};
        else
            axes[kept++] = inner;
    }
    axes.resize(kept);
}

void fold_nest(Nest& nest) {
    std::vector<NestAxis> axes;
    axes.reserve(3 * nest.axes.size());
    // The step of a single position may be any number: its product may not fit.
    const auto append = [&](std::int64_t count, AddressPair step, AddressPair stride) {
        if (count > 1) axes.push_back({{count, step * stride}});
    };
    for (const NestAxis& axis : nest.axes) {
        std::int64_t periods = 0;
        const AxisRun* run = axis.table != nullptr ? only_run(*axis.table, periods) : nullptr;
        if (run == nullptr) {
            axes.push_back(axis);
            continue;
        }
        nest.start += start_of(*run) * axis.stride;
        append(periods, period_of(*axis.table), axis.stride);
        append(run->count, step_of(*run), axis.stride);
        append(run->length, {1, 1}, axis.stride);
    }
    nest.axes = std::move(axes);
    fold_axes(nest.axes);
}

std::int64_t ProductStorage::nbytes() const {
    std::int64_t total = bytes_of(nests) + bytes_of(shape_words) + bytes_of(shape_at);
    for (const auto& table : tables) total += table->nbytes();
    return total;
}

void ProductStorage::visit(const RunVisitor& visit) const {
    for_each_nest([&](const Nest& nest) { walk_rows(nest.axes, nest.start, elem_bytes, visit); });
}

Nest ProductStorage::nest(std::size_t i) const {
    Nest nest{nests[i].start, {}};
    read_shape(nests[i].shape, nest.axes);
    return nest;
}

void ProductStorage::read_shape(std::int64_t shape, std::vector<NestAxis>& axes) const {
    const std::int64_t* word =
        &shape_words[static_cast<std::size_t>(shape_at[static_cast<std::size_t>(shape)])];
    axes.resize(static_cast<std::size_t>(*word++));
    for (NestAxis& axis : axes) {
        axis.table = *word < 0 ? tables[static_cast<std::size_t>(-1 - *word)].get() : nullptr;
        axis.count = axis.table != nullptr ? axis.table->size() : *word;
        axis.stride = {word[1], word[2]};
        word += 3;
    }
}

}  // namespace datamover
