// SPDX-License-Identifier: BSD-3-Clause
// Slots of shared memory that processes of a node provide for receiving.
#include "slot_offers.hpp"

#include <algorithm>
#include <utility>

#include "memory/cache_lines.hpp"
#include "memory/offer.hpp"
#include "mpi/byte_message.hpp"

namespace datamover {
namespace {

using transport::SlotRing;

/// Below this, slots are too small to hide what a hand-over costs: fewer are better.
constexpr std::int64_t least_slot_bytes = 4096;

/// The ring for a message in so much room, which is enough for one element.
SlotRing ring_for(std::int64_t message_bytes, std::int64_t elem_bytes, std::int64_t room_bytes,
                  const SlotSizes& sizes) {
    const std::int64_t least = std::max(least_slot_bytes, memory::whole_lines(elem_bytes));
    const std::int64_t slots_room = room_bytes - SlotRing::signal_bytes;
    SlotRing ring;
    ring.slots = std::clamp<std::int64_t>(slots_room / least, 1, sizes.slots);
    // Slots and the counts behind them begin lines, whatever length the user names.
    const std::int64_t chunk =
        std::max(sizes.chunk_bytes / SlotRing::line_bytes * SlotRing::line_bytes,
                 memory::whole_lines(elem_bytes));
    const std::int64_t most =
        std::min(chunk, slots_room / ring.slots / SlotRing::line_bytes * SlotRing::line_bytes);
    // Its pieces begin lines of their own. Only a sum that stays below 2^63 is made.
    const std::int64_t bytes = std::min(message_bytes, most);
    ring.slot_bytes =
        std::min(memory::whole_lines(bytes + bytes / 16) + 4 * SlotRing::line_bytes, most);
    // A short message needs one slot in this round, and one in the next.
    if (message_bytes <= ring.slot_bytes) ring.slots = std::min<std::int64_t>(ring.slots, 2);
    return ring;
}

/// One allocation for all rings of this process; null when there is not enough.
memory::AllocationPtr allocate(const mpi::ProcessGroup& group, std::vector<SlotRing>& rings,
                               std::uint64_t binding) {
    std::int64_t bytes = 0;
    for (const SlotRing& ring : rings) bytes += ring.slots > 0 ? ring.bytes() : 0;
    if (bytes == 0) return nullptr;
    try {
        const auto memory = group.pool().allocate_shared(bytes);
        std::byte* at = memory->data;
        for (SlotRing& ring : rings) {
            if (ring.slots == 0) continue;
            ring.data = at;
            ring.clear_counts(binding);
            at += ring.bytes();
        }
        // A sender that has not heard that the rings are gone must not fill them.
        const std::shared_ptr<const void> retiring(
            memory->data, [memory, offered = rings](const void*) {
                for (const SlotRing& ring : offered)
                    if (ring.data && !mpi::is_forked_child())
                        ring.binding().store(0, std::memory_order_release);
            });
        for (SlotRing& ring : rings)
            if (ring.slots > 0) ring.memory = retiring;
        return memory;
    } catch (const Error&) {
        return nullptr;
    }
}

/// A place, then slot size and number of slots for each process of the node.
std::vector<std::int64_t> offer_of(const memory::AllocationPtr& memory,
                                   const std::vector<SlotRing>& rings) {
    std::vector<std::int64_t> words;
    memory::put_offer(words, memory.get());
    for (const SlotRing& ring : rings)
        words.insert(words.end(), {ring.data ? ring.data - memory->data : 0, ring.slot_bytes,
                                   memory ? ring.slots : 0});
    return words;
}

/// The ring from this process to the one that offered these words, if there is one.
SlotRing mapped_ring(const std::vector<std::int64_t>& words, int my_position,
                     memory::SegmentMap& segments) {
    memory::OfferReader offer(words);
    const auto place = offer.shared_place();
    SlotRing ring;
    if (!place) return ring;
    std::int64_t offset_bytes = 0;
    for (int position = 0; position <= my_position; ++position) {
        offset_bytes = offer.next();
        ring.slot_bytes = offer.next();
        ring.slots = offer.next();
    }
    if (ring.slots == 0) return {};
    auto segment = segments.open(place->name);
    ring.data = segment->data() + place->offset_bytes + offset_bytes;
    ring.memory = std::move(segment);
    return ring;
}

}  // namespace

SlotOffers offer_slots(const mpi::ProcessGroup& group,
                       const std::vector<std::int64_t>& incoming_bytes, std::int64_t elem_bytes,
                       const SlotSizes& sizes, std::uint64_t binding) {
    const auto senders =
        std::ranges::count_if(incoming_bytes, [](std::int64_t bytes) { return bytes > 0; });
    SlotOffers offers;
    for (const std::int64_t bytes : incoming_bytes) {
        SlotRing& ring = offers.in.emplace_back();
        if (bytes == 0) continue;
        const std::int64_t room = std::max(
            sizes.most_bytes / senders, SlotRing::signal_bytes + memory::whole_lines(elem_bytes));
        ring = ring_for(bytes, elem_bytes, std::min(room, sizes.ring_bytes), sizes);
    }
    const auto memory = allocate(group, offers.in, binding);
    if (!memory) offers.in.assign(incoming_bytes.size(), {});
    for (const auto& words : group.gather_on_node(offer_of(memory, offers.in)))
        offers.out.push_back(mapped_ring(words, group.my_node_position(), group.segments()));
    return offers;
}

SlotOffers SlotOffers::none(std::size_t node_size) {
    return {std::vector<SlotRing>(node_size), std::vector<SlotRing>(node_size)};
}

bool SlotOffers::receives_from(int position) const {
    return position >= 0 && in[static_cast<std::size_t>(position)].slots > 0;
}

bool SlotOffers::sends_to(int position) const {
    return position >= 0 && out[static_cast<std::size_t>(position)].slots > 0;
}

}  // namespace datamover
