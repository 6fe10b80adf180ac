// SPDX-License-Identifier: BSD-3-Clause
// Storage of a relation in its encodings, and conversion between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "storage.hpp"

namespace datamover {

/// Two byte addresses per element (AAPAIR in the paper, section 4).
struct PairsStorage final : AddressRelation::Storage {
    using Storage::Storage;
    Encoding encoding() const override { return Encoding::pairs; }
    std::int64_t size() const override { return static_cast<std::int64_t>(source.size()); }
    std::int64_t nbytes() const override { return 16 * size(); }
    void visit(const RunVisitor& visit) const override;

    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;
};

/// Elements that lie side by side on both sides.
struct Block {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t elems = 0;
};

/// Addresses and length of every contiguous block (AABLK).
struct BlocksStorage final : AddressRelation::Storage {
    using Storage::Storage;
    Encoding encoding() const override { return Encoding::blocks; }
    std::int64_t size() const override { return elems; }
    std::int64_t nbytes() const override {
        return static_cast<std::int64_t>(blocks.size() * sizeof(Block));
    }
    void visit(const RunVisitor& visit) const override;

    std::vector<Block> blocks;
    std::int64_t elems = 0;
};

/// `length` times in a row, both addresses advance by these differences (in bytes). The addresses
/// before the first element are 0 and 0.
struct Symbol {
    std::int64_t source_difference = 0;
    std::int64_t destination_difference = 0;
    std::int64_t length = 0;

    bool operator==(const Symbol&) const = default;
};

/// The run-length encoded difference map (DMRLE).
struct RunsStorage final : AddressRelation::Storage {
    using Storage::Storage;
    Encoding encoding() const override { return Encoding::runs; }
    std::int64_t size() const override { return elems; }
    std::int64_t nbytes() const override {
        return static_cast<std::int64_t>(symbols.size() * sizeof(Symbol));
    }
    void visit(const RunVisitor& visit) const override;

    std::vector<Symbol> symbols;
    std::int64_t elems = 0;
};

/// The symbols of the run-length encoded difference map behind keys of fixed width (DMRLEC): the
/// width is a power of two bits, so that no key straddles a word of 64 bits. The first symbol says
/// where the relation begins: it hardly ever comes again, and stands before the keys.
struct DictionaryStorage final : AddressRelation::Storage {
    using Storage::Storage;
    Encoding encoding() const override { return Encoding::dictionary; }
    std::int64_t size() const override { return elems; }
    std::int64_t nbytes() const override {
        return static_cast<std::int64_t>((table.size() + 1) * sizeof(Symbol) + words.size() * 8);
    }
    void visit(const RunVisitor& visit) const override;

    /// Calls f(const Symbol&) for all symbols, in order.
    template <class F>
    void for_each_symbol(F&& f) const {
        if (first.length > 0) f(first);
        for (std::int64_t i = 0; i < keys; ++i) f(symbol(i));
    }

    std::uint64_t key(std::int64_t i) const {
        const std::int64_t bit = i << key_bits_log2;
        const std::uint64_t mask = (std::uint64_t{2} << ((1 << key_bits_log2) - 1)) - 1;
        return (words[static_cast<std::size_t>(bit >> 6)] >> (bit & 63)) & mask;
    }
    const Symbol& symbol(std::int64_t i) const { return table[static_cast<std::size_t>(key(i))]; }

    Symbol first;  ///< of length 0 in an empty relation
    std::vector<Symbol> table;
    std::vector<std::uint64_t> words;
    std::int64_t keys = 0;
    int key_bits_log2 = 0;  ///< 0 to 5: keys of 1, 2, 4, 8, 16 or 32 bits
    std::int64_t elems = 0;
};

/// One dimension of a nest: `count` positions with fixed byte strides, or the positions of a table.
struct NestAxis {
    std::int64_t count = 1;
    std::int64_t source_stride = 0;
    std::int64_t destination_stride = 0;
    const AxisTable* table = nullptr;

    std::int64_t stride(Side side) const {
        return side == Side::source ? source_stride : destination_stride;
    }
    std::int64_t& stride(Side side) {
        return side == Side::source ? source_stride : destination_stride;
    }
};

/// A Cartesian product of axes, outermost first, in bytes.
struct Nest {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::vector<NestAxis> axes;

    std::int64_t size() const;
    std::int64_t offset(Side side) const { return side == Side::source ? source : destination; }
    std::int64_t& offset(Side side) { return side == Side::source ? source : destination; }
};

/// A nest of a list: its offsets in bytes, and the number of its shape.
struct PlacedNest {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t shape = 0;
};

/// A list of nests (ours). Nests that differ in nothing but their offsets share a shape: the halo
/// of many equal boxes has as many shapes as a box has neighbours. Made by a ProductBuilder.
struct ProductStorage final : AddressRelation::Storage {
    using Storage::Storage;
    Encoding encoding() const override { return Encoding::product; }
    std::int64_t size() const override { return elems; }
    std::int64_t nbytes() const override;
    void visit(const RunVisitor& visit) const override;

    /// Calls f(const Nest&) for every nest, in order.
    template <class F>
    void for_each_nest(F&& f) const {
        Nest nest;
        std::int64_t shape = -1;
        for (const PlacedNest& placed : nests) {
            if (placed.shape != shape) read_shape(shape = placed.shape, nest.axes);
            nest.source = placed.source;
            nest.destination = placed.destination;
            f(static_cast<const Nest&>(nest));
        }
    }
    Nest nest(std::size_t i) const;
    std::int64_t num_shapes() const { return static_cast<std::int64_t>(shape_at.size()); }
    void read_shape(std::int64_t shape, std::vector<NestAxis>& axes) const;

    std::vector<PlacedNest> nests;
    /// Per shape its number of axes, then three words per axis: the count (or minus one minus the
    /// number of a table) and the two strides.
    std::vector<std::int64_t> shape_words;
    std::vector<std::int64_t> shape_at;  ///< where each shape begins
    std::vector<std::shared_ptr<const AxisTable>> tables;
    std::int64_t elems = 0;
};

/// Folds away axes of one position and joins neighbouring axes that advance as one.
void fold_axes(std::vector<NestAxis>& axes);
/// Puts the place of tables of one position into the nest's offsets, and folds its axes: at most 63
/// axes are left of a nest of less than 2^63 elements.
void fold_nest(Nest& nest);

StoragePtr encode_pairs(const AddressRelation::Storage& from);
StoragePtr encode_blocks(const AddressRelation::Storage& from);
StoragePtr encode_runs(const AddressRelation::Storage& from);
StoragePtr encode_dictionary(const AddressRelation::Storage& from);
StoragePtr encode_product(const AddressRelation::Storage& from);
StoragePtr encode_offsets(const AddressRelation::Storage& from);
struct PairList;
struct DifferenceCounts;
/// Also counts the differences of the whole list.
StoragePtr encode_offsets(const PairList& list, DifferenceCounts& found);
StoragePtr encode_from(Encoding encoding, const AddressRelation::Storage& from);
StoragePtr encode_as(Encoding encoding, const StoragePtr& from);
/// The encoding that the sizes and the predicted speed speak for.
StoragePtr encode_best(const PairsStorage& pairs);
/// The same for addresses that stand in arrays.
StoragePtr encode_pair_list(const PairList& list);

/// A relation that exists only as a walk over another one. Lives on the stack while it is encoded.
class RelationView final : public AddressRelation::Storage {
public:
    using Walk = std::function<void(const RunVisitor&)>;

    RelationView(Encoding encoding, std::int64_t size, std::int64_t source_elem,
                 std::int64_t destination_elem, Walk walk)
        : Storage(source_elem, destination_elem),
          encoding_(encoding),
          size_(size),
          walk_(std::move(walk)) {}

    Encoding encoding() const override { return encoding_; }
    std::int64_t size() const override { return size_; }
    std::int64_t nbytes() const override { return 0; }
    void visit(const RunVisitor& visit) const override { walk_(visit); }

private:
    Encoding encoding_;
    std::int64_t size_;
    Walk walk_;
};

}  // namespace datamover
