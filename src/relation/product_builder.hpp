// SPDX-License-Identifier: BSD-3-Clause
// Builder of product lists in which equal nests share a shape, and nests that become one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "encodings.hpp"
#include "extent.hpp"
#include "geometry/record_index.hpp"

namespace datamover {

/// Appends nests one behind the other; the order of their elements stays.
class ProductBuilder {
public:
    using Owners = std::vector<std::shared_ptr<const AxisTable>>;

    explicit ProductBuilder(AddressPair elem_bytes)
        : made_(std::make_shared<ProductStorage>(elem_bytes)) {}

    /// A product with elements: simple tables become plain axes, neighbouring axes that are one are
    /// folded. Throws out_of_range where 64 bits do not hold its addresses, and, as all below,
    /// beyond 2^59 elements in all.
    void append(const Product& product);
    /// `owners` hold the tables of the nest's axes.
    void append(const Nest& nest, const Owners& owners = {}) {
        place(shape_of(nest.axes, owners), nest.start);
    }

    /// The number of the shape with these axes, for `place`.
    std::int64_t shape_of(std::span<const NestAxis> axes, const Owners& owners = {});
    /// A nest of a known shape. O(1).
    void place(std::int64_t shape, AddressPair start) {
        const std::int64_t more = shape_elems(shape);
        if (more > most_elems - made_->elems) refuse_elems();
        made_->nests.push_back({start, shape});
        made_->elems += more;
    }

    /// Room for so many more nests, where their number is known.
    void expect(std::int64_t nests) {
        const std::size_t all = made_->nests.size() + static_cast<std::size_t>(nests);
        if (all > 2 * made_->nests.capacity()) made_->nests.reserve(all);
    }

    std::int64_t elems() const { return made_->elems; }
    std::int64_t nests() const { return static_cast<std::int64_t>(made_->nests.size()); }
    std::int64_t num_shapes() const { return made_->num_shapes(); }
    std::int64_t shape_elems(std::int64_t shape) const {
        return shape_elems_[static_cast<std::size_t>(shape)];
    }
    std::shared_ptr<ProductStorage> finish() { return std::move(made_); }

private:
    static constexpr std::size_t few_tables = 8;

    [[noreturn]] static void refuse_elems();
    std::int64_t table_number(const AxisTable* table, const Owners& owners);

    std::shared_ptr<ProductStorage> made_;
    std::vector<std::int64_t> shape_elems_;
    /// Numbers of tables beyond the first few, which are looked through.
    std::unordered_map<const AxisTable*, std::int64_t> further_tables_;
    geometry::RecordIndex known_;
    std::vector<std::int64_t> words_;  // of the shape that is looked up
};

// Fusion of nests that walk the same rows of memory.

/// A list that moves the same elements in which two nests that take a few bytes of the same rows
/// each, on either side, are one, such as what fills the lower and the upper ghosts of a block's
/// rows, from one neighbour or from two: every line of those rows is then touched once. nullptr
/// where there are no such nests. O(n log n) for n nests.
std::shared_ptr<const ProductStorage> with_fused_nests(const ProductStorage& product);

}  // namespace datamover
