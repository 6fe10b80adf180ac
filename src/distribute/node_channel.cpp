// SPDX-License-Identifier: BSD-3-Clause
// Mailboxes in shared memory: counts and addresses for the processes of a node, without messages.
#include "node_channel.hpp"

#include <algorithm>
#include <new>

#include "geometry/make_error.hpp"

namespace datamover::distribute {
namespace {

/// Mapped segments, for each process of the node, that are kept from one move to the next.
constexpr std::size_t kept_mappings = 16;

}  // namespace

void NodeSlot::post(const std::vector<Numbers>& to_each) {
    ++epoch_;
    collected_.assign(peers_.size(), {});
    for (std::size_t p = 0; p < peers_.size(); ++p) {
        if (static_cast<int>(p) == me_) continue;
        // Two boxes in turn: a peer may still read the one of the exchange before.
        NumbersBox& box = peers_[p].theirs->numbers[epoch_ % 2];
        box.numbers = to_each[p];
        box.epoch.store(epoch_, std::memory_order_release);
    }
    collected_[static_cast<std::size_t>(me_)] = to_each[static_cast<std::size_t>(me_)];
}

bool NodeSlot::collect() {
    for (std::size_t p = 0; p < peers_.size(); ++p) {
        if (static_cast<int>(p) == me_) continue;
        const NumbersBox& box = peers_[p].mine->numbers[epoch_ % 2];
        if (box.epoch.load(std::memory_order_acquire) < epoch_) return false;
        collected_[p] = box.numbers;
    }
    return true;
}

Offer& NodeSlot::prepare(Topic topic, int position) {
    return peer(position).theirs->offers[static_cast<std::size_t>(topic)].offer;
}

void NodeSlot::publish(Topic topic, int position) {
    const auto t = static_cast<std::size_t>(topic);
    Peer& to = peer(position);
    to.theirs->offers[t].number.store(++to.published[t], std::memory_order_release);
}

const Offer* NodeSlot::take(Topic topic, int position) {
    const auto t = static_cast<std::size_t>(topic);
    Peer& from = peer(position);
    const OfferBox& box = from.mine->offers[t];
    if (box.number.load(std::memory_order_acquire) <= from.taken[t]) return nullptr;
    ++from.taken[t];
    return &box.offer;
}

void NodeSlot::acknowledge(int position) {
    Peer& to = peer(position);
    to.theirs->acknowledged.store(++to.acks_sent, std::memory_order_release);
}

bool NodeSlot::acknowledged(int position) {
    Peer& from = peer(position);
    if (from.mine->acknowledged.load(std::memory_order_acquire) <= from.acks_seen) return false;
    ++from.acks_seen;
    return true;
}

std::shared_ptr<NodeChannel> NodeChannel::of(mpi::ProcessGroup& group) {
    return group.extension<NodeChannel>([&] { return new NodeChannel(group); });
}

NodeChannel::NodeChannel(mpi::ProcessGroup& group)
    : group_(group), ranks_(group.node().ranks), me_(group.node().my_position) {
    if (!connect(group)) {
        ranks_ = {group.rank()};
        me_ = 0;
        for (NodeSlot& slot : slots_) slot.peers_.assign(1, {});
    }
    messages_needed_ = static_cast<int>(ranks_.size()) < group.size();
    tags_ = mpi::claim_tags(group, 2 * most_in_flight);
    for (int s = 0; s < most_in_flight; ++s) {
        NodeSlot& slot = slots_[static_cast<std::size_t>(s)];
        slot.me_ = me_;
        slot.tag_ = *tags_ + 2 * s;
    }
}

/// Makes this process's mailboxes and maps those of the node; false where that does not work on all
/// of them. Collective on the node.
bool NodeChannel::connect(mpi::ProcessGroup& group) {
    using Mailboxes = std::array<NodeSlot::Mailbox, most_in_flight>;
    const std::size_t n = ranks_.size();
    memory_ = mpi::share_on_node(group, static_cast<std::int64_t>(n * sizeof(Mailboxes)),
                                 [&](std::byte* memory) {
                                     for (std::size_t i = 0; i < n; ++i)
                                         new (memory + i * sizeof(Mailboxes)) Mailboxes{};
                                 });
    // Others write here until they have heard of a failure.
    if (memory_.own) group.keep(memory_.own);
    for (NodeSlot& slot : slots_) slot.peers_.resize(n);
    if (!memory_.why_not.empty()) return false;
    const auto of_process = [&](std::size_t i) {
        return reinterpret_cast<Mailboxes*>(memory_.data[i]);
    };
    const auto me = static_cast<std::size_t>(me_);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t s = 0; s < slots_.size(); ++s) {
            slots_[s].peers_[i].mine = &of_process(me)[i][s];
            slots_[s].peers_[i].theirs = &of_process(i)[me][s];
        }
    return true;
}

int NodeChannel::position(std::int64_t rank) const {
    const auto it = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
    return it != ranks_.end() && *it == rank ? static_cast<int>(it - ranks_.begin()) : -1;
}

void NodeChannel::check_room() const {
    if (in_flight_ >= most_in_flight)
        throw make_error(ErrorCode::invalid_state, "a migration cannot begin: of the ",
                         most_in_flight,
                         " in flight on its communicator one has to be waited for first");
}

NodeSlot& NodeChannel::claim() {
    NodeSlot& slot = slots_[claims_ % most_in_flight];
    const auto is_free = [&] {
        const std::lock_guard lock(slot.lock_);
        if (slot.in_use_ && !slot.is_complete_)
            throw Error(ErrorCode::invalid_state,
                        "another call of a migration on this communicator is under way");
        return !slot.in_use_ || slot.is_complete_();
    };
    mpi::wait_until(group_, is_free, messages_needed_ ? mpi::Load::data : mpi::Load::numbers);
    if (in_flight_ == 0) {
        const std::lock_guard lock(mapped_lock_);
        if (mapped_.size() > kept_mappings * ranks_.size()) mapped_.clear();
    }
    const std::lock_guard lock(slot.lock_);
    slot.is_complete_ = nullptr;
    slot.claimed_as_ = ++claims_;
    ++in_flight_;
    slot.in_use_ = true;
    return slot;
}

void NodeChannel::release(NodeSlot& slot, std::uint64_t claimed_as) {
    const std::lock_guard lock(slot.lock_);
    --in_flight_;
    if (slot.claimed_as_ != claimed_as) return;  // given up to a later operation
    slot.in_use_ = false;
    slot.is_complete_ = nullptr;
}

std::byte* NodeChannel::address(const memory::SharedPlace& place) {
    const std::lock_guard lock(mapped_lock_);
    auto& segment = mapped_[place.name];
    if (!segment) segment = memory::SharedSegment::open(place.name);
    return segment->data() + place.offset_bytes;
}

}  // namespace datamover::distribute
