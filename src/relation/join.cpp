// SPDX-License-Identifier: BSD-3-Clause
// Joining a source and a destination half, or several relations, to one.
#include <algorithm>

#include "datamover/advanced/axis_table.hpp"
#include "encodings.hpp"
#include "geometry/make_error.hpp"
#include "product_builder.hpp"
#include "table_cursor.hpp"

namespace datamover {

namespace {

/// As many blocks at once as both tables allow.
std::vector<AxisRun> join_runs(const AxisTable& a, const AxisTable& b) {
    TableCursor left(a), right(b);
    std::vector<AxisRun> joined;
    while (!left.done() && !right.done()) {
        const std::int64_t length = std::min(left.left_in_block(), right.left_in_block());
        const std::int64_t count = std::min(left.pieces_of(length), right.pieces_of(length));
        const AxisRun from = left.take(length, count), to = right.take(length, count);
        joined.push_back(
            {from.source, to.destination, length, count, from.source_step, to.destination_step});
    }
    return fold_runs(std::move(joined));
}

/// The k-th source of `a` meets the k-th destination of `b`; a null pointer, for one of them,
/// stands for 0, 1, 2, ….
AxisTable join_tables(const AxisTable* a, const AxisTable* b) {
    if (b == nullptr) return a->half(Side::source);
    if (a == nullptr) return b->half(Side::destination);
    if (a->periods() == b->periods() && a->period_size() == b->period_size())
        return AxisTable(join_runs(AxisTable(a->runs()), AxisTable(b->runs())), a->periods(),
                         a->source_period(), b->destination_period(),
                         join_runs(AxisTable(a->tail()), AxisTable(b->tail())));
    return AxisTable(join_runs(*a, *b));
}

using Owners = ProductBuilder::Owners;

/// Marks the innermost `count` positions of the innermost axis as matched.
void consume(std::vector<NestAxis>& axes, std::int64_t count) {
    NestAxis& inner = axes.back();
    if (inner.count == count) return axes.pop_back();
    inner.count /= count;
    inner.stride = count * inner.stride;
}

/// Joins nests whose axes have a common refinement; false when they have none.
bool join_nests(Nest a, Nest b, ProductBuilder& result) {
    Nest joined{{a.start.source, b.start.destination}, {}};
    Owners owners;
    while (!a.axes.empty() && !b.axes.empty()) {
        const NestAxis left = a.axes.back(), right = b.axes.back();
        const std::int64_t n = std::min(left.count, right.count);
        if (left.count % n != 0 || right.count % n != 0) return false;
        NestAxis& axis = joined.axes.emplace_back();
        axis.count = n;
        axis.stride = {left.stride.source, right.stride.destination};
        if (left.table != nullptr || right.table != nullptr) {
            if (left.count != right.count) return false;
            owners.push_back(std::make_shared<AxisTable>(join_tables(left.table, right.table)));
            axis.table = owners.back().get();
        }
        consume(a.axes, n);
        consume(b.axes, n);
    }
    if (!a.axes.empty() || !b.axes.empty()) return false;
    std::ranges::reverse(joined.axes);
    fold_axes(joined.axes);
    result.append(joined, owners);
    return true;
}

/// Joins two lists of products nest by nest; nullptr when their nests do not meet.
StoragePtr join_products(const ProductStorage& a, const ProductStorage& b, AddressPair elem_bytes) {
    if (a.nests.size() != b.nests.size()) return nullptr;
    ProductBuilder result(elem_bytes);
    for (std::size_t i = 0; i < a.nests.size(); ++i) {
        Nest left = a.nest(i), right = b.nest(i);
        if (left.size() != right.size() || !join_nests(std::move(left), std::move(right), result))
            return nullptr;
    }
    return result.finish();
}

StoragePtr concatenate_products(std::span<const StoragePtr> parts, AddressPair elem_bytes) {
    ProductBuilder result(elem_bytes);
    for (const StoragePtr& part : parts) {
        const auto& product = static_cast<const ProductStorage&>(*part);
        product.for_each_nest([&](const Nest& nest) { result.append(nest, product.tables); });
    }
    return result.finish();
}

}  // namespace

AddressRelation AddressRelation::join(const AddressRelation& source_half,
                                      const AddressRelation& destination_half) {
    if (source_half.size() != destination_half.size())
        throw make_error(ErrorCode::mismatch, "the source half holds ", source_half.size(),
                         " elements, the destination half ", destination_half.size());
    const AddressRelation::Storage& from = *source_half.storage_;
    const AddressRelation::Storage& to = *destination_half.storage_;
    const AddressPair elem_bytes{from.elem_bytes.source, to.elem_bytes.destination};
    const auto* a = dynamic_cast<const ProductStorage*>(&from);
    const auto* b = dynamic_cast<const ProductStorage*>(&to);
    if (a != nullptr && b != nullptr)
        if (StoragePtr joined = join_products(*a, *b, elem_bytes))
            return AddressRelation(std::move(joined));
    const AddressLists at{addresses_of(from).source, addresses_of(to).destination};
    return AddressRelation(encode_best(list_of(at, elem_bytes)));
}

AddressRelation AddressRelation::concatenate(std::span<const AddressRelation> parts) {
    std::vector<StoragePtr> filled;
    for (const AddressRelation& part : parts)
        if (!part.empty()) filled.push_back(part.storage_);
    if (filled.empty()) return parts.empty() ? AddressRelation() : parts.front();
    const AddressPair elem_bytes = filled.front()->elem_bytes;
    if (!std::ranges::all_of(filled,
                             [&](const StoragePtr& s) { return s->elem_bytes == elem_bytes; }))
        throw Error(ErrorCode::mismatch,
                    "relations to be concatenated must have the same element sizes");
    if (filled.size() == 1) return AddressRelation(filled.front());
    if (std::ranges::all_of(filled,
                            [](const StoragePtr& s) { return s->encoding == Encoding::product; }))
        return AddressRelation(concatenate_products(filled, elem_bytes));
    RelationWalk all{elem_bytes, 0, [&](const RunVisitor& visit) {
                         for (const StoragePtr& part : filled) part->visit(visit);
                     }};
    for (const StoragePtr& part : filled) all.elems += part->elems;
    return AddressRelation(encode_best(list_of(addresses_of(all), elem_bytes)));
}

}  // namespace datamover
