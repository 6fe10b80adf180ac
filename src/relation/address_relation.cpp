// SPDX-License-Identifier: BSD-3-Clause
// What is a relation made from, and what can be asked of it?
#include "datamover/address_relation.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "copy_loops.hpp"
#include "datamover/error.hpp"
#include "encodings.hpp"
#include "offsets.hpp"
#include "pair_scan.hpp"

namespace datamover {
namespace {

constexpr std::array<const char*, 6> encoding_names{"pairs",      "blocks",  "runs",
                                                    "dictionary", "product", "offsets"};

void require_elem_bytes(std::int64_t source, std::int64_t destination) {
    if (source >= 1 && destination >= 1) return;
    throw Error(ErrorCode::invalid_argument, "element sizes must be at least 1 byte, got " +
                                                 std::to_string(source) + " and " +
                                                 std::to_string(destination));
}

/// Addresses must lie in [0, 2^63) also when they are multiplied by the element size.
void require_addresses(const char* side, std::span<const std::int64_t> addresses,
                       std::int64_t elem_bytes) {
    if (addresses.empty()) return;
    const auto [low, high] =
        copy_loops().scan.range(addresses.data(), static_cast<std::int64_t>(addresses.size()));
    if (low >= 0 && high < std::numeric_limits<std::int64_t>::max() / elem_bytes) return;
    throw Error(ErrorCode::invalid_argument,
                std::string("element addresses must be >= 0 and below 2^63 bytes, the ") + side +
                    " holds " + std::to_string(low < 0 ? low : high));
}

StoragePtr empty_storage() {
    static const StoragePtr empty = std::make_shared<ProductStorage>(1, 1);
    return empty;
}

}  // namespace

const char* encoding_name(Encoding encoding) noexcept {
    const auto i = static_cast<std::size_t>(encoding);
    return i < encoding_names.size() ? encoding_names[i] : "unknown";
}

Encoding encoding_from_name(const std::string& name) {
    for (std::size_t i = 0; i < encoding_names.size(); ++i)
        if (name == encoding_names[i]) return static_cast<Encoding>(i);
    throw Error(ErrorCode::invalid_argument,
                "unknown encoding \"" + name +
                    "\"; known are pairs, blocks, runs, dictionary, product, offsets");
}

AddressRelation::AddressRelation() : storage_(empty_storage()) {}

AddressRelation AddressRelation::from_pairs(std::span<const std::int64_t> source,
                                            std::span<const std::int64_t> destination,
                                            std::int64_t source_elem_bytes,
                                            std::int64_t destination_elem_bytes) {
    require_elem_bytes(source_elem_bytes, destination_elem_bytes);
    if (source.size() != destination.size())
        throw Error(ErrorCode::mismatch, "source holds " + std::to_string(source.size()) +
                                             " addresses, destination " +
                                             std::to_string(destination.size()));
    require_addresses("source", source, source_elem_bytes);
    require_addresses("destination", destination, destination_elem_bytes);
    return AddressRelation(
        encode_pair_list({source.data(), destination.data(), source.size(), source_elem_bytes,
                          destination_elem_bytes, source_elem_bytes, destination_elem_bytes}));
}

AddressRelation AddressRelation::from_byte_pairs(std::vector<std::int64_t> source_bytes,
                                                 std::vector<std::int64_t> destination_bytes,
                                                 std::int64_t source_elem_bytes,
                                                 std::int64_t destination_elem_bytes) {
    require_elem_bytes(source_elem_bytes, destination_elem_bytes);
    if (source_bytes.size() != destination_bytes.size())
        throw Error(ErrorCode::mismatch, "source holds " + std::to_string(source_bytes.size()) +
                                             " addresses, destination " +
                                             std::to_string(destination_bytes.size()));
    return AddressRelation(
        encode_pair_list({source_bytes.data(), destination_bytes.data(), source_bytes.size(), 1, 1,
                          source_elem_bytes, destination_elem_bytes}));
}

AddressRelation AddressRelation::from_products(std::vector<Product> products,
                                               std::int64_t source_elem_bytes,
                                               std::int64_t destination_elem_bytes) {
    require_elem_bytes(source_elem_bytes, destination_elem_bytes);
    auto storage = std::make_shared<ProductStorage>(source_elem_bytes, destination_elem_bytes);
    for (const Product& product : products) storage->append(product);
    return AddressRelation(std::move(storage));
}

AddressRelation AddressRelation::encode(Encoding encoding) const {
    return AddressRelation(encode_as(encoding, storage_));
}

Encoding AddressRelation::encoding() const {
    return storage_->encoding();
}
std::int64_t AddressRelation::nbytes() const {
    return storage_->nbytes();
}
std::int64_t AddressRelation::size() const {
    return storage_->size();
}
std::int64_t AddressRelation::source_elem_bytes() const {
    return storage_->source_elem_bytes;
}
std::int64_t AddressRelation::destination_elem_bytes() const {
    return storage_->destination_elem_bytes;
}

void AddressRelation::for_each_run(
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) const {
    const std::int64_t source_elem = source_elem_bytes();
    const std::int64_t destination_elem = destination_elem_bytes();
    Block held;
    auto add = [&](std::int64_t s, std::int64_t d, std::int64_t elems) {
        if (held.elems > 0 && held.source + held.elems * source_elem == s &&
            held.destination + held.elems * destination_elem == d) {
            held.elems += elems;
            return;
        }
        if (held.elems > 0) visit(held.source, held.destination, held.elems);
        held = {s, d, elems};
    };
    storage_->visit([&](const StridedRun& r) {
        if (r.source_step == source_elem && r.destination_step == destination_elem) {
            add(r.source, r.destination, r.elems);
            return;
        }
        for (std::int64_t i = 0; i < r.elems; ++i)
            add(r.source + i * r.source_step, r.destination + i * r.destination_step, 1);
    });
    if (held.elems > 0) visit(held.source, held.destination, held.elems);
}

void AddressRelation::to_pairs(std::vector<std::int64_t>& source_bytes,
                               std::vector<std::int64_t>& destination_bytes) const {
    source_bytes.clear();
    destination_bytes.clear();
    if (const auto* pairs = dynamic_cast<const PairsStorage*>(storage_.get())) {
        source_bytes = pairs->source;
        destination_bytes = pairs->destination;
        return;
    }
    if (const auto* offsets = dynamic_cast<const OffsetsStorage*>(storage_.get())) {
        read_all_addresses(*offsets, true, source_bytes);
        read_all_addresses(*offsets, false, destination_bytes);
        return;
    }
    source_bytes.reserve(static_cast<std::size_t>(size()));
    destination_bytes.reserve(static_cast<std::size_t>(size()));
    storage_->visit([&](const StridedRun& r) {
        for (std::int64_t i = 0; i < r.elems; ++i) {
            source_bytes.push_back(r.source + i * r.source_step);
            destination_bytes.push_back(r.destination + i * r.destination_step);
        }
    });
}

void AddressRelation::copy(const void* source, void* destination,
                           const ElementUpdate& update) const {
    require_unambiguous(update);
    kernel(update)(source, destination);
}

void AddressRelation::gather(const void* source, void* buffer) const {
    source_half().kernel()(source, buffer);
}

void AddressRelation::scatter(const void* buffer, void* destination,
                              const ElementUpdate& update) const {
    require_unambiguous(update);
    const std::int64_t message = scalar_bytes(update.source_type);
    destination_half(message).kernel(update)(buffer, destination);
}

}  // namespace datamover
