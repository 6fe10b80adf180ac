// SPDX-License-Identifier: BSD-3-Clause
// How is a relation kept as Cartesian products of one-dimensional tables, and made one of any kind?
#include <algorithm>

#include "datamover/error.hpp"
#include "encodings.hpp"
#include "extent.hpp"
#include "nest_folder.hpp"
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

void fold_nest(Nest& nest) {
    for (NestAxis& axis : nest.axes) {
        if (axis.table == nullptr || axis.count != 1) continue;
        const AxisRun& only =
            axis.table->tail().empty() ? axis.table->runs().front() : axis.table->tail().front();
        nest.source += only.source * axis.source_stride;
        nest.destination += only.destination * axis.destination_stride;
        axis.table = nullptr;
    }
    fold_axes(nest.axes);
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
    fold_nest(nest);
    append(nest, owners);
}

std::int64_t ProductStorage::table_number(
    const AxisTable* table, const std::vector<std::shared_ptr<const AxisTable>>& owners) {
    const auto [known, fresh] =
        numbers_.try_emplace(table, static_cast<std::int64_t>(tables.size()));
    if (fresh)
        tables.push_back(*std::find_if(owners.begin(), owners.end(),
                                       [&](const auto& t) { return t.get() == table; }));
    return known->second;
}

void ProductStorage::append(const Nest& nest,
                            const std::vector<std::shared_ptr<const AxisTable>>& owners) {
    words.push_back(nest.source);
    words.push_back(nest.destination);
    words.push_back(static_cast<std::int64_t>(nest.axes.size()));
    for (const NestAxis& axis : nest.axes) {
        const std::int64_t first =
            axis.table == nullptr ? axis.count : -1 - table_number(axis.table, owners);
        words.insert(words.end(), {first, axis.source_stride, axis.destination_stride});
    }
    ++nests;
    elems += nest.size();
    if (elems > most_elems)
        throw Error(ErrorCode::out_of_range, "a relation has more than 2^59 elements");
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

StoragePtr encode_product(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<ProductStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    auto keep = [&](const Nest& nest) {
        Nest folded = nest;
        fold_axes(folded.axes);
        result->append(folded);
    };
    NestFolder folder;
    from.visit([&](const StridedRun& run) { folder.push(run, keep); });
    folder.finish(keep);
    return result;
}

}  // namespace datamover
