// SPDX-License-Identifier: BSD-3-Clause
// How is a relation kept as Cartesian products of one-dimensional tables?
#include <algorithm>

#include "encodings.hpp"
#include "nest_walk.hpp"

namespace datamover {
namespace {

bool is_plain(const AxisTable& table) {
    return table.tail().empty() && table.runs().size() == 1;
}

/// Adds the up to three plain axes of a table with one run: periods, blocks, positions.
void append_plain(Nest& nest, const ProductAxis& axis) {
    const AxisTable& t = *axis.table;
    const AxisRun& r = t.runs().front();
    const std::int64_t ss = axis.source_stride_bytes;
    const std::int64_t ds = axis.destination_stride_bytes;
    nest.source += r.source * ss;
    nest.destination += r.destination * ds;
    nest.axes.push_back(
        {t.periods(), t.source_period() * ss, t.destination_period() * ds, nullptr});
    nest.axes.push_back({r.count, r.source_step * ss, r.destination_step * ds, nullptr});
    nest.axes.push_back({r.length, ss, ds, nullptr});
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
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const NestAxis& inner = axes[i];
        if (kept > 0) {
            NestAxis& outer = axes[kept - 1];
            if (outer.table == nullptr && inner.table == nullptr &&
                outer.source_stride == inner.count * inner.source_stride &&
                outer.destination_stride == inner.count * inner.destination_stride) {
                outer = {outer.count * inner.count, inner.source_stride, inner.destination_stride,
                         nullptr};
                continue;
            }
        }
        axes[kept++] = axes[i];
    }
    axes.resize(kept);
}

std::int64_t ProductStorage::nbytes() const {
    std::int64_t total = static_cast<std::int64_t>(words.size()) * 8;
    for (const auto& table : tables) total += table->nbytes();
    return total;
}

void ProductStorage::visit(const RunVisitor& visit) const {
    for_each_nest([&](const Nest& nest) {
        walk_nest(nest, source_elem_bytes, destination_elem_bytes, visit);
    });
}

void ProductStorage::append(const Product& product) {
    if (product.size() == 0) return;
    Nest nest{product.source_offset_bytes, product.destination_offset_bytes, {}};
    std::vector<std::shared_ptr<const AxisTable>> owners;
    for (const ProductAxis& axis : product.axes) {
        if (is_plain(*axis.table)) {
            append_plain(nest, axis);
            continue;
        }
        nest.axes.push_back({axis.table->size(), axis.source_stride_bytes,
                             axis.destination_stride_bytes, axis.table.get()});
        owners.push_back(axis.table);
    }
    fold_axes(nest.axes);
    append(nest, owners);
}

void ProductStorage::append(const Nest& nest,
                            const std::vector<std::shared_ptr<const AxisTable>>& owners) {
    words.push_back(nest.source);
    words.push_back(nest.destination);
    words.push_back(static_cast<std::int64_t>(nest.axes.size()));
    for (const NestAxis& axis : nest.axes) {
        std::int64_t first = axis.count;
        if (axis.table != nullptr) {
            auto same = [&](const auto& t) { return t.get() == axis.table; };
            auto known = std::find_if(tables.begin(), tables.end(), same);
            if (known == tables.end()) {
                tables.push_back(*std::find_if(owners.begin(), owners.end(), same));
                known = tables.end() - 1;
            }
            first = -1 - (known - tables.begin());
        }
        words.insert(words.end(), {first, axis.source_stride, axis.destination_stride});
    }
    ++nests;
    elems += nest.size();
}

std::size_t ProductStorage::read_nest(std::size_t at, Nest& nest) const {
    nest.source = words[at];
    nest.destination = words[at + 1];
    nest.axes.resize(static_cast<std::size_t>(words[at + 2]));
    at += 3;
    for (NestAxis& axis : nest.axes) {
        const std::int64_t first = words[at];
        axis.table = first < 0 ? tables[static_cast<std::size_t>(-1 - first)].get() : nullptr;
        axis.count = axis.table != nullptr ? axis.table->size() : first;
        axis.source_stride = words[at + 1];
        axis.destination_stride = words[at + 2];
        at += 3;
    }
    return at;
}

}  // namespace datamover
