// SPDX-License-Identifier: BSD-3-Clause
// Address relations: construction and queries.
#include "datamover/advanced/address_relation.hpp"

#include <array>
#include <iterator>
#include <utility>

#include "copy_loops.hpp"
#include "encodings.hpp"
#include "geometry/make_error.hpp"
#include "product_builder.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

constexpr std::array<const char*, 6> encoding_names{"pairs",      "blocks",  "runs",
                                                    "dictionary", "product", "offsets"};

void require_elem_bytes(std::int64_t source, std::int64_t destination) {
    if (source >= 1 && destination >= 1 && source <= largest_elem_bytes &&
        destination <= largest_elem_bytes)
        return;
    throw make_error(ErrorCode::invalid_argument, "element sizes must be 1 to 2^40 bytes, got ",
                     source, " and ", destination);
}

/// Throws unless both lists have as many addresses, all of them in [lowest, highest] of their side.
void require_lists(const PerSide<std::span<const std::int64_t>>& lists, AddressPair lowest,
                   AddressPair highest, const char* refusal) {
    if (lists.source.size() != lists.destination.size())
        throw make_error(ErrorCode::mismatch, "source holds ", lists.source.size(),
                         " addresses, destination ", lists.destination.size());
    for (const Side side : both_sides) {
        if (lists[side].empty()) continue;
        const auto [low, high] =
            copy_loops().scan.range(lists[side].data(), std::ssize(lists[side]));
        if (low < lowest[side] || high > highest[side])
            throw make_error(ErrorCode::invalid_argument, refusal, ", the ", side_name(side),
                             " holds ", low < lowest[side] ? low : high);
    }
}

}  // namespace

const char* encoding_name(Encoding encoding) noexcept {
    const auto i = static_cast<std::size_t>(encoding);
    return i < encoding_names.size() ? encoding_names[i] : "unknown";
}

Encoding encoding_from_name(const std::string& name) {
    for (std::size_t i = 0; i < encoding_names.size(); ++i)
        if (name == encoding_names[i]) return static_cast<Encoding>(i);
    throw make_error(ErrorCode::invalid_argument, "unknown encoding \"", name,
                     "\"; known are pairs, blocks, runs, dictionary, product, offsets");
}

AddressRelation::AddressRelation()
    : RelationCopies([] {
          static const StoragePtr empty = std::make_shared<ProductStorage>(AddressPair{1, 1});
          return empty;
      }()) {}

AddressRelation AddressRelation::from_pairs(std::span<const std::int64_t> source,
                                            std::span<const std::int64_t> destination,
                                            std::int64_t source_elem_bytes,
                                            std::int64_t destination_elem_bytes) {
    require_elem_bytes(source_elem_bytes, destination_elem_bytes);
    require_lists(
        {source, destination}, {0, 0},
        {largest_address / source_elem_bytes - 1, largest_address / destination_elem_bytes - 1},
        "element addresses must be >= 0 and below 2^62 bytes");
    const AddressPair elem_bytes{source_elem_bytes, destination_elem_bytes};
    return AddressRelation(encode_best(
        {{source.data(), destination.data()}, std::ssize(source), elem_bytes, elem_bytes}));
}

AddressRelation AddressRelation::from_byte_pairs(std::vector<std::int64_t> source_bytes,
                                                 std::vector<std::int64_t> destination_bytes,
                                                 std::int64_t source_elem_bytes,
                                                 std::int64_t destination_elem_bytes) {
    require_elem_bytes(source_elem_bytes, destination_elem_bytes);
    require_lists({source_bytes, destination_bytes}, {-largest_address, -largest_address},
                  {largest_address, largest_address}, "byte addresses must lie within 2^62");
    const AddressLists at{std::move(source_bytes), std::move(destination_bytes)};
    return AddressRelation(encode_best(list_of(at, {source_elem_bytes, destination_elem_bytes})));
}

AddressRelation AddressRelation::from_products(std::vector<Product> products,
                                               std::int64_t source_elem_bytes,
                                               std::int64_t destination_elem_bytes) {
    require_elem_bytes(source_elem_bytes, destination_elem_bytes);
    ProductBuilder builder({source_elem_bytes, destination_elem_bytes});
    for (const Product& product : products) builder.append(product);
    return AddressRelation(builder.finish());
}

void AddressRelation::check_expandable(std::int64_t max_elems) const {
    if (size() > max_elems)
        throw make_error(ErrorCode::invalid_argument, "the relation has ", size(),
                         " elements, more than max_elems = ", max_elems);
}

AddressRelation AddressRelation::encode(Encoding encoding, std::int64_t max_elems) const {
    if (encoding != this->encoding() && encoding != Encoding::product) check_expandable(max_elems);
    return AddressRelation(encode_as(encoding, storage_));
}

Encoding RelationQueries::encoding() const {
    return storage_->encoding;
}
std::int64_t RelationQueries::nbytes() const {
    return storage_->nbytes();
}
std::int64_t RelationQueries::size() const {
    return storage_->elems;
}
std::int64_t RelationQueries::source_elem_bytes() const {
    return storage_->elem_bytes.source;
}
std::int64_t RelationQueries::destination_elem_bytes() const {
    return storage_->elem_bytes.destination;
}

void RelationQueries::for_each_run(
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) const {
    walk_blocks(storage_->walk(), [&](const Block& block) {
        visit(block.start.source, block.start.destination, block.count);
    });
}

AddressLists addresses_of(const AddressRelation::Storage& storage) {
    if (const auto* pairs = dynamic_cast<const PairsStorage*>(&storage)) return pairs->at;
    const auto* offsets = dynamic_cast<const OffsetsStorage*>(&storage);
    if (offsets == nullptr) return addresses_of(storage.walk());
    AddressLists at;
    for (const Side side : both_sides) {
        at[side].resize(static_cast<std::size_t>(storage.elems));
        std::int64_t* to = at[side].data();
        for (const OffsetChunk& chunk : offsets->chunks) {
            offsets->read_addresses(chunk, side, 0, chunk.elems, to);
            to += chunk.elems;
        }
    }
    return at;
}

void RelationQueries::to_pairs(std::vector<std::int64_t>& source_bytes,
                               std::vector<std::int64_t>& destination_bytes) const {
    AddressLists at = addresses_of(*storage_);
    source_bytes = std::move(at.source);
    destination_bytes = std::move(at.destination);
}

// Results of queries on a relation, computed once.

RelationQueries::Storage::~Storage() {
    delete memo_.load(std::memory_order_acquire);
}

RelationMemo& RelationQueries::Storage::memo() const {
    RelationMemo* known = memo_.load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    auto fresh = std::make_unique<RelationMemo>();
    if (memo_.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
        return *fresh.release();
    return *known;
}

void pass_on_repeats(const AddressRelation::Storage& from, const AddressRelation::Storage& to) {
    if (!from.has_memo() || !from.memo().repeats.is_known()) return;
    to.memo().repeats.get([&] { return from.memo().repeats.get([] { return false; }); });
}

}  // namespace datamover
