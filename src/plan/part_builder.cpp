// SPDX-License-Identifier: BSD-3-Clause
// Builder of a pair's part: pieces in the canonical order that both sides derive.
#include "part_builder.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "geometry/checked.hpp"
#include "geometry/radix_sort.hpp"

namespace datamover::plan {
namespace {

std::uint64_t hash_of(const BoxShape& shape) {
    std::uint64_t hash = static_cast<std::uint64_t>(shape.dims);
    for (const BoxAxis& a : shape.axes()) {
        const auto dims = static_cast<std::uint64_t>(a.source_dim * max_dims + a.destination_dim);
        // Products of the words do not depend on each other, so that they overlap in time.
        hash = (hash ^ (static_cast<std::uint64_t>(a.source) * 0x9E3779B97F4A7C15) ^
                (static_cast<std::uint64_t>(a.destination) * 0xC2B2AE3D27D4EB4F) ^
                (static_cast<std::uint64_t>(a.length) * 0x165667B19E3779F9) ^ dims) *
               0xD6E8FEB86659FD93;
        hash ^= hash >> 32;
    }
    return hash;
}

}  // namespace

void BoxListBuilder::add(std::int64_t source_block, std::int64_t destination_block,
                         const BoxShape& shape) {
    const std::uint64_t hash = hash_of(shape);
    std::int64_t number = known_.find(
        hash, [&](std::int64_t k) { return list_.shapes[static_cast<std::size_t>(k)] == shape; });
    if (number < 0) {
        number = static_cast<std::int64_t>(list_.shapes.size());
        list_.shapes.push_back(shape);
        shape_elems_.push_back(shape.size());
        known_.insert(hash, number);
    }
    const std::int64_t elems = shape_elems_[static_cast<std::size_t>(number)];
    if (elems == 0) return;
    list_.boxes.push_back({source_block, destination_block, number});
    list_.elems = geometry::add(list_.elems, elems);
}

namespace {

bool before(const PlacedBox& a, const PlacedBox& b) {
    return std::tie(a.source_block, a.destination_block) <
           std::tie(b.source_block, b.destination_block);
}

}  // namespace

void sort_by_blocks(std::vector<PlacedBox>& boxes, std::size_t first) {
    const std::span<PlacedBox> some = std::span(boxes).subspan(first);
    if (std::ranges::is_sorted(some, before)) return;
    geometry::sort_by(some, &PlacedBox::destination_block);
    geometry::sort_by(some, &PlacedBox::source_block);
}

void PartBuilder::add(std::int64_t rank, std::int64_t term, std::int64_t source_block,
                      std::int64_t destination_block, const BoxShape& shape) {
    list_of(peer_at(rank), term).entries.add(source_block, destination_block, shape);
}

void PartBuilder::add(std::int64_t rank, std::int64_t term, const BlockPair& blocks, Piece piece) {
    Peer& peer = peer_at(rank);
    if (!peer.list && peer.only.empty()) {
        peer.only.push_back(std::move(piece));
        peer.only_blocks = blocks;
        peer.only_term = term;
        return;
    }
    list_of(peer, term).add(blocks, std::move(piece));
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

PartBuilder::List& PartBuilder::list_of(Peer& peer, std::int64_t term) {
    if (!peer.list) peer.list = std::make_unique<List>();
    if (!peer.only.empty()) {
        peer.list->begin_term(peer.only_term);
        peer.list->add(peer.only_blocks, std::move(peer.only.front()));
        peer.only.clear();
    }
    peer.list->begin_term(term);
    return *peer.list;
}

void PartBuilder::List::add(const BlockPair& blocks, Piece piece) {
    others.push_back(std::move(piece));
    entries.list().boxes.push_back(
        {blocks.source_block, blocks.destination_block, -static_cast<std::int64_t>(others.size())});
}

/// Ends the term before, if it is another.
void PartBuilder::List::begin_term(std::int64_t next) {
    if (term == next) return;
    std::vector<PlacedBox>& boxes = entries.list().boxes;
    sort_by_blocks(boxes, first_of_term);
    first_of_term = boxes.size();
    term = next;
}

std::vector<Piece> PartBuilder::List::finish() {
    begin_term(-1);
    std::vector<Piece> pieces;
    if (others.empty()) {
        if (!entries.empty()) pieces.push_back({entries.finish()});
        return pieces;
    }
    const BoxList all = entries.finish();
    pieces.reserve(others.size());
    BoxListBuilder boxes;
    const auto flush = [&] {
        if (!boxes.empty()) pieces.push_back({std::exchange(boxes, {}).finish()});
    };
    for (const PlacedBox& entry : all.boxes) {
        if (entry.shape >= 0) {
            boxes.add(entry.source_block, entry.destination_block, all.shape_of(entry));
            continue;
        }
        flush();
        pieces.push_back(std::move(others[static_cast<std::size_t>(-1 - entry.shape)]));
    }
    flush();
    return pieces;
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
        PairPart part{peer.list ? peer.list->finish() : std::move(peer.only)};
        if (!part.empty()) parts.push_back({rank, std::move(part)});
    }
    peers_.clear();
    peer_numbers_ = {};
    return parts;
}

}  // namespace datamover::plan
