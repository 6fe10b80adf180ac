// SPDX-License-Identifier: BSD-3-Clause
// Builder of product lists in which equal nests share a shape.
#include "product_builder.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

/// A product without elements has no addresses to look at.
bool is_empty(const Product& product) {
    for (const ProductAxis& axis : product.axes)
        if (axis.table == nullptr || axis.table->empty()) return true;
    return false;
}

}  // namespace

void ProductBuilder::append(const Product& product) {
    if (is_empty(product)) return;
    Nest nest{{product.source_offset_bytes, product.destination_offset_bytes}, {}};
    std::vector<AddressPair> reach;
    Owners owners;
    nest.axes.reserve(product.axes.size());
    reach.reserve(product.axes.size());
    owners.reserve(product.axes.size());
    for (const ProductAxis& axis : product.axes) {
        nest.axes.push_back(
            {{axis.table->size(), {axis.source_stride_bytes, axis.destination_stride_bytes}},
             axis.table.get()});
        reach.push_back(reach_of(*axis.table));
        owners.push_back(axis.table);
    }
    if (const char* excess = excess_of(nest, reach))
        throw make_error(ErrorCode::out_of_range, "a product has ", excess);
    fold_nest(nest);
    append(nest, owners);
}

std::int64_t ProductBuilder::shape_of(std::span<const NestAxis> axes, const Owners& owners) {
    words_.clear();
    words_.reserve(1 + 3 * axes.size());
    words_.push_back(static_cast<std::int64_t>(axes.size()));
    for (const NestAxis& axis : axes) {
        const std::int64_t first =
            axis.table != nullptr ? -1 - table_number(axis.table, owners) : axis.count;
        words_.insert(words_.end(), {first, axis.stride.source, axis.stride.destination});
    }
    const std::uint64_t hash = geometry::hash_words(words_);
    const std::int64_t known = known_.find(hash, [&](std::int64_t shape) {
        const std::int64_t at = made_->shape_at[static_cast<std::size_t>(shape)];
        const auto first = made_->shape_words.begin() + at;
        return *first == words_.front() && std::equal(words_.begin(), words_.end(), first);
    });
    if (known >= 0) return known;
    const std::int64_t shape = made_->num_shapes();
    made_->shape_at.push_back(static_cast<std::int64_t>(made_->shape_words.size()));
    made_->shape_words.insert(made_->shape_words.end(), words_.begin(), words_.end());
    std::int64_t elems = 1;
    for (const NestAxis& axis : axes)
        if (__builtin_mul_overflow(elems, axis.count, &elems))
            elems = std::numeric_limits<std::int64_t>::max();  // `place` refuses it
    shape_elems_.push_back(elems);
    known_.insert(hash, shape);
    return shape;
}

void ProductBuilder::refuse_elems() {
    throw Error(ErrorCode::out_of_range, "a relation has more than 2^59 elements");
}

std::int64_t ProductBuilder::table_number(const AxisTable* table, const Owners& owners) {
    const auto is_it = [&](const auto& owner) { return owner.get() == table; };
    auto& tables = made_->tables;
    const auto few = std::span(tables).first(std::min(tables.size(), few_tables));
    if (const auto found = std::ranges::find_if(few, is_it); found != few.end())
        return found - few.begin();
    const auto number = static_cast<std::int64_t>(tables.size());
    if (tables.size() >= few_tables) {
        const auto [found, added] = further_tables_.try_emplace(table, number);
        if (!added) return found->second;
    }
    tables.push_back(*std::ranges::find_if(owners, is_it));
    return number;
}

// Fusion of nests that walk the same rows of memory.

namespace {

/// Longer pieces are whole lines of memory already.
constexpr std::int64_t most_piece_bytes = 64;

/// Each distance between two nests makes a shape of its own, whose loops take memory: where blocks
/// lie at ever other distances, and so many shapes would be made, all nests stay alone.
constexpr std::int64_t most_new_shapes = 256;

/// Short pieces at regular distances.
struct Rows {
    std::size_t first_inner_axis = 0;  ///< the axes from here on are one piece
    std::int64_t piece_bytes = 0;
    AddressPair stride;  ///< the least distance between pieces
};

std::optional<Rows> rows_of(const std::vector<NestAxis>& axes, std::int64_t elem_bytes) {
    constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
    Rows rows{axes.size(), elem_bytes, {far, far}};
    const auto continues = [&](const NestAxis& axis) {
        return axis.table == nullptr &&
               axis.stride == AddressPair{rows.piece_bytes, rows.piece_bytes};
    };
    while (rows.first_inner_axis > 0 && continues(axes[rows.first_inner_axis - 1]))
        rows.piece_bytes *= axes[--rows.first_inner_axis].count;
    if (rows.first_inner_axis == 0 || rows.piece_bytes > most_piece_bytes) return std::nullopt;
    for (std::size_t k = 0; k < rows.first_inner_axis; ++k) {
        if (axes[k].table != nullptr) return std::nullopt;
        for (const Side side : both_sides)
            rows.stride[side] = std::min(rows.stride[side], std::abs(axes[k].stride[side]));
    }
    return rows;
}

/// Finds for the nests of a list others of the same shape that lie in the same rows.
class RowSharing {
public:
    static constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();

    explicit RowSharing(const ProductStorage& product)
        : product_(product), partner_(product.nests.size(), nobody) {
        std::vector<NestAxis> axes;
        for (std::int64_t shape = 0; shape < product.num_shapes(); ++shape) {
            product.read_shape(shape, axes);
            rows_.push_back(rows_of(axes, product.elem_bytes.source));
        }
        for (std::size_t i = 0; i < product.nests.size(); ++i)
            if (rows(i)) order_.push_back(i);
    }

    /// Joins nests whose elements of one side lie in the same rows. O(n log n).
    void join(Side side) {
        std::erase_if(order_, [&](std::size_t i) { return partner_[i] != nobody; });
        const auto key = [&](std::size_t i) {
            return std::tuple(product_.nests[i].shape, address(i, side), i);
        };
        std::ranges::sort(order_, [&](std::size_t i, std::size_t k) { return key(i) < key(k); });
        for (std::size_t at = 0; at < order_.size(); ++at)
            if (partner_[order_[at]] == nobody) join_one(at, side);
    }

    const std::optional<Rows>& rows(std::size_t nest) const {
        return rows_[static_cast<std::size_t>(product_.nests[nest].shape)];
    }
    std::size_t partner(std::size_t nest) const { return partner_[nest]; }

private:
    std::int64_t address(std::size_t nest, Side side) const {
        return product_.nests[nest].start[side];
    }
    /// With the first one behind it that lies in the same rows beside it, if that comes soon: where
    /// many nests begin at one place, each would look at all others.
    void join_one(std::size_t at, Side side) {
        constexpr std::size_t most_looked_at = 64;
        const std::size_t i = order_[at];
        const std::size_t end = std::min(order_.size(), at + 1 + most_looked_at);
        for (std::size_t next = at + 1; next < end; ++next) {
            const std::size_t k = order_[next];
            const std::int64_t distance = address(k, side) - address(i, side);
            if (product_.nests[k].shape != product_.nests[i].shape ||
                distance > rows(i)->stride[side] - rows(i)->piece_bytes)
                return;
            if (partner_[k] != nobody || distance < rows(i)->piece_bytes ||
                overlap(i, k, other(side)))
                continue;
            partner_[i] = k;
            partner_[k] = i;
            return;
        }
    }
    /// Whether the pieces of two nests overlap on one side.
    bool overlap(std::size_t i, std::size_t k, Side side) const {
        return std::abs(address(k, side) - address(i, side)) < rows(i)->piece_bytes;
    }

    const ProductStorage& product_;
    std::vector<std::optional<Rows>> rows_;  // by shape
    std::vector<std::size_t> order_;
    std::vector<std::size_t> partner_;
};

}  // namespace

std::shared_ptr<const ProductStorage> with_fused_nests(const ProductStorage& product) {
    const auto& nests = product.nests;
    if (nests.size() < 2 || product.elem_bytes.source != product.elem_bytes.destination)
        return nullptr;
    RowSharing sharing(product);
    sharing.join(Side::destination);
    sharing.join(Side::source);
    const std::int64_t most_shapes = 2 * product.num_shapes() + most_new_shapes;
    ProductBuilder result(product.elem_bytes);
    for (std::size_t i = 0; i < nests.size(); ++i) {
        const std::size_t k = sharing.partner(i);
        if (k < i) continue;
        Nest nest = product.nest(i);
        if (k != RowSharing::nobody) {
            const auto at = static_cast<std::ptrdiff_t>(sharing.rows(i)->first_inner_axis);
            const LoopAxis pair{2, nests[k].start - nest.start};
            nest.axes.insert(nest.axes.begin() + at, NestAxis{pair});
        }
        result.append(nest, product.tables);
        if (result.num_shapes() > most_shapes) return nullptr;
    }
    if (result.nests() == static_cast<std::int64_t>(nests.size())) return nullptr;
    return result.finish();
}

}  // namespace datamover
