// SPDX-License-Identifier: BSD-3-Clause
// Choice of a relation's encoding, and conversion between encodings.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "copy_loops.hpp"
#include "datamover/advanced/decoding_costs.hpp"
#include "encodings.hpp"
#include "geometry/make_error.hpp"
#include "nest_folder.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

/// Regularity ends when more nests than this, and more than one per this many elements, are needed.
constexpr std::int64_t few_nests = 256;
constexpr std::int64_t least_elems_per_nest = 64;

struct Counts {
    std::int64_t elems = 0;
    std::int64_t blocks = 0;
    std::int64_t symbols = 0;
    std::int64_t nests = 0;  ///< of the product, where there is one
};

double nanoseconds(const DecodingCosts& costs, Encoding encoding, const Counts& counts,
                   std::int64_t nbytes) {
    const double read = costs.byte * static_cast<double>(nbytes);
    switch (encoding) {
        case Encoding::blocks:
            return read + costs.block * static_cast<double>(counts.blocks);
        case Encoding::runs:
        case Encoding::dictionary:
            return read + costs.symbol * static_cast<double>(counts.symbols);
        case Encoding::offsets:
            return read + costs.offset * static_cast<double>(counts.elems);
        case Encoding::product:
            // A nest of a product is decoded like a symbol; the loops within cost no more than any.
            return read + costs.symbol * static_cast<double>(counts.nests);
        case Encoding::pairs:
            break;
    }
    return read + costs.pair * static_cast<double>(counts.elems);
}

std::int64_t nests_of(const StoragePtr& product) {
    if (product == nullptr) return 0;
    return std::ssize(static_cast<const ProductStorage&>(*product).nests);
}

/// The smallest encoding among those that decode about as fast as the fastest. The product is
/// nullptr where the addresses show too little regularity.
StoragePtr best_of(const RelationWalk& walk, const Counts& counts, StoragePtr product,
                   StoragePtr offsets) {
    const DecodingCosts costs = decoding_costs();
    const auto cost = [&](const StoragePtr& s) {
        return nanoseconds(costs, s->encoding, counts, s->nbytes());
    };
    std::vector<StoragePtr> candidates;
    if (product != nullptr) candidates.push_back(std::move(product));
    candidates.push_back(std::move(offsets));
    const double plain = costs.pair * static_cast<double>(counts.elems);
    if (costs.block * static_cast<double>(counts.blocks) < 2 * plain)
        candidates.push_back(encode_blocks(walk));
    if (costs.symbol * static_cast<double>(counts.symbols) < 2 * plain) {
        const auto runs = encode_runs(walk);
        candidates.insert(candidates.end(), {runs, encode_dictionary(*runs)});
    }
    double fastest = nanoseconds(costs, Encoding::pairs, counts, 16 * counts.elems);
    for (const StoragePtr& c : candidates) fastest = std::min(fastest, cost(c));
    std::erase_if(candidates, [&](const StoragePtr& c) {
        return cost(c) > costs.tolerated_slowness * fastest;
    });
    if (candidates.empty()) return encode_pairs(walk);
    return *std::ranges::min_element(candidates, {},
                                     [](const StoragePtr& c) { return c->nbytes(); });
}

/// A product so small that nothing can be smaller: no other encoding needs to be tried.
bool settles(const StoragePtr& product, std::int64_t elems) {
    constexpr std::int64_t smallest_offsets_bytes = sizeof(OffsetChunk) + offset_padding_bytes;
    return product != nullptr && (product->nbytes() <= smallest_offsets_bytes ||
                                  product->nbytes() <= elems / least_elems_per_nest);
}

}  // namespace

StoragePtr encode_from(Encoding encoding, const RelationWalk& walk) {
    switch (encoding) {
        case Encoding::pairs:
            return encode_pairs(walk);
        case Encoding::blocks:
            return encode_blocks(walk);
        case Encoding::runs:
            return encode_runs(walk);
        case Encoding::dictionary:
            return encode_dictionary(*encode_runs(walk));
        case Encoding::product: {
            ProductFolder product(walk.elem_bytes);
            walk.visit([&](const StridedRun& run) { product.push(run); });
            return product.finish();
        }
        case Encoding::offsets: {
            DifferenceCounts ignored;
            return encode_offsets(list_of(addresses_of(walk), walk.elem_bytes), ignored);
        }
    }
    throw Error(ErrorCode::invalid_argument, "unknown encoding");
}

StoragePtr encode_as(Encoding encoding, const StoragePtr& from) {
    if (from->encoding == encoding) return from;
    StoragePtr made = encode_from(encoding, from->walk());
    pass_on_repeats(*from, *made);
    return made;
}

StoragePtr encode_best(const PairList& list) {
    ProductFolder regular(list.elem_bytes, few_nests, least_elems_per_nest);
    scan_pairs(list, [&](const StridedRun& run) { return regular.push(run); });
    StoragePtr product = regular.finish();
    const std::int64_t n = list.size;
    if (n == 0 || settles(product, n)) return product;
    DifferenceCounts found;
    StoragePtr offsets = encode_offsets(list, found);
    const Counts counts{n, n - found.touching, std::min(n, found.changes + 2), nests_of(product)};
    const auto visit = [&](const RunVisitor& visitor) { scan_pairs(list, visitor); };
    return best_of({list.elem_bytes, n, visit}, counts, std::move(product), std::move(offsets));
}

namespace {

constinit std::mutex costs_mutex;
constinit DecodingCosts costs_of_process;

std::string reason_for(Encoding chosen, const AddressRelation& relation) {
    if (chosen == Encoding::product)
        return concat("regular: ", relation.size(),
                      " elements are a few products, run in the order that memory likes best");
    return concat(
        "irregular: the smallest of the encodings that are predicted to be decoded at most ",
        decoding_costs().tolerated_slowness, " times as slowly as the fastest");
}

}  // namespace

DecodingCosts decoding_costs() {
    const std::lock_guard lock(costs_mutex);
    return costs_of_process;
}

void set_decoding_costs(const DecodingCosts& costs) {
    for (const double cost : {costs.pair, costs.block, costs.symbol, costs.offset, costs.byte})
        if (!(cost >= 0) || !std::isfinite(cost))
            throw make_error(ErrorCode::invalid_argument,
                             "costs of decoding must not be negative, got ", cost);
    if (!(costs.tolerated_slowness >= 1) || !std::isfinite(costs.tolerated_slowness))
        throw make_error(ErrorCode::invalid_argument,
                         "the tolerated slowness must be at least 1, got ",
                         costs.tolerated_slowness);
    const std::lock_guard lock(costs_mutex);
    costs_of_process = costs;
}

EncodingChoice explain_encoding(const AddressRelation& relation, std::int64_t most_elems) {
    EncodingChoice choice{relation.encoding(), {}, reason_for(relation.encoding(), relation)};
    if (relation.size() > most_elems) return choice;
    const DecodingCosts costs = decoding_costs();
    const StoragePtr& storage = RelationAccess::storage(relation);
    Counts counts{relation.size()};
    for (const Encoding e : {Encoding::pairs, Encoding::blocks, Encoding::runs,
                             Encoding::dictionary, Encoding::product, Encoding::offsets}) {
        const StoragePtr made = encode_as(e, storage);
        if (const auto* blocks = dynamic_cast<const BlocksStorage*>(made.get()))
            counts.blocks = std::ssize(blocks->blocks);
        if (const auto* runs = dynamic_cast<const RunsStorage*>(made.get()))
            counts.symbols = std::ssize(runs->symbols);
        if (e == Encoding::product) counts.nests = nests_of(made);
        choice.estimates.push_back(
            {e, made->nbytes(), 1e-9 * nanoseconds(costs, e, counts, made->nbytes())});
    }
    return choice;
}

}  // namespace datamover
