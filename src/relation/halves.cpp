// SPDX-License-Identifier: BSD-3-Clause
// What does either side of a message need of a relation, and what is it turned round?
#include <utility>

#include "encodings.hpp"
#include "relation_view.hpp"

namespace datamover {
namespace {

using Owners = std::vector<std::shared_ptr<const AxisTable>>;

enum class Side { source, destination };

/// A nest with one side replaced by the positions in a message, axis by axis.
void append_half(ProductStorage& result, const Nest& nest, Side kept, std::int64_t message_elem) {
    Nest half = nest;
    Owners owners;
    std::int64_t stride = message_elem;
    (kept == Side::source ? half.destination : half.source) = result.size() * message_elem;
    for (auto axis = half.axes.rbegin(); axis != half.axes.rend(); ++axis) {
        (kept == Side::source ? axis->destination_stride : axis->source_stride) = stride;
        stride *= axis->count;
        if (axis->table == nullptr) continue;
        owners.push_back(std::make_shared<AxisTable>(
            kept == Side::source ? axis->table->source_half() : axis->table->destination_half()));
        axis->table = owners.back().get();
    }
    fold_axes(half.axes);
    result.append(half, owners);
}

StoragePtr product_half(const ProductStorage& from, Side kept, std::int64_t source_elem,
                        std::int64_t destination_elem) {
    auto result = std::make_shared<ProductStorage>(source_elem, destination_elem);
    const std::int64_t message_elem = kept == Side::source ? destination_elem : source_elem;
    from.for_each_nest([&](const Nest& nest) { append_half(*result, nest, kept, message_elem); });
    return result;
}

StoragePtr half(const StoragePtr& from, Side kept, std::int64_t source_elem,
                std::int64_t destination_elem) {
    if (const auto* product = dynamic_cast<const ProductStorage*>(from.get()))
        return product_half(*product, kept, source_elem, destination_elem);
    const std::int64_t message_elem = kept == Side::source ? destination_elem : source_elem;
    const RelationView view(from->encoding(), from->size(), source_elem, destination_elem,
                            [&](const RunVisitor& visit) {
                                std::int64_t position = 0;
                                from->visit([&](StridedRun r) {
                                    (kept == Side::source ? r.destination : r.source) = position;
                                    (kept == Side::source ? r.destination_step : r.source_step) =
                                        message_elem;
                                    position += r.elems * message_elem;
                                    visit(r);
                                });
                            });
    return encode_view(from->encoding(), view);
}

void append_reversed(ProductStorage& result, const Nest& nest) {
    Nest turned = nest;
    Owners owners;
    std::swap(turned.source, turned.destination);
    for (NestAxis& axis : turned.axes) {
        std::swap(axis.source_stride, axis.destination_stride);
        if (axis.table == nullptr) continue;
        owners.push_back(std::make_shared<AxisTable>(axis.table->reversed()));
        axis.table = owners.back().get();
    }
    result.append(turned, owners);
}

}  // namespace

AddressRelation AddressRelation::source_half(std::int64_t message_elem_bytes) const {
    const std::int64_t message = message_elem_bytes > 0 ? message_elem_bytes : source_elem_bytes();
    StoragePtr made = half(storage_, Side::source, source_elem_bytes(), message);
    made->repeats = Storage::Repeats::no;
    return AddressRelation(std::move(made));
}

AddressRelation AddressRelation::destination_half(std::int64_t message_elem_bytes) const {
    const std::int64_t message =
        message_elem_bytes > 0 ? message_elem_bytes : destination_elem_bytes();
    StoragePtr made = half(storage_, Side::destination, message, destination_elem_bytes());
    made->repeats = storage_->repeats.load();
    return AddressRelation(std::move(made));
}

AddressRelation AddressRelation::reversed() const {
    if (const auto* product = dynamic_cast<const ProductStorage*>(storage_.get())) {
        auto result =
            std::make_shared<ProductStorage>(destination_elem_bytes(), source_elem_bytes());
        product->for_each_nest([&](const Nest& nest) { append_reversed(*result, nest); });
        return AddressRelation(std::move(result));
    }
    const RelationView view(encoding(), size(), destination_elem_bytes(), source_elem_bytes(),
                            [&](const RunVisitor& visit) {
                                storage_->visit([&](StridedRun r) {
                                    std::swap(r.source, r.destination);
                                    std::swap(r.source_step, r.destination_step);
                                    visit(r);
                                });
                            });
    return AddressRelation(encode_view(encoding(), view));
}

}  // namespace datamover
