// SPDX-License-Identifier: BSD-3-Clause
// Which shared memory do the processes of a node set aside to receive through?
#include "staging.hpp"

#include <algorithm>
#include <utility>

namespace datamover {
namespace {

using transport::StagingLane;

constexpr std::int64_t line_bytes = StagingLane::line_bytes;

std::int64_t whole_lines(std::int64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

/// Below this, slots are too small to hide what a hand-over costs: fewer are better.
constexpr std::int64_t least_slot_bytes = 4096;

/// The lane for a message in so much room, which is enough for one element.
StagingLane lane_for(std::int64_t message_bytes, std::int64_t elem_bytes, std::int64_t room_bytes,
                     const StagingSizes& sizes) {
    const std::int64_t least = std::max(least_slot_bytes, whole_lines(elem_bytes));
    const std::int64_t slots_room = room_bytes - StagingLane::signal_bytes;
    StagingLane lane;
    lane.slots = std::clamp<std::int64_t>(slots_room / least, 1, sizes.slots);
    const std::int64_t most = std::min(std::max(sizes.chunk_bytes, whole_lines(elem_bytes)),
                                       slots_room / lane.slots / line_bytes * line_bytes);
    lane.slot_bytes = std::min(whole_lines(message_bytes), most);
    // A short message needs one slot in this round, and one in the next.
    if (message_bytes <= lane.slot_bytes) lane.slots = std::min<std::int64_t>(lane.slots, 2);
    return lane;
}

/// One allocation for all lanes of this process; null when it is not to be had.
memory::AllocationPtr allocate(const mpi::ProcessGroup& group, std::vector<StagingLane>& lanes) {
    std::int64_t bytes = 0;
    for (const StagingLane& lane : lanes) bytes += lane.slots > 0 ? lane.bytes() : 0;
    if (bytes == 0) return nullptr;
    try {
        auto memory = group.pool().allocate_shared(bytes);
        std::byte* at = memory->data;
        for (StagingLane& lane : lanes) {
            if (lane.slots == 0) continue;
            lane.data = at;
            lane.memory = memory;
            lane.clear_counts();
            at += lane.bytes();
        }
        return memory;
    } catch (const Error&) {
        return nullptr;
    }
}

constexpr std::size_t head_words = 6;
constexpr std::size_t lane_words = 3;

std::vector<std::int64_t> told(const memory::AllocationPtr& memory,
                               const std::vector<StagingLane>& lanes) {
    if (!memory) return {};
    const memory::SegmentName& name = memory->segment->name();
    std::vector<std::int64_t> words{name.pid,   name.fd,    name.device,
                                    name.inode, name.bytes, memory->segment_offset_bytes};
    for (const StagingLane& lane : lanes)
        words.insert(words.end(),
                     {lane.data ? lane.data - memory->data : 0, lane.slot_bytes, lane.slots});
    return words;
}

/// The lane from this process to the one that told these words, if there is one; false when it
/// could not be mapped.
bool find_lane(const std::vector<std::int64_t>& words, int my_position,
               memory::SegmentMap& segments, StagingLane& lane) {
    if (words.empty()) return true;
    const std::size_t at = head_words + lane_words * static_cast<std::size_t>(my_position);
    if (words[at + 2] == 0) return true;
    try {
        auto segment = segments.open({words[0], words[1], words[2], words[3], words[4]});
        lane.data = segment->data() + words[5] + words[at];
        lane.slot_bytes = words[at + 1];
        lane.slots = words[at + 2];
        lane.memory = std::move(segment);
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

StagingOffers offer_staging(const mpi::ProcessGroup& group,
                            const std::vector<std::int64_t>& incoming_bytes,
                            std::int64_t elem_bytes, const StagingSizes& sizes) {
    const auto lanes = std::count_if(incoming_bytes.begin(), incoming_bytes.end(),
                                     [](std::int64_t bytes) { return bytes > 0; });
    StagingOffers offers;
    for (const std::int64_t bytes : incoming_bytes) {
        StagingLane& lane = offers.lanes_in.emplace_back();
        if (bytes == 0) continue;
        const std::int64_t room =
            std::max(sizes.most_bytes / lanes, StagingLane::signal_bytes + whole_lines(elem_bytes));
        lane = lane_for(bytes, elem_bytes, std::min(room, sizes.lane_bytes), sizes);
    }
    const auto memory = allocate(group, offers.lanes_in);
    if (!memory) offers.lanes_in.assign(incoming_bytes.size(), {});
    for (const auto& words : group.gather_on_node(told(memory, offers.lanes_in)))
        offers.mapped &= find_lane(words, group.my_node_position(), group.segments(),
                                   offers.lanes_out.emplace_back());
    return offers;
}

StagingOffers StagingOffers::none(std::size_t node_size) {
    return {std::vector<StagingLane>(node_size), std::vector<StagingLane>(node_size), true};
}

bool StagingOffers::receives_from(int position) const {
    return position >= 0 && lanes_in[static_cast<std::size_t>(position)].slots > 0;
}

bool StagingOffers::sends_to(int position) const {
    return position >= 0 && lanes_out[static_cast<std::size_t>(position)].slots > 0;
}

}  // namespace datamover
