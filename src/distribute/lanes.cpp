// SPDX-License-Identifier: BSD-3-Clause
// Lanes: elements between this process and others in one operation of a migration.
#include "lanes.hpp"

#include <algorithm>
#include <utility>

namespace datamover::distribute {

void Lanes::give(int rank, std::int64_t elems, std::span<const mpi::Part> parts,
                 std::shared_ptr<const void> memory) {
    const int position = s_.channel->position(rank);
    const bool reachable = position >= 0 && std::ranges::all_of(parts, [](const mpi::Part& part) {
                               return part.place.has_value();
                           });
    if (position >= 0) {
        Offer& offer = slot_.prepare(Topic::elements, position);
        offer.kind = reachable ? OfferKind::reachable : OfferKind::unreachable;
        offer.elems = elems;
        offer.parts = reachable ? parts.size() : 0;
        for (std::size_t i = 0; i < offer.parts; ++i) offer.places[i] = *parts[i].place;
        slot_.publish(Topic::elements, position);
        readers_.push_back(position);
    }
    if (reachable) return;
    sends_.send(parts, rank, std::move(memory));
    ++s_.last_move.messages;
}

bool Lanes::all_taken() {
    std::erase_if(readers_, [&](int position) { return slot_.acknowledged(position); });
    return sends_.all_complete() && readers_.empty();
}

bool Lanes::looks_ahead(LaneSource& source) {
    source.places.clear();
    if (source.position < 0) {
        const std::int64_t bytes =
            in_portions_ ? receives_.probe(source.rank) : source.left * elem_bytes_;
        source.elems = bytes / elem_bytes_;
        return bytes >= 0;
    }
    const Offer* offer = slot_.take(Topic::elements, source.position);
    if (!offer) return false;
    source.elems = offer->elems;
    if (offer->kind == OfferKind::done) source.left = source.elems = 0;
    for (std::size_t i = 0; offer->kind == OfferKind::reachable && i < offer->parts; ++i)
        source.places.push_back(s_.channel->address(offer->places[i]));
    return true;
}

void Lanes::acknowledge() {
    for (const int position : taken_from_) slot_.acknowledge(position);
    taken_from_.clear();
}

std::vector<std::int64_t> Lanes::waiting_for() const {
    std::vector<std::int64_t> ranks;
    for (const LaneSource& source : sources_)
        if (source.left > 0) ranks.push_back(source.rank);
    for (const int position : readers_) ranks.push_back(s_.channel->rank_of(position));
    return ranks;
}

}  // namespace datamover::distribute
