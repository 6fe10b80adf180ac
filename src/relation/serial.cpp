// SPDX-License-Identifier: BSD-3-Clause
// Serialization of relations to bytes and back.
#include "serial.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "encodings.hpp"
#include "extent.hpp"
#include "geometry/make_error.hpp"
#include "product_builder.hpp"

namespace datamover {
namespace {

constexpr const char* refusal = "these bytes are not those of an address relation: ";

/// The words of a record of nothing but 64-bit numbers, which are written in their order.
template <class Record>
using RecordWords = std::array<std::int64_t, sizeof(Record) / sizeof(std::int64_t)>;

template <class Record>
void write_record(const Record& record, WordWriter& out) {
    for (const std::int64_t word : std::bit_cast<RecordWords<Record>>(record)) out.put(word);
}

template <class Record>
void write_records(const std::vector<Record>& records, WordWriter& out) {
    out.put(records.size());
    for (const Record& record : records) write_record(record, out);
}

template <class Record>
Record read_record(WordReader& in) {
    RecordWords<Record> words;
    for (std::int64_t& word : words) word = in.get();
    return std::bit_cast<Record>(words);
}

template <class Record>
std::vector<Record> read_records(WordReader& in) {
    std::vector<Record> records;
    for (std::int64_t n = in.get_count(RecordWords<Record>().size()); n > 0; --n)
        records.push_back(read_record<Record>(in));
    return records;
}

void write(const PairsStorage& s, WordWriter& out) {
    out.put(s.elems);
    out.put_all(s.at.source);
    out.put_all(s.at.destination);
}

void write(const DictionaryStorage& s, WordWriter& out) {
    write_record(s.first, out);
    write_records(s.table, out);
    out.put(s.keys);
    out.put(std::int64_t{s.key_bits_log2});
    for (const std::uint64_t w : s.words) out.put(w);
}

void write(const ProductStorage& s, WordWriter& out) {
    out.put(s.tables.size());
    for (const auto& t : s.tables) {
        out.put_all({t->periods(), t->source_period(), t->destination_period()});
        write_records(t->runs(), out);
        write_records(t->tail(), out);
    }
    out.put(s.nests.size());
    for (const PlacedNest& nest : s.nests) {
        const auto first = s.shape_at[static_cast<std::size_t>(nest.shape)];
        const auto* shape = &s.shape_words[static_cast<std::size_t>(first)];
        write_record(nest.start, out);
        out.put_all(std::vector<std::int64_t>(shape, shape + 1 + 3 * *shape));
    }
}

void write(const OffsetsStorage& s, WordWriter& out) {
    write_record(s.unit, out);
    write_records(s.chunks, out);
    out.put(s.data.size());
    for (std::size_t i = 0; i < s.data.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, s.data.data() + i, std::min<std::size_t>(8, s.data.size() - i));
        out.put(word);
    }
}

void write(const AddressRelation::Storage& storage, WordWriter& out) {
    switch (storage.encoding) {
        case Encoding::pairs:
            return write(static_cast<const PairsStorage&>(storage), out);
        case Encoding::blocks:
            return write_records(static_cast<const BlocksStorage&>(storage).blocks, out);
        case Encoding::runs:
            return write_records(static_cast<const RunsStorage&>(storage).symbols, out);
        case Encoding::dictionary:
            return write(static_cast<const DictionaryStorage&>(storage), out);
        case Encoding::product:
            return write(static_cast<const ProductStorage&>(storage), out);
        case Encoding::offsets:
            return write(static_cast<const OffsetsStorage&>(storage), out);
    }
}

void count_elems(std::int64_t& elems, std::int64_t more) {
    if (more < 1 || more > most_elems - elems) refuse_serial("a length out of range");
    elems += more;
}

void require_row(std::int64_t start, std::int64_t elems, std::int64_t step) {
    if (!row_fits(start, elems, step)) refuse_serial("addresses beyond 2^62");
}

void require_rows(AddressPair start, std::int64_t elems, AddressPair step) {
    for (const Side side : both_sides) require_row(start[side], elems, step[side]);
}

StoragePtr read_pairs(AddressPair elem, WordReader& in) {
    auto s = std::make_shared<PairsStorage>(elem);
    s->elems = in.get_count(2);
    for (const Side side : both_sides)
        for (std::int64_t i = 0; i < s->elems; ++i) {
            s->at[side].push_back(in.get());
            require_row(s->at[side].back(), 1, 0);
        }
    return s;
}

StoragePtr read_blocks(AddressPair elem, WordReader& in) {
    auto s = std::make_shared<BlocksStorage>(elem);
    s->blocks = read_records<Block>(in);
    for (const Block& b : s->blocks) {
        count_elems(s->elems, b.count);
        require_rows(b.start, b.count, elem);
    }
    return s;
}

/// Follows the differences of runs or a dictionary without moving anything.
template <class Storage>
StoragePtr with_checked_symbols(std::shared_ptr<Storage> s) {
    AddressPair at;
    s->for_each_symbol([&](const Symbol& symbol) {
        count_elems(s->elems, symbol.length);
        // The elements follow the address that was reached before.
        require_rows(at, symbol.length + 1, symbol.difference);
        at += symbol.length * symbol.difference;
    });
    return s;
}

StoragePtr read_runs(AddressPair elem, WordReader& in) {
    auto s = std::make_shared<RunsStorage>(elem);
    s->symbols = read_records<Symbol>(in);
    return with_checked_symbols(std::move(s));
}

StoragePtr read_dictionary(AddressPair elem, WordReader& in) {
    auto s = std::make_shared<DictionaryStorage>(elem);
    s->first = read_record<Symbol>(in);
    s->table = read_records<Symbol>(in);
    s->keys = in.get();
    const std::int64_t log2 = in.get();
    if (log2 < 0 || log2 > 5) refuse_serial("a key width that is not 1 to 32 bits");
    if (s->keys < 0 || s->keys > (in.left() * 64) >> log2) refuse_serial("fewer keys than told");
    s->key_bits_log2 = static_cast<int>(log2);
    const std::int64_t words = ((s->keys << log2) + 63) / 64;
    for (std::int64_t i = 0; i < words; ++i)
        s->words.push_back(static_cast<std::uint64_t>(in.get()));
    if (s->first.length < 0 || (s->first.length == 0 && s->keys > 0))
        refuse_serial("a dictionary without a beginning");
    for (std::int64_t i = 0; i < s->keys; ++i)
        if (s->reader()(i) >= s->table.size()) refuse_serial("a key without a symbol");
    return with_checked_symbols(std::move(s));
}

using Tables = std::vector<std::shared_ptr<const AxisTable>>;

std::shared_ptr<const AxisTable> read_table(WordReader& in) {
    const std::int64_t periods = in.get();
    const auto period = read_record<AddressPair>(in);
    std::vector<AxisRun> runs = read_records<AxisRun>(in);
    std::vector<AxisRun> tail = read_records<AxisRun>(in);
    // Else a table could be longer than the work that it stands for.
    if (periods == 0 && !runs.empty()) refuse_serial("a table with runs that come in no period");
    return std::make_shared<const AxisTable>(std::move(runs), periods, period.source,
                                             period.destination, std::move(tail));
}

/// Reads a nest, and lists the tables that it uses. `reach` holds that of every table.
Nest read_nest(const Tables& tables, std::span<const AddressPair> reach, WordReader& in,
               Tables& used) {
    Nest nest;
    used.clear();
    nest.start = read_record<AddressPair>(in);
    nest.axes.resize(static_cast<std::size_t>(in.get_count(3)));
    std::vector<AddressPair> along;
    for (NestAxis& axis : nest.axes) {
        axis = NestAxis{read_record<LoopAxis>(in)};
        if (axis.count < 0) {
            const auto number = static_cast<std::size_t>(-1 - axis.count);
            if (number >= tables.size()) refuse_serial("an axis whose table is missing");
            axis.table = tables[number].get();
            axis.count = axis.table->size();
            along.push_back(reach[number]);
            used.push_back(tables[number]);
        } else {
            along.push_back({axis.count - 1, axis.count - 1});
        }
        if (axis.count < 1) refuse_serial("an axis without positions");
    }
    if (const char* excess = excess_of(nest, along)) refuse_serial(excess);
    // No more axes are left than a nest of so many elements can have: loops nest as deep.
    fold_nest(nest);
    return nest;
}

StoragePtr read_product(AddressPair elem, WordReader& in) {
    ProductBuilder builder(elem);
    Tables tables, used;
    std::vector<AddressPair> reach;
    for (std::int64_t n = in.get_count(5); n > 0; --n) {
        tables.push_back(read_table(in));
        reach.push_back(reach_of(*tables.back()));
    }
    for (std::int64_t n = in.get_count(3); n > 0; --n) {
        const Nest nest = read_nest(tables, reach, in, used);
        std::int64_t elems = builder.elems();
        count_elems(elems, nest.size());
        builder.append(nest, used);
    }
    return builder.finish();
}

/// Every offset of a chunk must lie within the data and lead to an address within range.
void require_offsets(const OffsetsStorage& s, const OffsetChunk& chunk, Side side) {
    const OffsetSide& own = chunk.side[side];
    const bool known = own.width >= 0 && (own.width <= 4 || own.width == 8);
    if (!known || own.at < 0) refuse_serial("offsets of an unknown width");
    require_row(own.base, chunk.elems, own.step);
    const auto size = static_cast<std::int64_t>(s.data.size()) - offset_padding_bytes;
    if (own.at > size || chunk.elems * own.width > size - own.at)
        refuse_serial("offsets beyond the data");
    if (own.width == 0) return;
    if (s.unit[side] < 1) refuse_serial("offsets without a unit");
    for (std::int64_t i = 0; i < chunk.elems; ++i) {
        std::uint64_t offset = 0;
        std::memcpy(&offset, s.data.data() + own.at + i * own.width,
                    static_cast<std::size_t>(own.width));
        if (offset >= static_cast<std::uint64_t>(largest_address))
            refuse_serial("an offset too large");
        require_row(own.base, static_cast<std::int64_t>(offset) + 1, s.unit[side]);
    }
}

StoragePtr read_offsets(AddressPair elem, WordReader& in) {
    auto s = std::make_shared<OffsetsStorage>(elem);
    s->unit = read_record<AddressPair>(in);
    s->chunks = read_records<OffsetChunk>(in);
    const std::int64_t bytes = in.get();
    if (bytes < offset_padding_bytes || (bytes - 1) / 8 >= in.left())
        refuse_serial("offsets cut off");
    for (std::int64_t i = 0; i < bytes; i += 8) {
        const std::int64_t word = in.get();
        const auto* from = reinterpret_cast<const unsigned char*>(&word);
        s->data.insert(s->data.end(), from, from + std::min<std::int64_t>(8, bytes - i));
    }
    for (const OffsetChunk& c : s->chunks) {
        count_elems(s->elems, c.elems);
        if (c.elems > longest_chunk_elems) refuse_serial("a chunk too long");
        for (const Side side : both_sides) require_offsets(*s, c, side);
    }
    return s;
}

/// By encoding.
constexpr std::array<StoragePtr (*)(AddressPair, WordReader&), 6> readers{
    read_pairs, read_blocks, read_runs, read_dictionary, read_product, read_offsets};

}  // namespace

void refuse_serial(const char* what) {
    throw make_error(ErrorCode::invalid_argument, refusal, what);
}

std::uint64_t serial_checksum(std::span<const std::uint8_t> bytes) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + i, 8);
        hash = (hash ^ word) * 0x100000001B3;
        hash ^= hash >> 29;
    }
    return hash;
}

std::vector<std::uint8_t> WordWriter::finish() {
    const auto bytes_of_all = [&] {
        std::vector<std::uint8_t> bytes(words_.size() * 8);
        std::memcpy(bytes.data(), words_.data(), bytes.size());
        return bytes;
    };
    put(serial_checksum(bytes_of_all()));
    return bytes_of_all();
}

WordReader::WordReader(std::span<const std::uint8_t> bytes, std::uint64_t magic,
                       const char* refusal_text)
    : bytes_(bytes), refusal_(refusal_text) {
    if (bytes.size() < 16 || bytes.size() % 8 != 0) refuse("cut off");
    if (static_cast<std::uint64_t>(get()) != magic) refuse("another format, version or byte order");
    bytes_ = bytes.last(8);
    if (static_cast<std::uint64_t>(get()) != serial_checksum(bytes.first(bytes.size() - 8)))
        refuse("changed since they were written");
    bytes_ = bytes.subspan(8, bytes.size() - 16);
}

void WordReader::refuse(const std::string& what) const {
    throw make_error(ErrorCode::invalid_argument, refusal_, what);
}

std::int64_t WordReader::get() {
    if (bytes_.empty()) refuse("cut off");
    std::int64_t word = 0;
    std::memcpy(&word, bytes_.data(), 8);
    bytes_ = bytes_.subspan(8);
    return word;
}

std::int64_t WordReader::get_count(std::int64_t words_per_item, std::int64_t items_per_word) {
    const std::int64_t count = get();
    if (count < 0 || count > left() / words_per_item * items_per_word)
        refuse("fewer items than told");
    return count;
}

std::vector<std::uint8_t> AddressRelation::to_bytes() const {
    WordWriter out(serial_magic);
    out.put_all(
        {static_cast<std::int64_t>(encoding()), source_elem_bytes(), destination_elem_bytes()});
    write(*storage_, out);
    return out.finish();
}

AddressRelation AddressRelation::from_bytes(std::span<const std::uint8_t> bytes,
                                            std::int64_t elems_limit) {
    WordReader in(bytes, serial_magic, refusal);
    const auto encoding = static_cast<std::size_t>(in.get());
    const auto elem = read_record<AddressPair>(in);
    for (const Side side : both_sides)
        if (elem[side] < 1 || elem[side] > largest_elem_bytes)
            refuse_serial("an element size out of range");
    if (encoding >= readers.size()) refuse_serial("an unknown encoding");
    StoragePtr storage = readers[encoding](elem, in);
    if (in.left() != 0) refuse_serial("more than a relation");
    if (storage->elems > elems_limit)
        throw make_error(ErrorCode::out_of_range, "a relation of ", storage->elems,
                         " elements, where at most ", elems_limit, " are taken");
    return AddressRelation(std::move(storage));
}

}  // namespace datamover
