// SPDX-License-Identifier: BSD-3-Clause
// How is a relation kept as keys of fixed width into a table of its distinct difference symbols?
#include <unordered_map>

#include "datamover/error.hpp"
#include "symbol_decoder.hpp"

namespace datamover {
namespace {

struct SymbolHash {
    std::size_t operator()(const Symbol& s) const {
        std::uint64_t h = static_cast<std::uint64_t>(s.source_difference) * 0x9E3779B97F4A7C15u;
        h ^= (static_cast<std::uint64_t>(s.destination_difference) + (h >> 29)) *
             0xBF58476D1CE4E5B9u;
        h ^= (static_cast<std::uint64_t>(s.length) + (h >> 32)) * 0x94D049BB133111EBu;
        return static_cast<std::size_t>(h ^ (h >> 31));
    }
};

int key_bits_log2_for(std::size_t distinct) {
    int log2 = 0;
    while (log2 < 5 && (std::uint64_t{1} << (1 << log2)) < distinct) ++log2;
    return log2;
}

}  // namespace

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
