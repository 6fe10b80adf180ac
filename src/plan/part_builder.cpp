// SPDX-License-Identifier: BSD-3-Clause
// In which order do the pieces of a pair of processes stand, whichever side derives them?
#include "part_builder.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace datamover::plan {
namespace {

using Block = std::int64_t PlacedBox::*;

bool before(const PlacedBox& a, const PlacedBox& b) {
    return std::tie(a.source_block, a.destination_block) <
           std::tie(b.source_block, b.destination_block);
}

/// A stable sort by one of the two block numbers, digit by digit.
void radix_sort(std::span<PlacedBox> boxes, Block block) {
    constexpr int digit_bits = 16;
    constexpr std::size_t buckets = std::size_t{1} << digit_bits;
    const auto ascending = [&](const PlacedBox& a, const PlacedBox& b) {
        return a.*block < b.*block;
    };
    if (std::is_sorted(boxes.begin(), boxes.end(), ascending)) return;
    const auto [least, most] = std::minmax_element(boxes.begin(), boxes.end(), ascending);
    const std::int64_t base = (*least).*block;
    const auto range = static_cast<std::uint64_t>((*most).*block - base);
    std::vector<PlacedBox> other(boxes.size());
    std::vector<std::size_t> start(buckets);
    for (int shift = 0; shift < 64 && range >> shift != 0; shift += digit_bits) {
        const auto digit = [&](const PlacedBox& b) {
            return (static_cast<std::uint64_t>(b.*block - base) >> shift) & (buckets - 1);
        };
        std::fill(start.begin(), start.end(), 0);
        for (const PlacedBox& b : boxes) ++start[digit(b)];
        std::size_t at = 0;
        for (std::size_t& s : start) at += std::exchange(s, at);
        for (const PlacedBox& b : boxes) other[start[digit(b)]++] = b;
        std::copy(other.begin(), other.end(), boxes.begin());
    }
}

}  // namespace

void sort_by_blocks(std::vector<PlacedBox>& boxes, std::size_t first) {
    constexpr std::size_t least_digits_pay = 4096;
    const std::span<PlacedBox> some = std::span(boxes).subspan(first);
    if (std::is_sorted(some.begin(), some.end(), before)) return;
    if (some.size() < least_digits_pay) {
        std::stable_sort(some.begin(), some.end(), before);
        return;
    }
    radix_sort(some, &PlacedBox::destination_block);
    radix_sort(some, &PlacedBox::source_block);
}

void PartBuilder::add(std::int64_t rank, std::int64_t term, std::int64_t source_block,
                      std::int64_t destination_block, const BoxShape& shape) {
    Peer& peer = peer_at(rank, term);
    list_only(peer);
    peer.entries.add(source_block, destination_block, shape);
}

void PartBuilder::add(std::int64_t rank, std::int64_t term, const BlockPair& blocks, Piece piece) {
    Peer& peer = peer_at(rank, term);
    if (!peer.only && peer.entries.empty()) {
        peer.only = std::move(piece);
        peer.only_blocks = blocks;
        return;
    }
    list_only(peer);
    list(peer, blocks, std::move(piece));
}

void PartBuilder::list(Peer& peer, const BlockPair& blocks, Piece piece) {
    peer.others.push_back(std::move(piece));
    peer.entries.list().boxes.push_back({blocks.source_block, blocks.destination_block,
                                         -static_cast<std::int64_t>(peer.others.size())});
}

void PartBuilder::list_only(Peer& peer) {
    if (!peer.only) return;
    list(peer, peer.only_blocks, *std::move(peer.only));
    peer.only.reset();
}

PartBuilder::Peer& PartBuilder::peer_at(std::int64_t rank, std::int64_t term) {
    if (peers_.empty() || peers_[last_].rank != rank) {
        const auto [found, added] = peer_numbers_.try_emplace(rank, peers_.size());
        if (added) peers_.push_back({rank, {}, {}, {}, {}, term, 0});
        last_ = found->second;
    }
    Peer& peer = peers_[last_];
    if (peer.term != term) {
        finish_term(peer);
        peer.term = term;
    }
    return peer;
}

void PartBuilder::finish_term(Peer& peer) {
    list_only(peer);
    std::vector<PlacedBox>& entries = peer.entries.list().boxes;
    sort_by_blocks(entries, peer.first_of_term);
    peer.first_of_term = entries.size();
}

PairPart PartBuilder::part_of(Peer& peer) {
    PairPart part;
    if (peer.only) {
        part.pieces.push_back(*std::move(peer.only));
        return part;
    }
    finish_term(peer);
    if (peer.others.empty()) {
        if (!peer.entries.empty()) part.pieces.push_back({peer.entries.finish()});
        return part;
    }
    const BoxList entries = peer.entries.finish();
    part.pieces.reserve(peer.others.size());
    BoxListBuilder boxes;
    const auto flush = [&] {
        if (!boxes.empty()) part.pieces.push_back({std::exchange(boxes, {}).finish()});
    };
    for (const PlacedBox& entry : entries.boxes) {
        if (entry.shape >= 0) {
            boxes.add(entry.source_block, entry.destination_block, entries.shape_of(entry));
            continue;
        }
        flush();
        part.pieces.push_back(std::move(peer.others[static_cast<std::size_t>(-1 - entry.shape)]));
    }
    flush();
    return part;
}

std::vector<PeerPart> PartBuilder::build() {
    const auto by_rank = [](const Peer& a, const Peer& b) { return a.rank < b.rank; };
    if (!std::is_sorted(peers_.begin(), peers_.end(), by_rank))
        std::sort(peers_.begin(), peers_.end(), by_rank);
    std::vector<PeerPart> parts;
    parts.reserve(peers_.size());
    for (Peer& peer : peers_) {
        PairPart part = part_of(peer);
        if (!part.empty()) parts.push_back({peer.rank, std::move(part)});
    }
    peers_.clear();
    peer_numbers_.clear();
    return parts;
}

}  // namespace datamover::plan
