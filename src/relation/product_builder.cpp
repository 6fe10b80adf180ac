// SPDX-License-Identifier: BSD-3-Clause
// Builder of product lists in which equal nests share a shape.
#include "product_builder.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "geometry/make_error.hpp"

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

/// A product without elements has no addresses to look at.
bool is_empty(const Product& product) {
    for (const ProductAxis& axis : product.axes)
        if (axis.table == nullptr || axis.table->empty()) return true;
    return false;
}

}  // namespace

ProductBuilder::ProductBuilder(std::int64_t source_elem_bytes, std::int64_t destination_elem_bytes)
    : made_(std::make_shared<ProductStorage>(source_elem_bytes, destination_elem_bytes)) {}

void ProductBuilder::append(const Product& product) {
    if (is_empty(product)) return;
    if (const char* excess = excess_of(product))
        throw make_error(ErrorCode::out_of_range, "a product has ", excess);
    append_fitting(product);
}

void ProductBuilder::append_fitting(const Product& product) {
    Nest nest{product.source_offset_bytes, product.destination_offset_bytes, {}};
    nest.axes.reserve(3 * product.axes.size());
    Owners owners;
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

void ProductBuilder::append(const Nest& nest, const Owners& owners) {
    place(shape_of(nest.axes, owners), nest.source, nest.destination);
}

std::int64_t ProductBuilder::shape_of(std::span<const NestAxis> axes, const Owners& owners) {
    words_.clear();
    words_.reserve(1 + 3 * axes.size());
    words_.push_back(static_cast<std::int64_t>(axes.size()));
    for (const NestAxis& axis : axes) {
        const std::int64_t first =
            axis.table != nullptr ? -1 - table_number(axis.table, owners) : axis.count;
        words_.insert(words_.end(), {first, axis.source_stride, axis.destination_stride});
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

}  // namespace datamover
