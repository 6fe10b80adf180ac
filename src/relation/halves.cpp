// SPDX-License-Identifier: BSD-3-Clause
// Halves of a relation, one for each side of a message, reversal, and order by address.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "encodings.hpp"
#include "extent.hpp"
#include "geometry/radix_sort.hpp"
#include "product_builder.hpp"

namespace datamover {
namespace {

using Owners = ProductBuilder::Owners;

AddressPair exchanged(AddressPair pair) {
    return {pair.destination, pair.source};
}

/// Adds every shape with changed axes, and returns their new numbers. Calls change(stride, elements
/// of the axes inside) for each axis, innermost first, and replaces its table t by table_of(t).
template <class Change, class TableOf>
std::vector<std::int64_t> changed_shapes(const ProductStorage& from, ProductBuilder& result,
                                         Change&& change, TableOf&& table_of) {
    std::vector<std::int64_t> shapes;
    std::vector<NestAxis> axes;
    for (std::int64_t shape = 0; shape < from.num_shapes(); ++shape) {
        from.read_shape(shape, axes);
        Owners owners;
        std::int64_t inner_elems = 1;
        for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
            change(axis->stride, inner_elems);
            inner_elems *= axis->count;
            if (axis->table == nullptr) continue;
            owners.push_back(std::make_shared<AxisTable>(table_of(*axis->table)));
            axis->table = owners.back().get();
        }
        fold_axes(axes);
        shapes.push_back(result.shape_of(axes, owners));
    }
    return shapes;
}

/// Every nest with one side replaced by the positions in a message, axis by axis.
StoragePtr product_half(const ProductStorage& from, Side kept, AddressPair elem) {
    ProductBuilder result(elem);
    const std::int64_t message_elem = elem[other(kept)];
    const auto shapes = changed_shapes(
        from, result,
        [&](AddressPair& stride, std::int64_t inner_elems) {
            stride[other(kept)] = inner_elems * message_elem;
        },
        [&](const AxisTable& table) { return table.half(kept); });
    for (PlacedNest nest : from.nests) {
        nest.start[other(kept)] = result.elems() * message_elem;
        result.place(shapes[static_cast<std::size_t>(nest.shape)], nest.start);
    }
    return result.finish();
}

/// Offsets are taken over as they stand; nothing is decoded.
StoragePtr offsets_half(const OffsetsStorage& from, Side kept, AddressPair elem) {
    auto result = std::make_shared<OffsetsStorage>(elem);
    result->unit = from.unit;
    result->elems = from.elems;
    result->chunks = from.chunks;
    std::int64_t position = 0;
    for (OffsetChunk& chunk : result->chunks) {
        const std::int64_t message_elem = elem[other(kept)];
        chunk.side[other(kept)] = {position, message_elem, 0, 0};
        position += chunk.elems * message_elem;
        OffsetSide& own = chunk.side[kept];
        const auto first = from.data.begin() + own.at;
        own.at = static_cast<std::int64_t>(result->data.size());
        result->data.insert(result->data.end(), first, first + chunk.elems * own.width);
    }
    result->data.resize(result->data.size() + offset_padding_bytes);
    return result;
}

/// A half of another encoding, in the same encoding.
StoragePtr walked_half(const AddressRelation::Storage& from, Side kept, AddressPair elem) {
    const std::int64_t message_elem = elem[other(kept)];
    const auto visit_half = [&](const RunVisitor& visit) {
        std::int64_t position = 0;
        from.visit([&](StridedRun r) {
            r.start[other(kept)] = position;
            r.step[other(kept)] = message_elem;
            position += r.elems * message_elem;
            visit(r);
        });
    };
    return encode_from(from.encoding, {elem, from.elems, visit_half});
}

StoragePtr make_half(const AddressRelation::Storage& from, Side kept, std::int64_t message_elem) {
    AddressPair elem = from.elem_bytes;
    elem[other(kept)] = message_elem;
    if (const auto* product = dynamic_cast<const ProductStorage*>(&from))
        return product_half(*product, kept, elem);
    if (const auto* offsets = dynamic_cast<const OffsetsStorage*>(&from))
        return offsets_half(*offsets, kept, elem);
    return walked_half(from, kept, elem);
}

StoragePtr product_reversed(const ProductStorage& from) {
    ProductBuilder result(exchanged(from.elem_bytes));
    const auto shapes = changed_shapes(
        from, result, [](AddressPair& stride, std::int64_t) { stride = exchanged(stride); },
        [](const AxisTable& table) { return table.reversed(); });
    for (const PlacedNest& nest : from.nests)
        result.place(shapes[static_cast<std::size_t>(nest.shape)], exchanged(nest.start));
    return result.finish();
}

}  // namespace

AddressRelation AddressRelation::half(Side kept, std::int64_t message_elem_bytes) const {
    const std::int64_t message =
        message_elem_bytes > 0 ? message_elem_bytes : storage_->elem_bytes[kept];
    checked_message_bytes(size(), message);
    const bool is_message = storage_->elem_bytes[other(kept)] == message &&
                            contiguous(other(kept)) && bounds(other(kept)).begin_bytes == 0;
    if (is_message) return *this;
    StoragePtr made = make_half(*storage_, kept, message);
    if (kept == Side::destination) pass_on_repeats(*storage_, *made);
    return AddressRelation(std::move(made));
}

AddressRelation AddressRelation::reversed() const {
    if (const auto* product = dynamic_cast<const ProductStorage*>(storage_.get()))
        return AddressRelation(product_reversed(*product));
    const auto visit_reversed = [&](const RunVisitor& visit) {
        storage_->visit(
            [&](const StridedRun& r) { visit({exchanged(r.start), r.elems, exchanged(r.step)}); });
    };
    return AddressRelation(
        encode_from(encoding(), {exchanged(storage_->elem_bytes), size(), visit_reversed}));
}

// Reordering a relation by source or destination address.

namespace {

struct KeyedAddress {
    std::int64_t key;
    std::int64_t other;
};

AddressRelation ordered(const AddressRelation& relation, Side by, std::int64_t max_elems) {
    relation.check_expandable(max_elems);
    if (relation.empty()) return relation;
    const AddressRelation::Storage& storage = *RelationAccess::storage(relation);
    AddressLists at = addresses_of(storage);
    std::vector<std::int64_t>& keys = at[by];
    std::vector<std::int64_t>& others = at[other(by)];
    std::vector<KeyedAddress> pairs(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) pairs[i] = {keys[i], others[i]};
    const auto sort_by = [&](auto key) { geometry::sort_by(std::span(pairs), key); };
    sort_by(&KeyedAddress::key);
    if (std::ranges::adjacent_find(pairs, {}, &KeyedAddress::key) != pairs.end()) {
        sort_by(&KeyedAddress::other);
        sort_by(&KeyedAddress::key);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
        keys[i] = pairs[i].key;
        others[i] = pairs[i].other;
    }
    return RelationAccess::make(encode_best(list_of(at, storage.elem_bytes)));
}

}  // namespace

AddressRelation AddressRelation::ordered_by_source(std::int64_t max_elems) const {
    return ordered(*this, Side::source, max_elems);
}

AddressRelation AddressRelation::ordered_by_destination(std::int64_t max_elems) const {
    return ordered(*this, Side::destination, max_elems);
}

}  // namespace datamover
