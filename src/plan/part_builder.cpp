// SPDX-License-Identifier: BSD-3-Clause
// Builder of a pair's part: pieces in the canonical order that both sides derive.
#include "part_builder.hpp"

#include <algorithm>
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

std::int64_t ShapeTable::number_of(const BoxShape& shape) {
    const std::uint64_t hash = hash_of(shape);
    const std::int64_t known = known_.find(
        hash, [&](std::int64_t k) { return shapes[static_cast<std::size_t>(k)] == shape; });
    if (known >= 0) return known;
    const auto number = static_cast<std::int64_t>(shapes.size());
    shapes.push_back(shape);
    elems.push_back(shape.size());
    known_.insert(hash, number);
    return number;
}

void BoxListBuilder::add(const BlockPair& blocks, const BoxShape& shape) {
    const std::int64_t number = shapes_.number_of(shape);
    const std::int64_t elems = shapes_.elems[static_cast<std::size_t>(number)];
    if (elems == 0) return;
    list_.boxes.push_back({blocks, number});
    list_.elems = geometry::add(list_.elems, elems);
}

BoxList BoxListBuilder::finish() {
    list_.shapes = std::move(shapes_.shapes);
    return std::move(list_);
}

void PartBuilder::add(std::int64_t peer, std::int64_t term, const BlockPair& blocks,
                      const BoxShape& shape) {
    const std::int64_t number = shapes_.number_of(shape);
    if (shapes_.elems[static_cast<std::size_t>(number)] > 0) push(peer, term, blocks, number);
}

void PartBuilder::add(std::int64_t peer, std::int64_t term, const BlockPair& blocks, Piece piece) {
    others_.emplace_back().push_back(std::move(piece));
    push(peer, term, blocks, -static_cast<std::int64_t>(others_.size()));
}

void PartBuilder::push(std::int64_t peer, std::int64_t term, const BlockPair& blocks,
                       std::int64_t shape) {
    if (std::exchange(term_, term) != term) end_term();
    entries_.push_back({blocks, static_cast<std::int32_t>(peer), static_cast<std::int32_t>(shape)});
}

void PartBuilder::end_term() {
    const auto of_term = std::span(entries_).subspan(first_of_term_);
    first_of_term_ = entries_.size();
    const auto blocks = [](const Entry& e) {
        return std::pair(e.source_block, e.destination_block);
    };
    if (std::ranges::is_sorted(of_term, {}, blocks)) return;
    geometry::sort_by(of_term, &Entry::destination_block);
    geometry::sort_by(of_term, &Entry::source_block);
}

std::vector<PeerPart> PartBuilder::build() {
    end_term();
    geometry::sort_by(std::span(entries_), &Entry::peer);
    number_in_list_.assign(shapes_.shapes.size(), -1);
    std::vector<PeerPart> parts;
    for (auto first = entries_.cbegin(); first != entries_.cend();) {
        const auto end =
            std::ranges::upper_bound(first, entries_.cend(), first->peer, {}, &Entry::peer);
        parts.push_back({first->peer, part_of({first, end})});
        first = end;
    }
    return parts;
}

PairPart PartBuilder::part_of(std::span<const Entry> entries) {
    PairPart part;
    BoxList list;
    std::vector<std::size_t> shapes_of_list;
    const auto finish_list = [&] {
        if (!list.boxes.empty()) part.pieces.push_back({std::exchange(list, {})});
        for (const std::size_t shape : std::exchange(shapes_of_list, {}))
            number_in_list_[shape] = -1;
    };
    if (others_.empty()) list.boxes.reserve(entries.size());
    for (const Entry& entry : entries) {
        if (entry.shape < 0) {
            finish_list();
            std::vector<Piece>& other = others_[static_cast<std::size_t>(-1 - entry.shape)];
            if (part.pieces.empty())
                part.pieces = std::move(other);
            else
                part.pieces.push_back(std::move(other.front()));
            continue;
        }
        const auto shape = static_cast<std::size_t>(entry.shape);
        std::int64_t& number = number_in_list_[shape];
        if (number < 0) {
            number = static_cast<std::int64_t>(list.shapes.size());
            shapes_of_list.push_back(shape);
            list.shapes.push_back(shapes_.shapes[shape]);
        }
        list.boxes.push_back({entry, number});
        list.elems = geometry::add(list.elems, shapes_.elems[shape]);
    }
    finish_list();
    return part;
}

}  // namespace datamover::plan
