// SPDX-License-Identifier: BSD-3-Clause
// How do the processes of a node tell each other counts and addresses without a message?
#include "node_channel.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "memory/offer.hpp"
#include "mpi/checked_call.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace datamover::distribute {
namespace {

/// Mapped segments of one peer that are kept from one move to the next.
constexpr std::size_t kept_mappings = 16;

}  // namespace

std::shared_ptr<NodeChannel> NodeChannel::of(mpi::ProcessGroup& group) {
    auto& kept = group.node_channel();
    if (!kept) kept = std::shared_ptr<NodeChannel>(new NodeChannel(group));
    return kept;
}

NodeChannel::NodeChannel(mpi::ProcessGroup& group)
    : ranks_(group.node_ranks()), me_(group.my_node_position()), comm_(group.comm()) {
    const auto n = static_cast<std::size_t>(group.node_ranks().size());
    std::vector<std::int64_t> words;
    try {
        memory_ = group.pool().allocate_shared(static_cast<std::int64_t>(n * sizeof(Mailbox)));
        boxes_ = reinterpret_cast<Mailbox*>(memory_->data);
        for (std::size_t i = 0; i < n; ++i) new (boxes_ + i) Mailbox{};
        memory::put_offer(words, memory_.get());
    } catch (const Error&) {
        words = {};
    }
    const auto all = group.gather_on_node(words);
    bool usable = true;
    peers_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        usable = usable && !all[i].empty();
        if (!usable) break;
        if (static_cast<int>(i) == me_) continue;
        try {
            const auto place = memory::OfferReader(all[i]).shared_place();
            peers_[i].segment = group.segments().open(place->name);
            peers_[i].theirs =
                reinterpret_cast<Mailbox*>(peers_[i].segment->data() + place->offset_bytes) + me_;
        } catch (const Error&) {
            usable = false;
        }
    }
    for (const auto& word : group.gather_on_node({usable ? 1 : 0})) usable = usable && word[0] == 1;
    if (!usable) {
        ranks_ = {group.rank()};
        me_ = 0;
        peers_.assign(1, {});
    }
    messages_needed_ = static_cast<int>(ranks_.size()) < group.size();
    spins_ = static_cast<long>(ranks_.size()) > sysconf(_SC_NPROCESSORS_ONLN) ? 16 : 4096;
}

int NodeChannel::position(std::int64_t rank) const {
    const auto it = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
    return it != ranks_.end() && *it == rank ? static_cast<int>(it - ranks_.begin()) : -1;
}

void NodeChannel::post(const std::vector<Numbers>& to_each) {
    ++epoch_;
    for (int p = 0; p < size(); ++p) {
        if (p == me_) continue;
        // Two lines in turn: a peer may still read the one of the exchange before.
        SetupLine& line = peers_[static_cast<std::size_t>(p)].theirs->setup[epoch_ % 2];
        line.numbers = to_each[static_cast<std::size_t>(p)];
        line.epoch.store(epoch_, std::memory_order_release);
    }
    if (size() == 1) return;
    mine(me_).setup[epoch_ % 2].numbers = to_each[static_cast<std::size_t>(me_)];
}

std::vector<NodeChannel::Numbers> NodeChannel::collect() {
    std::vector<Numbers> all(static_cast<std::size_t>(size()));
    if (size() == 1) return all;
    for (int p = 0; p < size(); ++p) {
        const SetupLine& line = mine(p).setup[epoch_ % 2];
        Wait wait(*this);
        while (p != me_ && line.epoch.load(std::memory_order_acquire) < epoch_) wait.pause();
        all[static_cast<std::size_t>(p)] = line.numbers;
    }
    return all;
}

Letter& NodeChannel::draft(Street street, int position) {
    return peers_[static_cast<std::size_t>(position)].theirs->letters[street].letter;
}

void NodeChannel::send(Street street, int position) {
    Peer& peer = peers_[static_cast<std::size_t>(position)];
    peer.theirs->letters[street].number.store(++peer.sent[street], std::memory_order_release);
}

const Letter* NodeChannel::receive(Street street, int position) {
    Peer& peer = peers_[static_cast<std::size_t>(position)];
    const LetterBox& box = mine(position).letters[street];
    if (box.number.load(std::memory_order_acquire) <= peer.received[street]) return nullptr;
    ++peer.received[street];
    return &box.letter;
}

const Letter& NodeChannel::await(Street street, int position) {
    Wait wait(*this);
    const Letter* letter = receive(street, position);
    for (; !letter; letter = receive(street, position)) wait.pause();
    return *letter;
}

void NodeChannel::acknowledge(int position) {
    Peer& peer = peers_[static_cast<std::size_t>(position)];
    peer.theirs->acknowledged.store(++peer.acks_sent, std::memory_order_release);
}

bool NodeChannel::acknowledged(int position) {
    Peer& peer = peers_[static_cast<std::size_t>(position)];
    if (mine(position).acknowledged.load(std::memory_order_acquire) <= peer.acks_received)
        return false;
    ++peer.acks_received;
    return true;
}

std::byte* NodeChannel::address(int position, const Place& place) {
    auto& mapped = peers_[static_cast<std::size_t>(position)].mapped;
    auto found = mapped.find(place.name);
    if (found == mapped.end())
        found = mapped.emplace(place.name, memory::SharedSegment::open(place.name)).first;
    return found->second->data() + place.offset_bytes;
}

void NodeChannel::trim() {
    for (Peer& peer : peers_)
        if (peer.mapped.size() > kept_mappings) peer.mapped.clear();
}

void NodeChannel::remember(const memory::AllocationPtr& memory) {
    std::erase_if(results_, [](const auto& result) { return result.second.expired(); });
    results_[memory->data] = memory;
}

memory::AllocationPtr NodeChannel::remembered(const std::byte* data) const {
    auto after = results_.upper_bound(data);
    if (after == results_.begin()) return nullptr;
    auto memory = std::prev(after)->second.lock();
    return memory && data < memory->data + memory->bytes ? memory : nullptr;
}

NodeChannel::Wait::Wait(const NodeChannel& channel)
    : comm_(channel.messages_needed_ ? channel.comm_ : MPI_COMM_NULL),
      spins_left_(channel.spins_) {}

void NodeChannel::Wait::pause() {
    if (spins_left_-- > 0) {
#if defined(__x86_64__) || defined(__i386__)
        _mm_pause();
#endif
        return;
    }
    sched_yield();
    if (comm_ == MPI_COMM_NULL || ++turns_ % 16 != 0) return;
    int flag = 0;
    mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE),
               "MPI_Iprobe");
}

}  // namespace datamover::distribute
