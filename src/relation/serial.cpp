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
#include "offsets.hpp"
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
    out.put(s.size());
    out.put_all(s.source);
    out.put_all(s.destination);
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
        out.put_all({nest.source, nest.destination});
        out.put_all(std::vector<std::int64_t>(shape, shape + 1 + 3 * *shape));
    }
}

void write(const OffsetsStorage& s, WordWriter& out) {
    out.put(s.source_unit);
    out.put(s.destination_unit);
    out.put(s.chunks.size());
    for (const OffsetChunk& c : s.chunks) {
        out.put(c.elems);
        write_record(c.source, out);
        write_record(c.destination, out);
    }
    out.put(s.data.size());
    for (std::size_t i = 0; i < s.data.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, s.data.data() + i, std::min<std::size_t>(8, s.data.size() - i));
        out.put(word);
    }
}

void count_elems(std::int64_t& elems, std::int64_t more) {
    if (more < 1 || more > most_elems - elems) refuse_serial("a length out of range");
    elems += more;
}

void require_row(std::int64_t start, std::int64_t elems, std::int64_t step) {
    if (!row_fits(start, elems, step)) refuse_serial("addresses beyond 2^62");
}

StoragePtr read_pairs(std::shared_ptr<PairsStorage> s, WordReader& in) {
    const std::int64_t n = in.get_count(2);
    for (auto* side : {&s->source, &s->destination})
        for (std::int64_t i = 0; i < n; ++i) {
            side->push_back(in.get());
            require_row(side->back(), 1, 0);
        }
    return s;
}

StoragePtr read_blocks(std::shared_ptr<BlocksStorage> s, WordReader& in) {
    s->blocks = read_records<Block>(in);
    for (const Block& b : s->blocks) {
        count_elems(s->elems, b.elems);
        require_row(b.source, b.elems, s->source_elem_bytes);
        require_row(b.destination, b.elems, s->destination_elem_bytes);
    }
    return s;
}

/// Follows the differences without moving anything.
class SymbolCheck {
public:
    void push(const Symbol& s) {
        count_elems(elems, s.length);
        // The elements follow the address that was reached before.
        require_row(source_, s.length + 1, s.source_difference);
        require_row(destination_, s.length + 1, s.destination_difference);
        source_ += s.length * s.source_difference;
        destination_ += s.length * s.destination_difference;
    }
    std::int64_t elems = 0;

private:
    std::int64_t source_ = 0;
    std::int64_t destination_ = 0;
};

StoragePtr read_runs(std::shared_ptr<RunsStorage> s, WordReader& in) {
    s->symbols = read_records<Symbol>(in);
    SymbolCheck check;
    for (const Symbol& symbol : s->symbols) check.push(symbol);
    s->elems = check.elems;
    return s;
}

StoragePtr read_dictionary(std::shared_ptr<DictionaryStorage> s, WordReader& in) {
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
    SymbolCheck check;
    if (s->first.length < 0 || (s->first.length == 0 && s->keys > 0))
        refuse_serial("a dictionary without a beginning");
    if (s->first.length > 0) check.push(s->first);
    for (std::int64_t i = 0; i < s->keys; ++i) {
        if (s->key(i) >= s->table.size()) refuse_serial("a key without a symbol");
        check.push(s->symbol(i));
    }
    s->elems = check.elems;
    return s;
}

using Tables = std::vector<std::shared_ptr<const AxisTable>>;

/// A table, and the greatest magnitude of its positions.
struct ReadTable {
    std::shared_ptr<const AxisTable> table;
    PerSide<std::int64_t> reach;
};

ReadTable read_table(WordReader& in) {
    const std::int64_t periods = in.get();
    const std::int64_t source_period = in.get();
    const std::int64_t destination_period = in.get();
    std::vector<AxisRun> runs = read_records<AxisRun>(in);
    std::vector<AxisRun> tail = read_records<AxisRun>(in);
    // Else a table could be longer than the work that it stands for.
    if (periods == 0 && !runs.empty()) refuse_serial("a table with runs that come in no period");
    ReadTable read{std::make_shared<const AxisTable>(std::move(runs), periods, source_period,
                                                     destination_period, std::move(tail)),
                   {}};
    for (const Side side : both_sides) {
        const auto reach = reach_of(*read.table, side);
        if (!reach) refuse_serial("positions beyond 2^62");
        read.reach[side] = *reach;
    }
    return read;
}

/// Reads a nest, and lists the tables that it uses.
Nest read_nest(const std::vector<ReadTable>& tables, WordReader& in, Tables& used) {
    Nest nest;
    used.clear();
    nest.source = in.get();
    nest.destination = in.get();
    nest.axes.resize(static_cast<std::size_t>(in.get_count(3)));
    std::vector<PerSide<std::int64_t>> reach;
    for (NestAxis& axis : nest.axes) {
        axis.count = in.get();
        axis.source_stride = in.get();
        axis.destination_stride = in.get();
        if (axis.count < 0) {
            if (-1 - axis.count >= static_cast<std::int64_t>(tables.size()))
                refuse_serial("an axis whose table is missing");
            const ReadTable& read = tables[static_cast<std::size_t>(-1 - axis.count)];
            axis.table = read.table.get();
            axis.count = axis.table->size();
            reach.push_back(read.reach);
            used.push_back(read.table);
        } else {
            reach.push_back({axis.count - 1, axis.count - 1});
        }
        if (axis.count < 1) refuse_serial("an axis without positions");
    }
    if (const char* excess = excess_of(nest, reach)) refuse_serial(excess);
    // No more axes are left than a nest of so many elements can have: loops nest as deep.
    fold_nest(nest);
    return nest;
}

StoragePtr read_product(std::int64_t source, std::int64_t destination, WordReader& in) {
    ProductBuilder builder(source, destination);
    std::vector<ReadTable> tables;
    for (std::int64_t n = in.get_count(5); n > 0; --n) tables.push_back(read_table(in));
    Tables used;
    for (std::int64_t n = in.get_count(3); n > 0; --n) {
        const Nest nest = read_nest(tables, in, used);
        std::int64_t elems = builder.elems();
        count_elems(elems, nest.size());
        builder.append(nest, used);
    }
    return builder.finish();
}

OffsetSide read_side(std::int64_t elems, std::int64_t unit, WordReader& in) {
    const auto side = read_record<OffsetSide>(in);
    const bool known = side.width >= 0 && (side.width <= 4 || side.width == 8);
    if (!known || side.at < 0) refuse_serial("offsets of an unknown width");
    require_row(side.base, elems, side.step);
    if (side.width > 0 && unit < 1) refuse_serial("offsets without a unit");
    return side;
}

/// Every offset of a chunk must lie within the data and lead to an address within range.
void require_offsets(const OffsetsStorage& s, const OffsetChunk& chunk, Side side) {
    const OffsetSide& own = chunk.side(side);
    if (own.width == 0) return;
    const auto size = static_cast<std::int64_t>(s.data.size()) - offset_padding_bytes;
    if (own.at > size || chunk.elems * own.width > size - own.at)
        refuse_serial("offsets beyond the data");
    for (std::int64_t i = 0; i < chunk.elems; ++i) {
        std::uint64_t offset = 0;
        std::memcpy(&offset, s.data.data() + own.at + i * own.width,
                    static_cast<std::size_t>(own.width));
        if (offset >= static_cast<std::uint64_t>(largest_address))
            refuse_serial("an offset too large");
        require_row(own.base, static_cast<std::int64_t>(offset) + 1, s.unit(side));
    }
}

StoragePtr read_offsets(std::shared_ptr<OffsetsStorage> s, WordReader& in) {
    s->source_unit = in.get();
    s->destination_unit = in.get();
    const std::int64_t chunks = in.get_count(9);
    for (std::int64_t i = 0; i < chunks; ++i) {
        OffsetChunk c;
        c.elems = in.get();
        count_elems(s->elems, c.elems);
        if (c.elems > longest_chunk_elems) refuse_serial("a chunk too long");
        c.source = read_side(c.elems, s->source_unit, in);
        c.destination = read_side(c.elems, s->destination_unit, in);
        s->chunks.push_back(c);
    }
    const std::int64_t bytes = in.get();
    if (bytes < offset_padding_bytes || (bytes - 1) / 8 >= in.left())
        refuse_serial("offsets cut off");
    for (std::int64_t i = 0; i < bytes; i += 8) {
        const std::int64_t word = in.get();
        const auto* from = reinterpret_cast<const unsigned char*>(&word);
        s->data.insert(s->data.end(), from, from + std::min<std::int64_t>(8, bytes - i));
    }
    for (const OffsetChunk& c : s->chunks) {
        require_offsets(*s, c, Side::source);
        require_offsets(*s, c, Side::destination);
    }
    return s;
}

StoragePtr read_storage(std::int64_t encoding, std::int64_t source, std::int64_t destination,
                        WordReader& in) {
    switch (encoding) {
        case 0:
            return read_pairs(std::make_shared<PairsStorage>(source, destination), in);
        case 1:
            return read_blocks(std::make_shared<BlocksStorage>(source, destination), in);
        case 2:
            return read_runs(std::make_shared<RunsStorage>(source, destination), in);
        case 3:
            return read_dictionary(std::make_shared<DictionaryStorage>(source, destination), in);
        case 4:
            return read_product(source, destination, in);
        case 5:
            return read_offsets(std::make_shared<OffsetsStorage>(source, destination), in);
        default:
            refuse_serial("an unknown encoding");
    }
}

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
    switch (encoding()) {
        case Encoding::pairs:
            write(static_cast<const PairsStorage&>(*storage_), out);
            break;
        case Encoding::blocks:
            write_records(static_cast<const BlocksStorage&>(*storage_).blocks, out);
            break;
        case Encoding::runs:
            write_records(static_cast<const RunsStorage&>(*storage_).symbols, out);
            break;
        case Encoding::dictionary:
            write(static_cast<const DictionaryStorage&>(*storage_), out);
            break;
        case Encoding::product:
            write(static_cast<const ProductStorage&>(*storage_), out);
            break;
        case Encoding::offsets:
            write(static_cast<const OffsetsStorage&>(*storage_), out);
            break;
    }
    return out.finish();
}

AddressRelation AddressRelation::from_bytes(std::span<const std::uint8_t> bytes,
                                            std::int64_t elems_limit) {
    WordReader in(bytes, serial_magic, refusal);
    const std::int64_t encoding = in.get();
    const std::int64_t source = in.get();
    const std::int64_t destination = in.get();
    if (source < 1 || destination < 1 || source > largest_elem_bytes ||
        destination > largest_elem_bytes)
        refuse_serial("an element size out of range");
    StoragePtr storage = read_storage(encoding, source, destination, in);
    if (in.left() != 0) refuse_serial("more than a relation");
    if (storage->size() > elems_limit)
        throw make_error(ErrorCode::out_of_range, "a relation of ", storage->size(),
                         " elements, where at most ", elems_limit, " are taken");
    return AddressRelation(std::move(storage));
}

}  // namespace datamover
