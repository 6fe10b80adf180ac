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

/// The positions 0, 1, 2, … with the periods of another table.
AxisTable counting_like(const AxisTable& t) {
    const std::int64_t period = t.period_size();
    const std::int64_t rest = t.size() - period * t.periods();
    std::vector<AxisRun> tail;
    if (rest > 0) tail.push_back({period * t.periods(), period * t.periods(), rest, 1, 0, 0});
    std::vector<AxisRun> runs;
    if (period > 0) runs.push_back({0, 0, period, 1, 0, 0});
    return AxisTable(runs, t.periods(), period, period, tail);
}

/// The k-th source of `a` meets the k-th destination of `b`; a null pointer stands for 0, 1, 2, …
/// up to `size`.
AxisTable join_tables(const AxisTable* a, const AxisTable* b, std::int64_t size) {
    if (a == nullptr && b == nullptr) return AxisTable::interval(0, 0, size);
    const AxisTable left = a != nullptr ? *a : counting_like(*b);
    const AxisTable right = b != nullptr ? *b : counting_like(*a);
    if (left.periods() == right.periods() && left.period_size() == right.period_size())
        return AxisTable(join_runs(AxisTable(left.runs()), AxisTable(right.runs())), left.periods(),
                         left.source_period(), right.destination_period(),
                         join_runs(AxisTable(left.tail()), AxisTable(right.tail())));
    return AxisTable(join_runs(left, right));
}

using Owners = ProductBuilder::Owners;

/// What is left to be matched of a nest's innermost axis, in counting order of the message.
class AxisCursor {
public:
    explicit AxisCursor(const Nest& nest) : left_(nest.axes) {}
    bool done() const { return left_.empty(); }
    NestAxis& inner() { return left_.back(); }
    /// Marks the innermost `count` positions of a plain axis as matched.
    void consume(std::int64_t count) {
        NestAxis& axis = left_.back();
        if (axis.count == count) {
            left_.pop_back();
            return;
        }
        axis.count /= count;
        axis.source_stride *= count;
        axis.destination_stride *= count;
    }

private:
    std::vector<NestAxis> left_;
};

/// Joins nests whose axes have a common refinement; false when they have none.
bool join_nests(const Nest& a, const Nest& b, ProductBuilder& result) {
    Nest joined{a.source, b.destination, {}};
    Owners owners;
    AxisCursor left(a);
    AxisCursor right(b);
    while (!left.done() && !right.done()) {
        const NestAxis la = left.inner();
        const NestAxis rb = right.inner();
        if (la.table != nullptr || rb.table != nullptr) {
            if (la.count != rb.count) return false;
            owners.push_back(
                std::make_shared<AxisTable>(join_tables(la.table, rb.table, la.count)));
            joined.axes.push_back(
                {la.count, la.source_stride, rb.destination_stride, owners.back().get()});
            left.consume(la.count);
            right.consume(rb.count);
            continue;
        }
        const std::int64_t n = std::min(la.count, rb.count);
        if (la.count % n != 0 || rb.count % n != 0) return false;
        joined.axes.push_back({n, la.source_stride, rb.destination_stride, nullptr});
        left.consume(n);
        right.consume(n);
    }
    if (!left.done() || !right.done()) return false;
    joined.axes = {joined.axes.rbegin(), joined.axes.rend()};
    fold_axes(joined.axes);
    result.append(joined, owners);
    return true;
}

/// Joins two lists of products nest by nest; nullptr when their nests do not meet.
StoragePtr join_products(const ProductStorage& a, const ProductStorage& b) {
    if (a.nests.size() != b.nests.size()) return nullptr;
    ProductBuilder result(a.source_elem_bytes, b.destination_elem_bytes);
    for (std::size_t i = 0; i < a.nests.size(); ++i) {
        const Nest left = a.nest(i), right = b.nest(i);
        if (left.size() != right.size() || !join_nests(left, right, result)) return nullptr;
    }
    return result.finish();
}

StoragePtr join_pairs(const AddressRelation& a, const AddressRelation& b) {
    PairsStorage pairs(a.source_elem_bytes(), b.destination_elem_bytes());
    std::vector<std::int64_t> message;
    a.to_pairs(pairs.source, message);
    b.to_pairs(message, pairs.destination);
    return encode_best(pairs);
}

bool all_products(std::span<const AddressRelation> parts) {
    for (const AddressRelation& part : parts)
        if (part.encoding() != Encoding::product) return false;
    return true;
}

StoragePtr concatenate_products(std::span<const AddressRelation> parts, std::int64_t source_elem,
                                std::int64_t destination_elem) {
    ProductBuilder result(source_elem, destination_elem);
    for (const AddressRelation& part : parts) {
        const auto& product = static_cast<const ProductStorage&>(*RelationAccess::storage(part));
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
    const auto* a = dynamic_cast<const ProductStorage*>(source_half.storage_.get());
    const auto* b = dynamic_cast<const ProductStorage*>(destination_half.storage_.get());
    StoragePtr joined = a != nullptr && b != nullptr ? join_products(*a, *b) : nullptr;
    if (joined == nullptr) joined = join_pairs(source_half, destination_half);
    return AddressRelation(std::move(joined));
}

AddressRelation AddressRelation::concatenate(std::span<const AddressRelation> parts) {
    std::vector<AddressRelation> filled;
    for (const AddressRelation& part : parts)
        if (!part.empty()) filled.push_back(part);
    if (filled.empty()) return parts.empty() ? AddressRelation() : parts.front();
    std::int64_t size = 0;
    const std::int64_t source_elem = filled.front().source_elem_bytes();
    const std::int64_t destination_elem = filled.front().destination_elem_bytes();
    for (const AddressRelation& part : filled) {
        size += part.size();
        if (part.source_elem_bytes() == source_elem &&
            part.destination_elem_bytes() == destination_elem)
            continue;
        throw Error(ErrorCode::mismatch,
                    "relations to be concatenated must have the same element sizes");
    }
    if (filled.size() == 1) return filled.front();
    if (all_products(filled))
        return AddressRelation(concatenate_products(filled, source_elem, destination_elem));
    const RelationView view(Encoding::pairs, size, source_elem, destination_elem,
                            [&](const RunVisitor& visit) {
                                for (const AddressRelation& part : filled)
                                    part.storage_->visit(visit);
                            });
    return AddressRelation(encode_best(static_cast<const PairsStorage&>(*encode_pairs(view))));
}

}  // namespace datamover
