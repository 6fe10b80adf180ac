// SPDX-License-Identifier: BSD-3-Clause
// Address bounds of a relation, whether it is contiguous, and its pieces of memory.
#include "encodings.hpp"
#include "extent.hpp"
#include "geometry/make_error.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

AddressBounds find_bounds(const AddressRelation::Storage& storage, Side side) {
    if (storage.elems == 0) return {};
    Extent all;
    if (const auto* product = dynamic_cast<const ProductStorage*>(&storage)) {
        product->for_each_nest([&](const Nest& nest) { all.include(extent_of(nest, side)); });
    } else {
        walk_side(storage, side, [&](std::int64_t start, std::int64_t elems, std::int64_t step) {
            Extent e{start, start};
            e.stretch((elems - 1) * step);
            all.include(e);
        });
    }
    return {all.low, all.high + storage.elem_bytes[side]};
}

/// Whether axes count up without gaps when they are gone through in order.
bool is_dense(const Nest& nest, Side side, std::int64_t elem_bytes) {
    std::int64_t expected = elem_bytes;
    for (auto axis = nest.axes.rbegin(); axis != nest.axes.rend(); ++axis) {
        if (axis->stride[side] != expected) return false;
        if (axis->table != nullptr && !ascent_of(*axis->table, side).dense) return false;
        expected *= axis->count;
    }
    return true;
}

bool find_contiguous(const AddressRelation::Storage& storage, Side side) {
    const std::int64_t elem = storage.elem_bytes[side];
    AscentCheck ascent;
    if (const auto* product = dynamic_cast<const ProductStorage*>(&storage))
        product->for_each_nest([&](const Nest& nest) {
            ascent.dense = ascent.dense && is_dense(nest, side, elem);
            if (ascent.dense) ascent.add(extent_of(nest, side).low, 1, 0, nest.size() * elem);
        });
    else
        walk_side(storage, side, [&](std::int64_t start, std::int64_t elems, std::int64_t step) {
            ascent.add(start, elems, step, elem);
        });
    return ascent.dense;
}

/// What takes O(n) is remembered; a product's answer takes as long as looking it up.
template <class T, class Find>
T remembered(const AddressRelation::Storage& storage,
             PerSide<geometry::FirstUse<T>> RelationMemo::* fact, Side side, Find&& find) {
    if (storage.encoding == Encoding::product) return find(storage, side);
    return (storage.memo().*fact)[side].get([&] { return find(storage, side); });
}

}  // namespace

AddressBounds RelationQueries::bounds(Side side) const {
    return remembered(*storage_, &RelationMemo::bounds, side, find_bounds);
}

bool RelationQueries::contiguous(Side side) const {
    return remembered(*storage_, &RelationMemo::contiguous, side, find_contiguous);
}

void RelationQueries::require_inside(Side side, AddressBounds memory,
                                     const std::string& name) const {
    const AddressBounds touched = bounds(side);
    if (touched.begin_bytes == touched.end_bytes) return;
    if (touched.begin_bytes >= memory.begin_bytes && touched.end_bytes <= memory.end_bytes) return;
    throw make_error(ErrorCode::out_of_range, "the relation touches bytes ", touched.begin_bytes,
                     " to ", touched.end_bytes, " of ", name, ", which has bytes ",
                     memory.begin_bytes, " to ", memory.end_bytes);
}

// Contiguous pieces of memory on either side of a relation.

std::vector<MemoryPiece> RelationQueries::pieces(Side side, const void* base) const {
    std::vector<MemoryPiece> pieces;
    const std::int64_t elem = storage_->elem_bytes[side];
    const auto append = [&](std::int64_t address, std::int64_t bytes) {
        char* data = static_cast<char*>(const_cast<void*>(base)) + address;
        if (pieces.empty() || static_cast<char*>(pieces.back().data) + pieces.back().bytes != data)
            pieces.push_back({data, 0});
        pieces.back().bytes += static_cast<std::size_t>(bytes);
    };
    walk_side(*storage_, side, [&](std::int64_t start, std::int64_t elems, std::int64_t step) {
        if (step == elem)
            append(start, elems * elem);
        else
            for (std::int64_t i = 0; i < elems; ++i) append(start + i * step, elem);
    });
    return pieces;
}

}  // namespace datamover
