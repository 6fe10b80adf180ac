// SPDX-License-Identifier: BSD-3-Clause
// Reordering a relation by source or destination address.
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "encodings.hpp"
#include "pair_scan.hpp"

namespace datamover {
namespace {

constexpr int digit_bits = 11;
constexpr std::size_t buckets = std::size_t{1} << digit_bits;

struct AddressPair {
    std::int64_t first;
    std::int64_t second;
};

/// Least significant digit first, digits that all addresses share left out. Stable.
void radix_sort(std::vector<AddressPair>& pairs) {
    std::int64_t low = pairs.front().first;
    std::int64_t high = low;
    for (const AddressPair& p : pairs) {
        low = std::min(low, p.first);
        high = std::max(high, p.first);
    }
    const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    std::vector<AddressPair> other(pairs.size());
    std::uint64_t bits = 0;
    for (const AddressPair& p : pairs)
        bits |= static_cast<std::uint64_t>(p.first) - static_cast<std::uint64_t>(low);
    for (int shift = bits == 0 ? 64 : std::countr_zero(bits); shift < 64 && (range >> shift) != 0;
         shift += digit_bits) {
        std::array<std::size_t, buckets> start{};
        auto digit = [&](const AddressPair& p) {
            const auto key = static_cast<std::uint64_t>(p.first) - static_cast<std::uint64_t>(low);
            return (key >> shift) & (buckets - 1);
        };
        for (const AddressPair& p : pairs) ++start[digit(p)];
        std::exclusive_scan(start.begin(), start.end(), start.begin(), std::size_t{0});
        for (const AddressPair& p : pairs) other[start[digit(p)]++] = p;
        pairs.swap(other);
    }
}

void order_ties(std::vector<AddressPair>& pairs) {
    for (std::size_t i = 0; i < pairs.size();) {
        std::size_t j = i + 1;
        while (j < pairs.size() && pairs[j].first == pairs[i].first) ++j;
        if (j - i > 1)
            std::sort(
                pairs.begin() + static_cast<std::ptrdiff_t>(i),
                pairs.begin() + static_cast<std::ptrdiff_t>(j),
                [](const AddressPair& a, const AddressPair& b) { return a.second < b.second; });
        i = j;
    }
}

StoragePtr sorted(const AddressRelation& relation, Side by) {
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;
    relation.to_pairs(source, destination);
    std::vector<std::int64_t>& keys = by == Side::source ? source : destination;
    std::vector<std::int64_t>& others = by == Side::source ? destination : source;
    std::vector<AddressPair> pairs(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) pairs[i] = {keys[i], others[i]};
    radix_sort(pairs);
    order_ties(pairs);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        keys[i] = pairs[i].first;
        others[i] = pairs[i].second;
    }
    return encode_pair_list({source.data(), destination.data(), source.size(), 1, 1,
                             relation.source_elem_bytes(), relation.destination_elem_bytes()});
}

}  // namespace

AddressRelation AddressRelation::ordered_by_source(std::int64_t max_elems) const {
    check_expandable(max_elems);
    return empty() ? *this : AddressRelation(sorted(*this, Side::source));
}

AddressRelation AddressRelation::ordered_by_destination(std::int64_t max_elems) const {
    check_expandable(max_elems);
    return empty() ? *this : AddressRelation(sorted(*this, Side::destination));
}

}  // namespace datamover
