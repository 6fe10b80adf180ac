// SPDX-License-Identifier: BSD-3-Clause
// The product encoding: Cartesian products of one-dimensional tables.
#include "encodings.hpp"
#include "nest_folder.hpp"
#include "product_builder.hpp"

namespace datamover {

template <class Emit>
void walk_nest_from(const Nest& nest, std::size_t depth, std::int64_t source,
                    std::int64_t destination, std::int64_t source_elem,
                    std::int64_t destination_elem, Emit&& emit) {
    if (depth == nest.axes.size()) {
        emit(StridedRun{source, destination, 1, source_elem, destination_elem});
        return;
    }
    const NestAxis& axis = nest.axes[depth];
    const std::int64_t ss = axis.source_stride;
    const std::int64_t ds = axis.destination_stride;
    const bool innermost = depth + 1 == nest.axes.size();
    auto block = [&](std::int64_t s, std::int64_t d, std::int64_t n) {
        if (innermost) {
            emit(StridedRun{s, d, n, ss, ds});
            return;
        }
        for (std::int64_t i = 0; i < n; ++i)
            walk_nest_from(nest, depth + 1, s + i * ss, d + i * ds, source_elem, destination_elem,
                           emit);
    };
    if (axis.table == nullptr)
        block(source, destination, axis.count);
    else
        axis.table->for_each_block([&](std::int64_t s, std::int64_t d, std::int64_t n) {
            block(source + s * ss, destination + d * ds, n);
        });
}

/// Calls emit(const StridedRun&) for the rows of a nest, in order.
template <class Emit>
void walk_nest(const Nest& nest, std::int64_t source_elem, std::int64_t destination_elem,
               Emit&& emit) {
    walk_nest_from(nest, 0, nest.source, nest.destination, source_elem, destination_elem, emit);
}

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

namespace {

/// A row may reach over all addresses, so that the place behind its last element does not fit.
bool is_product(std::int64_t value, std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    return !__builtin_mul_overflow(a, b, &product) && product == value;
}

}  // namespace

void fold_axes(std::vector<NestAxis>& axes) {
    std::erase_if(axes, [](const NestAxis& a) { return a.count == 1 && a.table == nullptr; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const NestAxis& inner = axes[i];
        if (kept > 0) {
            NestAxis& outer = axes[kept - 1];
            if (outer.table == nullptr && inner.table == nullptr &&
                is_product(outer.source_stride, inner.count, inner.source_stride) &&
                is_product(outer.destination_stride, inner.count, inner.destination_stride)) {
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
    std::size_t total =
        nests.size() * sizeof(PlacedNest) + (shape_words.size() + shape_at.size()) * 8;
    for (const auto& table : tables) total += static_cast<std::size_t>(table->nbytes());
    return static_cast<std::int64_t>(total);
}

void ProductStorage::visit(const RunVisitor& visit) const {
    for_each_nest([&](const Nest& nest) {
        walk_nest(nest, source_elem_bytes, destination_elem_bytes, visit);
    });
}

Nest ProductStorage::nest(std::size_t i) const {
    Nest nest{nests[i].source, nests[i].destination, {}};
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
        axis.source_stride = word[1];
        axis.destination_stride = word[2];
        word += 3;
    }
}

StoragePtr encode_product(const AddressRelation::Storage& from) {
    ProductBuilder result(from.source_elem_bytes, from.destination_elem_bytes);
    auto keep = [&](const Nest& nest) {
        Nest folded = nest;
        fold_axes(folded.axes);
        result.append(folded);
    };
    NestFolder folder;
    from.visit([&](const StridedRun& run) { folder.push(run, keep); });
    folder.finish(keep);
    return result.finish();
}

}  // namespace datamover
