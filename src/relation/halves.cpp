// SPDX-License-Identifier: BSD-3-Clause
// Halves of a relation, one for each side of a message, reversal, and order by address.
#include <algorithm>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "encodings.hpp"
#include "extent.hpp"
#include "geometry/radix_sort.hpp"
#include "offsets.hpp"
#include "product_builder.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

using Owners = ProductBuilder::Owners;

/// The number of every shape once `change` has been applied to its axes, whose new tables it puts
/// into the owners it is given.
template <class Change>
std::vector<std::int64_t> changed_shapes(const ProductStorage& from, ProductBuilder& result,
                                         Change&& change) {
    std::vector<std::int64_t> shapes;
    std::vector<NestAxis> axes;
    for (std::int64_t shape = 0; shape < from.num_shapes(); ++shape) {
        from.read_shape(shape, axes);
        Owners owners;
        change(axes, owners);
        fold_axes(axes);
        shapes.push_back(result.shape_of(axes, owners));
    }
    return shapes;
}

/// Every nest with one side replaced by the positions in a message, axis by axis.
StoragePtr product_half(const ProductStorage& from, Side kept, const PerSide<std::int64_t>& elem) {
    ProductBuilder result(elem.source, elem.destination);
    const std::int64_t message_elem = elem[other(kept)];
    const auto shapes = changed_shapes(from, result, [&](auto& axes, Owners& owners) {
        std::int64_t stride = message_elem;
        for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
            axis->stride(other(kept)) = stride;
            stride *= axis->count;
            if (axis->table == nullptr) continue;
            owners.push_back(std::make_shared<AxisTable>(axis->table->half(kept)));
            axis->table = owners.back().get();
        }
    });
    for (const PlacedNest& nest : from.nests) {
        const std::int64_t message = result.elems() * message_elem;
        result.place(shapes[static_cast<std::size_t>(nest.shape)],
                     kept == Side::source ? nest.source : message,
                     kept == Side::source ? message : nest.destination);
    }
    return result.finish();
}

/// Offsets are taken over as they stand; nothing is decoded.
StoragePtr offsets_half(const OffsetsStorage& from, Side kept, const PerSide<std::int64_t>& elem) {
    auto result = std::make_shared<OffsetsStorage>(elem.source, elem.destination);
    result->source_unit = from.source_unit;
    result->destination_unit = from.destination_unit;
    result->elems = from.elems;
    result->chunks = from.chunks;
    std::int64_t position = 0;
    std::int64_t end = 0;
    for (OffsetChunk& chunk : result->chunks) {
        const std::int64_t message_elem = elem[other(kept)];
        chunk.side(other(kept)) = {position, message_elem, 0, 0};
        position += chunk.elems * message_elem;
        OffsetSide& own = chunk.side(kept);
        if (own.width == 0) continue;
        const auto first = from.data.begin() + own.at;
        own.at = end;
        end += chunk.elems * own.width;
        result->data.insert(result->data.end(), first, first + chunk.elems * own.width);
    }
    result->data.resize(result->data.size() + offset_padding_bytes);
    return result;
}

/// A half of another encoding, in the same encoding.
StoragePtr walked_half(const AddressRelation::Storage& from, Side kept,
                       const PerSide<std::int64_t>& elem) {
    const std::int64_t message_elem = elem[other(kept)];
    const RelationView view(from.encoding(), from.size(), elem.source, elem.destination,
                            [&](const RunVisitor& visit) {
                                std::int64_t position = 0;
                                from.visit([&](StridedRun r) {
                                    r.start(other(kept)) = position;
                                    r.step(other(kept)) = message_elem;
                                    position += r.elems * message_elem;
                                    visit(r);
                                });
                            });
    return encode_from(from.encoding(), view);
}

StoragePtr make_half(const AddressRelation::Storage& from, Side kept, std::int64_t message_elem) {
    PerSide<std::int64_t> elem{from.source_elem_bytes, from.destination_elem_bytes};
    elem[other(kept)] = message_elem;
    if (const auto* product = dynamic_cast<const ProductStorage*>(&from))
        return product_half(*product, kept, elem);
    if (const auto* offsets = dynamic_cast<const OffsetsStorage*>(&from))
        return offsets_half(*offsets, kept, elem);
    return walked_half(from, kept, elem);
}

StoragePtr product_reversed(const ProductStorage& from) {
    ProductBuilder result(from.destination_elem_bytes, from.source_elem_bytes);
    const auto shapes = changed_shapes(from, result, [](auto& axes, Owners& owners) {
        for (NestAxis& axis : axes) {
            std::swap(axis.source_stride, axis.destination_stride);
            if (axis.table == nullptr) continue;
            owners.push_back(std::make_shared<AxisTable>(axis.table->reversed()));
            axis.table = owners.back().get();
        }
    });
    for (const PlacedNest& nest : from.nests)
        result.place(shapes[static_cast<std::size_t>(nest.shape)], nest.destination, nest.source);
    return result.finish();
}

}  // namespace

AddressRelation AddressRelation::half(Side kept, std::int64_t message_elem_bytes) const {
    const std::int64_t message =
        message_elem_bytes > 0 ? message_elem_bytes : storage_->elem_bytes(kept);
    checked_message_bytes(size(), message);
    const bool is_message = storage_->elem_bytes(other(kept)) == message &&
                            contiguous(other(kept)) && bounds(other(kept)).begin_bytes == 0;
    if (is_message) return *this;
    StoragePtr made = make_half(*storage_, kept, message);
    if (kept == Side::destination) pass_on_repeats(*storage_, *made);
    return AddressRelation(std::move(made));
}

AddressRelation AddressRelation::reversed() const {
    if (const auto* product = dynamic_cast<const ProductStorage*>(storage_.get()))
        return AddressRelation(product_reversed(*product));
    const RelationView view(encoding(), size(), destination_elem_bytes(), source_elem_bytes(),
                            [&](const RunVisitor& visit) {
                                storage_->visit([&](StridedRun r) {
                                    std::swap(r.source, r.destination);
                                    std::swap(r.source_step, r.destination_step);
                                    visit(r);
                                });
                            });
    return AddressRelation(encode_from(encoding(), view));
}

// Reordering a relation by source or destination address.

namespace {

struct AddressPair {
    std::int64_t first;
    std::int64_t second;
};

StoragePtr sorted(const AddressRelation& relation, Side by) {
    PairsStorage list(relation.source_elem_bytes(), relation.destination_elem_bytes());
    relation.to_pairs(list.source, list.destination);
    const auto [keys, others] = by == Side::source ? std::tie(list.source, list.destination)
                                                   : std::tie(list.destination, list.source);
    std::vector<AddressPair> pairs(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) pairs[i] = {keys[i], others[i]};
    const auto sort_by = [&](auto key) { geometry::sort_by(std::span(pairs), key); };
    sort_by(&AddressPair::first);
    const auto tie = std::ranges::adjacent_find(pairs, {}, &AddressPair::first);
    if (tie != pairs.end()) {
        sort_by(&AddressPair::second);
        sort_by(&AddressPair::first);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
        keys[i] = pairs[i].first;
        others[i] = pairs[i].second;
    }
    return encode_best(list);
}

}  // namespace

AddressRelation AddressRelation::ordered_by_source(std::int64_t max_elems) const {
    check_expandable(max_elems);
    return empty() ? *this : AddressRelation(sorted(*this, Side::source));
}

AddressRelation AddressRelation::ordered_by_destination(std::int64_t max_elems) const {
    check_expandable(max_elems);
    return empty() ? *this : AddressRelation(sorted(*this, Side::destination));
}

}  // namespace datamover
