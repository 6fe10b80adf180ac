// SPDX-License-Identifier: BSD-3-Clause
// Builders of pairs' parts: pieces in the canonical order that both sides derive.
#include "part_builder.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

using Block = std::int64_t PartEntry::*;

bool before(const PartEntry& a, const PartEntry& b) {
    return std::tie(a.source_block, a.destination_block) <
           std::tie(b.source_block, b.destination_block);
}

/// A stable sort by one of the two block numbers, digit by digit.
void radix_sort(std::span<PartEntry> entries, Block block) {
    constexpr int digit_bits = 16;
    constexpr std::size_t buckets = std::size_t{1} << digit_bits;
    const auto ascending = [&](const PartEntry& a, const PartEntry& b) {
        return a.*block < b.*block;
    };
    if (std::ranges::is_sorted(entries, ascending)) return;
    const auto [least, most] = std::minmax_element(entries.begin(), entries.end(), ascending);
    const std::int64_t base = (*least).*block;
    const auto range = static_cast<std::uint64_t>((*most).*block - base);
    std::vector<PartEntry> other(entries.size());
    std::vector<std::size_t> start(buckets);
    for (int shift = 0; shift < 64 && range >> shift != 0; shift += digit_bits) {
        const auto digit = [&](const PartEntry& b) {
            return (static_cast<std::uint64_t>(b.*block - base) >> shift) & (buckets - 1);
        };
        std::ranges::fill(start, 0);
        for (const PartEntry& b : entries) ++start[digit(b)];
        std::size_t at = 0;
        for (std::size_t& s : start) at += std::exchange(s, at);
        for (const PartEntry& b : entries) other[start[digit(b)]++] = b;
        std::copy(other.begin(), other.end(), entries.begin());
    }
}

std::uint64_t hash_of(std::span<const PartAxis> axes) {
    std::uint64_t hash = axes.size();
    for (const PartAxis& a : axes) {
        const auto dims = static_cast<std::uint64_t>(a.dim.source * max_dims + a.dim.destination) ^
                          reinterpret_cast<std::uintptr_t>(a.table.get());
        // Products of the words do not depend on each other, so that they overlap in time.
        hash = (hash ^ (static_cast<std::uint64_t>(a.start.source) * 0x9E3779B97F4A7C15) ^
                (static_cast<std::uint64_t>(a.start.destination) * 0xC2B2AE3D27D4EB4F) ^
                (static_cast<std::uint64_t>(a.length) * 0x165667B19E3779F9) ^
                (static_cast<std::uint64_t>(a.step.source) * 0x27D4EB2F165667C5) ^
                (static_cast<std::uint64_t>(a.step.destination) * 0x85EBCA77C2B2AE63) ^ dims) *
               0xD6E8FEB86659FD93;
        hash ^= hash >> 32;
    }
    return hash;
}

}  // namespace

void sort_by_blocks(std::vector<PartEntry>& entries, std::size_t first) {
    constexpr std::size_t least_digits_pay = 4096;
    const std::span<PartEntry> some = std::span(entries).subspan(first);
    if (std::ranges::is_sorted(some, before)) return;
    if (some.size() < least_digits_pay) {
        std::ranges::stable_sort(some, before);
        return;
    }
    radix_sort(some, &PartEntry::destination_block);
    radix_sort(some, &PartEntry::source_block);
}

std::int64_t PairPartBuilder::append_shape(std::span<const PartAxis> axes) {
    const std::int64_t number = part_.num_shapes();
    const PairPart::Shape shape{part_.axes_.size(), axes.size(), PieceContent{axes}.elems()};
    if (number == 0)
        part_.first_shape_ = shape;
    else
        part_.further_shapes_.push_back(shape);
    part_.axes_.insert(part_.axes_.end(), axes.begin(), axes.end());
    return number;
}

std::int64_t PairPartBuilder::shape_of(std::span<const PartAxis> axes) {
    if (part_.num_shapes() == 0) return append_shape(axes);
    if (!known_) {
        known_ = std::make_unique<geometry::RecordIndex>();
        known_->insert(hash_of(part_.shape(0)), 0);
    }
    const std::uint64_t hash = hash_of(axes);
    const std::int64_t known = known_->find(
        hash, [&](std::int64_t number) { return std::ranges::equal(part_.shape(number), axes); });
    if (known >= 0) return known;
    const std::int64_t number = append_shape(axes);
    known_->insert(hash, number);
    return number;
}

void PairPartBuilder::add(const BlockPair& blocks, const PieceContent& content) {
    PartEntry entry{blocks, 0};
    entry.content =
        content.runs ? -1 - static_cast<std::int64_t>(part_.runs_.size()) : shape_of(content.axes);
    if (content.runs) part_.runs_.push_back(*content.runs);
    const std::int64_t elems = part_.elems(entry);
    if (elems == 0) return;
    part_.entries_.push_back(entry);
    part_.elems_ = geometry::add(part_.elems_, elems);
}

void PairPartBuilder::begin_term(std::int64_t term) {
    if (term_ == term) return;
    sort_by_blocks(part_.entries_, first_of_term_);
    first_of_term_ = part_.entries_.size();
    term_ = term;
}

PartBuilder::Peer& PartBuilder::peer_at(std::int64_t rank) {
    if (!peers_.empty() && peers_[last_].rank == rank) return peers_[last_];
    const std::uint64_t hash = geometry::hash_words({&rank, 1});
    const std::int64_t known = peer_numbers_.find(hash, [&](std::int64_t number) {
        return peers_[static_cast<std::size_t>(number)].rank == rank;
    });
    if (known >= 0) {
        last_ = static_cast<std::size_t>(known);
    } else {
        last_ = peers_.size();
        peer_numbers_.insert(hash, static_cast<std::int64_t>(last_));
        peers_.emplace_back().rank = rank;
    }
    return peers_[last_];
}

std::vector<PeerPart> PartBuilder::build() {
    std::vector<std::pair<std::int64_t, std::size_t>> order;
    order.reserve(peers_.size());
    for (std::size_t i = 0; i < peers_.size(); ++i) order.emplace_back(peers_[i].rank, i);
    if (!std::ranges::is_sorted(order)) std::ranges::sort(order);
    std::vector<PeerPart> parts;
    parts.reserve(peers_.size());
    for (const auto& [rank, number] : order) {
        Peer& peer = peers_[number];
        peer.part.begin_term(-1);
        if (!peer.part.empty()) parts.push_back({rank, peer.part.finish()});
    }
    peers_.clear();
    peer_numbers_ = {};
    return parts;
}

}  // namespace datamover::plan
