// SPDX-License-Identifier: BSD-3-Clause
// The paper's four encodings (section 4) and their traversal.
#include <array>
#include <unordered_map>

#include "datamover/error.hpp"
#include "encodings.hpp"
#include "geometry/record_index.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

struct SymbolHash {
    std::size_t operator()(const Symbol& s) const {
        return geometry::hash_words(
            std::array{s.source_difference, s.destination_difference, s.length});
    }
};

int key_bits_log2_for(std::size_t distinct) {
    int log2 = 0;
    while (log2 < 5 && (std::uint64_t{1} << (1 << log2)) < distinct) ++log2;
    return log2;
}

}  // namespace

// Pairs: two addresses per element.

void PairsStorage::visit(const RunVisitor& visit) const {
    scan_pairs({source.data(), destination.data(), source.size(), 1, 1, source_elem_bytes,
                destination_elem_bytes},
               [&](const StridedRun& run) {
                   visit(run);
                   return true;
               });
}

StoragePtr encode_pairs(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<PairsStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    result->source.reserve(static_cast<std::size_t>(from.size()));
    result->destination.reserve(static_cast<std::size_t>(from.size()));
    from.visit([&](const StridedRun& r) {
        for (std::int64_t i = 0; i < r.elems; ++i) {
            result->source.push_back(r.source + i * r.source_step);
            result->destination.push_back(r.destination + i * r.destination_step);
        }
    });
    return result;
}

// Blocks: addresses and lengths of contiguous elements.

void BlocksStorage::visit(const RunVisitor& visit) const {
    for (const Block& b : blocks)
        visit({b.source, b.destination, b.elems, source_elem_bytes, destination_elem_bytes});
}

StoragePtr encode_blocks(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<BlocksStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    walk_blocks(from, [&](std::int64_t source, std::int64_t destination, std::int64_t elems) {
        result->blocks.push_back({source, destination, elems});
    });
    result->elems = from.size();
    return result;
}

// Runs: run-length encoded differences.

void RunsStorage::visit(const RunVisitor& visit) const {
    SymbolDecoder decoder(source_elem_bytes, destination_elem_bytes);
    for (const Symbol& symbol : symbols) decoder.push(symbol, visit);
    decoder.finish(visit);
}

StoragePtr encode_runs(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<RunsStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    std::vector<Symbol>& symbols = result->symbols;
    std::int64_t source = 0;
    std::int64_t destination = 0;
    auto append = [&](std::int64_t ds, std::int64_t dd, std::int64_t length) {
        if (!symbols.empty() && symbols.back().source_difference == ds &&
            symbols.back().destination_difference == dd)
            symbols.back().length += length;
        else
            symbols.push_back({ds, dd, length});
    };
    from.visit([&](const StridedRun& r) {
        append(r.source - source, r.destination - destination, 1);
        if (r.elems > 1) append(r.source_step, r.destination_step, r.elems - 1);
        source = r.source + (r.elems - 1) * r.source_step;
        destination = r.destination + (r.elems - 1) * r.destination_step;
    });
    result->elems = from.size();
    return result;
}

// The dictionary: keys of fixed width into a table of the distinct differences.

void DictionaryStorage::visit(const RunVisitor& visit) const {
    SymbolDecoder decoder(source_elem_bytes, destination_elem_bytes);
    for_each_symbol([&](const Symbol& symbol) { decoder.push(symbol, visit); });
    decoder.finish(visit);
}

StoragePtr encode_dictionary(const AddressRelation::Storage& from) {
    StoragePtr held;
    const auto* runs = dynamic_cast<const RunsStorage*>(&from);
    if (runs == nullptr) {
        held = encode_runs(from);
        runs = static_cast<const RunsStorage*>(held.get());
    }
    auto result =
        std::make_shared<DictionaryStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    std::unordered_map<Symbol, std::uint32_t, SymbolHash> numbers;
    std::vector<std::uint32_t> keys;
    keys.reserve(runs->symbols.size());
    if (!runs->symbols.empty()) result->first = runs->symbols.front();
    for (std::size_t i = 1; i < runs->symbols.size(); ++i) {
        const Symbol& s = runs->symbols[i];
        const auto [found, fresh] =
            numbers.try_emplace(s, static_cast<std::uint32_t>(numbers.size()));
        if (fresh) result->table.push_back(s);
        if (result->table.size() > 0xFFFFFFFFu)
            throw Error(ErrorCode::unsupported,
                        "a dictionary holds at most 2^32 - 1 distinct symbols");
        keys.push_back(found->second);
    }
    result->keys = static_cast<std::int64_t>(keys.size());
    result->key_bits_log2 = key_bits_log2_for(result->table.size());
    result->elems = from.size();
    const int log2 = result->key_bits_log2;
    result->words.assign((((keys.size()) << log2) + 63) / 64, 0);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::size_t bit = i << log2;
        result->words[bit >> 6] |= static_cast<std::uint64_t>(keys[i]) << (bit & 63);
    }
    return result;
}

}  // namespace datamover
