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
            std::array{s.difference.source, s.difference.destination, s.length});
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
    scan_pairs(list_of(at, elem_bytes), visit);
}

AddressLists addresses_of(const RelationWalk& walk) {
    AddressLists at;
    for (const Side side : both_sides) at[side].reserve(static_cast<std::size_t>(walk.elems));
    walk.visit([&](const StridedRun& r) {
        for (std::int64_t i = 0; i < r.elems; ++i) {
            at.source.push_back(r.start.source + i * r.step.source);
            at.destination.push_back(r.start.destination + i * r.step.destination);
        }
    });
    return at;
}

StoragePtr encode_pairs(const RelationWalk& walk) {
    auto result = std::make_shared<PairsStorage>(walk.elem_bytes);
    result->at = addresses_of(walk);
    result->elems = walk.elems;
    return result;
}

// Blocks: addresses and lengths of contiguous elements.

void BlocksStorage::visit(const RunVisitor& visit) const {
    for_each_row(*this, visit);
}

StoragePtr encode_blocks(const RelationWalk& walk) {
    auto result = std::make_shared<BlocksStorage>(walk.elem_bytes);
    // To count them first takes a tenth of what a growing list does.
    std::size_t count = 0;
    walk_blocks(walk, [&](const Block&) { ++count; });
    result->blocks.reserve(count);
    walk_blocks(walk, [&](const Block& block) { result->blocks.push_back(block); });
    result->elems = walk.elems;
    return result;
}

// Runs: run-length encoded differences.

void RunsStorage::visit(const RunVisitor& visit) const {
    for_each_row(*this, visit);
}

std::shared_ptr<RunsStorage> encode_runs(const RelationWalk& walk) {
    auto result = std::make_shared<RunsStorage>(walk.elem_bytes);
    std::vector<Symbol>& symbols = result->symbols;
    const auto append = [&](AddressPair difference, std::int64_t length) {
        if (!symbols.empty() && symbols.back().difference == difference)
            symbols.back().length += length;
        else
            symbols.push_back({difference, length});
    };
    AddressPair at;
    walk.visit([&](const StridedRun& r) {
        append(r.start - at, 1);
        if (r.elems > 1) append(r.step, r.elems - 1);
        at = r.start + (r.elems - 1) * r.step;
    });
    result->elems = walk.elems;
    return result;
}

// The dictionary: keys of fixed width into a table of the distinct differences.

void DictionaryStorage::visit(const RunVisitor& visit) const {
    for_each_row(*this, visit);
}

StoragePtr encode_dictionary(const RunsStorage& runs) {
    auto result = std::make_shared<DictionaryStorage>(runs.elem_bytes);
    result->elems = runs.elems;
    if (runs.symbols.empty()) return result;
    result->first = runs.symbols.front();
    std::unordered_map<Symbol, std::uint32_t, SymbolHash> numbers;
    std::vector<std::uint32_t> keys;
    keys.reserve(runs.symbols.size());
    for (auto s = runs.symbols.begin() + 1; s != runs.symbols.end(); ++s) {
        const auto [found, fresh] =
            numbers.try_emplace(*s, static_cast<std::uint32_t>(numbers.size()));
        if (fresh) result->table.push_back(*s);
        if (result->table.size() > 0xFFFFFFFFu)
            throw Error(ErrorCode::unsupported,
                        "a dictionary holds at most 2^32 - 1 distinct symbols");
        keys.push_back(found->second);
    }
    result->keys = static_cast<std::int64_t>(keys.size());
    const int log2 = key_bits_log2_for(result->table.size());
    result->key_bits_log2 = log2;
    result->words.assign(((keys.size() << log2) + 63) / 64, 0);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::size_t bit = i << log2;
        result->words[bit >> 6] |= static_cast<std::uint64_t>(keys[i]) << (bit & 63);
    }
    return result;
}

}  // namespace datamover
