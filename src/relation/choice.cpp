// SPDX-License-Identifier: BSD-3-Clause
// Choice of a relation's encoding, and conversion between encodings.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "copy_loops.hpp"
#include "datamover/advanced/decoding_costs.hpp"
#include "encodings.hpp"
#include "geometry/make_error.hpp"
#include "nest_folder.hpp"
#include "offsets.hpp"
#include "product_builder.hpp"
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

/// The smallest encoding among those that decode about as fast as the fastest. The product is
/// nullptr where the addresses show too little regularity.
StoragePtr best_of(const AddressRelation::Storage& from, const Counts& counts, StoragePtr product,
                   StoragePtr offsets) {
    const DecodingCosts costs = decoding_costs();
    std::vector<StoragePtr> candidates;
    if (product != nullptr) candidates.push_back(std::move(product));
    const double symbols = costs.symbol * static_cast<double>(counts.symbols);
    const double plain = costs.pair * static_cast<double>(counts.elems);
    candidates.push_back(std::move(offsets));
    if (costs.block * static_cast<double>(counts.blocks) < 2 * plain)
        candidates.push_back(encode_blocks(from));
    if (symbols < 2 * plain) {
        candidates.push_back(encode_runs(from));
        candidates.push_back(encode_dictionary(*candidates.back()));
    }
    double fastest = nanoseconds(costs, Encoding::pairs, counts, 16 * counts.elems);
    for (const StoragePtr& c : candidates)
        fastest = std::min(fastest, nanoseconds(costs, c->encoding(), counts, c->nbytes()));
    StoragePtr best;
    for (const StoragePtr& c : candidates) {
        if (nanoseconds(costs, c->encoding(), counts, c->nbytes()) >
            costs.tolerated_slowness * fastest)
            continue;
        if (best == nullptr || c->nbytes() < best->nbytes()) best = c;
    }
    return best != nullptr ? best : encode_pairs(from);
}

/// Folds rows into products while they come; gives up when they show little regularity.
class ProductAttempt {
public:
    ProductAttempt(std::int64_t source_elem, std::int64_t destination_elem)
        : product_(source_elem, destination_elem) {}

    /// False when it has given up.
    bool push(const StridedRun& run) {
        folder_.push(run, [&](const Nest& nest) { keep(nest); });
        return !given_up_;
    }
    /// The product, or nullptr.
    StoragePtr finish() {
        if (!given_up_) folder_.finish([&](const Nest& nest) { keep(nest); });
        return given_up_ ? nullptr : product_.finish();
    }

private:
    void keep(const Nest& nest) {
        Nest folded = nest;
        fold_axes(folded.axes);
        product_.append(folded);
        given_up_ = product_.nests() > few_nests &&
                    product_.nests() * least_elems_per_nest > product_.elems();
    }

    ProductBuilder product_;
    NestFolder folder_;
    bool given_up_ = false;
};

/// A product so small that nothing can be smaller: no other encoding needs to be tried.
bool settles(const StoragePtr& product, std::int64_t elems) {
    constexpr std::int64_t smallest_offsets_bytes = sizeof(OffsetChunk) + offset_padding_bytes;
    return product != nullptr && (product->nbytes() <= smallest_offsets_bytes ||
                                  product->nbytes() <= elems / least_elems_per_nest);
}

std::int64_t nests_of(const StoragePtr& product) {
    if (product == nullptr) return 0;
    return static_cast<std::int64_t>(static_cast<const ProductStorage&>(*product).nests.size());
}

}  // namespace

StoragePtr encode_from(Encoding encoding, const AddressRelation::Storage& from) {
    switch (encoding) {
        case Encoding::pairs:
            return encode_pairs(from);
        case Encoding::blocks:
            return encode_blocks(from);
        case Encoding::runs:
            return encode_runs(from);
        case Encoding::dictionary:
            return encode_dictionary(from);
        case Encoding::product:
            return encode_product(from);
        case Encoding::offsets:
            return encode_offsets(from);
    }
    throw Error(ErrorCode::invalid_argument, "unknown encoding");
}

StoragePtr encode_as(Encoding encoding, const StoragePtr& from) {
    if (from->encoding() == encoding) return from;
    StoragePtr made = encode_from(encoding, *from);
    pass_on_repeats(*from, *made);
    return made;
}

StoragePtr encode_best(const PairsStorage& pairs) {
    return encode_pair_list({pairs.source.data(), pairs.destination.data(), pairs.source.size(), 1,
                             1, pairs.source_elem_bytes, pairs.destination_elem_bytes});
}

StoragePtr encode_pair_list(const PairList& list) {
    ProductAttempt attempt(list.source_elem_bytes, list.destination_elem_bytes);
    scan_pairs(list, [&](const StridedRun& run) { return attempt.push(run); });
    StoragePtr product = attempt.finish();
    if (list.size == 0 || settles(product, static_cast<std::int64_t>(list.size))) return product;
    const RelationView view(Encoding::pairs, static_cast<std::int64_t>(list.size),
                            list.source_elem_bytes, list.destination_elem_bytes,
                            [&](const RunVisitor& visit) {
                                scan_pairs(list, [&](const StridedRun& run) {
                                    visit(run);
                                    return true;
                                });
                            });
    DifferenceCounts found;
    StoragePtr offsets = encode_offsets(list, found);
    const std::int64_t n = offsets->size();
    const Counts counts{n, n - found.touching, std::min(n, found.changes + 2), nests_of(product)};
    return best_of(view, counts, std::move(product), std::move(offsets));
}

namespace {

struct SharedCosts {
    std::mutex mutex;
    DecodingCosts costs;
};

SharedCosts& shared_costs() {
    static SharedCosts shared;
    return shared;
}

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
    const std::lock_guard<std::mutex> lock(shared_costs().mutex);
    return shared_costs().costs;
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
    const std::lock_guard<std::mutex> lock(shared_costs().mutex);
    shared_costs().costs = costs;
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
            counts.blocks = static_cast<std::int64_t>(blocks->blocks.size());
        if (const auto* runs = dynamic_cast<const RunsStorage*>(made.get()))
            counts.symbols = static_cast<std::int64_t>(runs->symbols.size());
        if (e == Encoding::product) counts.nests = nests_of(made);
        choice.estimates.push_back(
            {e, made->nbytes(), 1e-9 * nanoseconds(costs, e, counts, made->nbytes())});
    }
    return choice;
}

}  // namespace datamover
