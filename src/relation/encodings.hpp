// SPDX-License-Identifier: BSD-3-Clause
// Storage of a relation in its encodings, and conversion between them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "storage.hpp"

namespace datamover {

template <class T>
std::int64_t bytes_of(const std::vector<T>& items) {
    return static_cast<std::int64_t>(items.size() * sizeof(T));
}

template <Encoding of>
struct EncodedStorage : AddressRelation::Storage {
    explicit EncodedStorage(AddressPair elem) : Storage(of, elem) {}
};

using AddressLists = PerSide<std::vector<std::int64_t>>;

/// Two byte addresses per element (AAPAIR in the paper, section 4).
struct PairsStorage final : EncodedStorage<Encoding::pairs> {
    using EncodedStorage::EncodedStorage;
    std::int64_t nbytes() const override { return 16 * elems; }
    void visit(const RunVisitor& visit) const override;

    AddressLists at;
};

/// Addresses and length of every contiguous block (AABLK).
struct BlocksStorage final : EncodedStorage<Encoding::blocks> {
    using EncodedStorage::EncodedStorage;
    std::int64_t nbytes() const override { return bytes_of(blocks); }
    void visit(const RunVisitor& visit) const override;

    std::vector<Block> blocks;
};

/// `length` times in a row, both addresses advance by these differences (in bytes). The addresses
/// before the first element are 0 and 0.
struct Symbol {
    AddressPair difference;
    std::int64_t length = 0;

    bool operator==(const Symbol&) const = default;
};

/// The run-length encoded difference map (DMRLE).
struct RunsStorage final : EncodedStorage<Encoding::runs> {
    using EncodedStorage::EncodedStorage;
    std::int64_t nbytes() const override { return bytes_of(symbols); }
    void visit(const RunVisitor& visit) const override;
    template <class F>
    void for_each_symbol(F&& f) const {
        for (const Symbol& symbol : symbols) f(symbol);
    }

    std::vector<Symbol> symbols;
};

/// The symbols of the run-length encoded difference map behind keys of fixed width (DMRLEC): the
/// width is a power of two bits, so that no key straddles a word of 64 bits. The first symbol says
/// where the relation begins: it hardly ever comes again, and stands before the keys.
struct DictionaryStorage final : EncodedStorage<Encoding::dictionary> {
    using EncodedStorage::EncodedStorage;
    std::int64_t nbytes() const override {
        return bytes_of(table) + std::int64_t{sizeof first} + bytes_of(words);
    }
    void visit(const RunVisitor& visit) const override;

    /// Calls f(const Symbol&) for all symbols, in order. In one place, where it is inlined, and
    /// with copies of its own: for all that the compiler knows, f changes the members.
    template <class F>
    void for_each_symbol(F&& f) const {
        const Symbol* const symbols = table.data();
        const KeyReader key = reader();
        const std::int64_t end = keys;
        for (std::int64_t i = first.length > 0 ? -1 : 0; i < end; ++i)
            f(i < 0 ? first : symbols[key(i)]);
    }

    /// Reads keys; they must outlive it.
    struct KeyReader {
        const std::uint64_t* words;
        int bits_log2;
        std::uint64_t mask;

        std::uint64_t operator()(std::int64_t i) const {
            const std::int64_t bit = i << bits_log2;
            return (words[bit >> 6] >> (bit & 63)) & mask;
        }
    };
    KeyReader reader() const {
        return {words.data(), key_bits_log2, (std::uint64_t{2} << ((1 << key_bits_log2) - 1)) - 1};
    }

    Symbol first;  ///< of length 0 in an empty relation
    std::vector<Symbol> table;
    std::vector<std::uint64_t> words;
    std::int64_t keys = 0;
    int key_bits_log2 = 0;  ///< 0 to 5: keys of 1, 2, 4, 8, 16 or 32 bits
};

/// One side of a chunk. Width 0: addresses advance by `step` from `base`. Else offsets from `base`,
/// in units, of so many bytes each, begin at byte `at` of the data.
struct OffsetSide {
    std::int64_t base = 0;
    std::int64_t step = 0;
    std::int64_t at = 0;
    std::int64_t width = 0;  ///< 0, 1, 2, 3, 4 or 8 bytes
};

struct OffsetChunk {
    std::int64_t elems = 0;
    PerSide<OffsetSide> side;
};

constexpr std::int64_t longest_chunk_elems = 2048;
constexpr std::int64_t offset_padding_bytes = 8;

/// Offsets of an element from the base of its chunk, in as few whole bytes as the chunk allows. For
/// irregular relations whose neighbours lie near each other, and for halves, whose other side is
/// even.
struct OffsetsStorage final : EncodedStorage<Encoding::offsets> {
    using EncodedStorage::EncodedStorage;
    std::int64_t nbytes() const override { return bytes_of(chunks) + bytes_of(data); }
    void visit(const RunVisitor& visit) const override;
    /// The byte addresses of elements [first, first + n) of one side of a chunk.
    void read_addresses(const OffsetChunk& chunk, Side side, std::int64_t first, std::int64_t n,
                        std::int64_t* addresses) const;

    std::vector<OffsetChunk> chunks;
    std::vector<unsigned char> data;  ///< ends with bytes that an offset read as 8 bytes may touch
    AddressPair unit{1, 1};           ///< bytes that one step of an offset stands for
};

/// One dimension of a nest: positions with fixed byte strides. If there is a table, its positions
/// are multiplied by the strides, and `count` is its size.
struct NestAxis : LoopAxis {
    const AxisTable* table = nullptr;

    bool operator==(const NestAxis&) const = default;
};

/// A Cartesian product of axes, outermost first, in bytes.
struct Nest {
    AddressPair start;
    std::vector<NestAxis> axes;

    std::int64_t size() const;
};

/// A nest of a list: where it begins, and the number of its shape.
struct PlacedNest {
    AddressPair start;
    std::int64_t shape = 0;
};

/// A list of nests (ours). Nests that differ in nothing but their offsets share a shape: the halo
/// of many equal boxes has as many shapes as a box has neighbours. Made by a ProductBuilder.
struct ProductStorage final : EncodedStorage<Encoding::product> {
    using EncodedStorage::EncodedStorage;
    std::int64_t nbytes() const override;
    void visit(const RunVisitor& visit) const override;

    /// Calls f(const Nest&) for every nest, in order.
    template <class F>
    void for_each_nest(F&& f) const {
        Nest nest;
        std::int64_t shape = -1;
        for (const PlacedNest& placed : nests) {
            if (placed.shape != shape) read_shape(shape = placed.shape, nest.axes);
            nest.start = placed.start;
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
};

constexpr AddressPair start_of(const AxisRun& run) {
    return {run.source, run.destination};
}
constexpr AddressPair step_of(const AxisRun& run) {
    return {run.source_step, run.destination_step};
}
inline AddressPair period_of(const AxisTable& table) {
    return {table.source_period(), table.destination_period()};
}

/// Folds away axes of one position and joins neighbouring axes that advance as one.
void fold_axes(std::vector<NestAxis>& axes);
/// Replaces tables of one run by plain axes, and folds: at most 63 axes are left of a nest of less
/// than 2^63 elements.
void fold_nest(Nest& nest);

/// Pairs of element addresses, and by what they are multiplied to be byte addresses.
struct PairList {
    PerSide<const std::int64_t*> at;
    std::int64_t size = 0;
    AddressPair unit{1, 1};
    AddressPair elem_bytes{1, 1};
};
inline PairList list_of(const AddressLists& at, AddressPair elem_bytes) {
    return {{at.source.data(), at.destination.data()},
            static_cast<std::int64_t>(at.source.size()),
            {1, 1},
            elem_bytes};
}

/// The byte addresses of all elements, in order.
AddressLists addresses_of(const RelationWalk& walk);
AddressLists addresses_of(const AddressRelation::Storage& storage);

StoragePtr encode_pairs(const RelationWalk& walk);
StoragePtr encode_blocks(const RelationWalk& walk);
std::shared_ptr<RunsStorage> encode_runs(const RelationWalk& walk);
StoragePtr encode_dictionary(const RunsStorage& runs);
struct DifferenceCounts;
/// Also counts the differences of the whole list.
StoragePtr encode_offsets(const PairList& list, DifferenceCounts& found);
StoragePtr encode_from(Encoding encoding, const RelationWalk& walk);
StoragePtr encode_as(Encoding encoding, const StoragePtr& from);
/// The encoding that the sizes and the predicted speed speak for.
StoragePtr encode_best(const PairList& list);

}  // namespace datamover
