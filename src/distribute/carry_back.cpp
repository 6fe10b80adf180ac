// SPDX-License-Identifier: BSD-3-Clause
// Moving values of received elements back to where the elements came from.
//
// Values for one home lie one behind the other where they are: nothing is packed. On a node the
// home reads them straight from the holder's memory, or from a shared copy where that is private.
#include <algorithm>
#include <cstring>

#include "messages.hpp"
#include "migration_state.hpp"

namespace datamover::distribute {
namespace {

class BackCarrier final : public SlotOperation {
public:
    BackCarrier(State& state, NodeSlot& slot, const ReverseTransfer& way)
        : SlotOperation(state, slot),
          way_(way),
          elem_bytes_(way.transfer.elem_bytes()),
          sends_(*state.group, slot.tag()),
          receives_(*state.group, slot.tag()),
          sources_(way.transfer.columns.size()) {}

    void begin() override {
        for (std::size_t c = 0; c < sources_.size(); ++c) make_dense(c);
        offer_values();
        expect_values();
    }

    bool advance() override {
        if (!collected_ && find_values()) {
            for (std::size_t c = 0; c < sources_.size(); ++c) collect_column(c);
            for (const int position : holders_) slot_.acknowledge(position);
            collected_ = true;
        }
        std::erase_if(readers_, [&](int position) { return slot_.acknowledged(position); });
        return sends_.all_complete() && readers_.empty() && collected_;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> ranks;
        for (const Pending& pending : pending_) ranks.push_back(pending.rank);
        for (const int position : readers_) ranks.push_back(channel_.rank_of(position));
        return ranks;
    }

private:
    /// The values of a column, one behind the other in stable order.
    struct Source {
        const std::byte* base = nullptr;
        std::optional<memory::SharedPlace> place;
        memory::AllocationPtr copy;
        std::vector<const std::byte*> from;  ///< per rank: where the values for elements here start
    };

    /// A process whose values have not been found yet.
    struct Pending {
        int rank = 0, position = -1;
        bool by_message = false;
        std::size_t number = 0;  ///< of the message
    };

    const ElementColumn& column(std::size_t c) const { return way_.transfer.columns[c]; }
    std::int64_t bytes_of(std::int64_t elems, std::size_t c) const {
        return elems * column(c).elem_bytes;
    }

    bool anyone_on_node() const {
        for (int p = 0; p < channel_.size(); ++p)
            if (p != channel_.me() && s_.recv_counts[at(channel_.rank_of(p))] > 0) return true;
        return false;
    }

    /// Values in private memory are copied once to where the node reaches them.
    void make_dense(std::size_t c) {
        Source& source = sources_[c];
        const ElementColumn& values = column(c);
        source.base = static_cast<const std::byte*>(values.data);
        const bool dense = values.stride_bytes == values.elem_bytes && way_.places.empty();
        const bool anyone = anyone_on_node();
        if (dense && anyone) source.place = share(source.base, bytes_of(s_.received(), c));
        if (source.place || (dense && !anyone)) return;
        source.copy = s_.group->pool().allocate(bytes_of(s_.received(), c));
        s_.last_move.staged_bytes += bytes_of(s_.received(), c);
        if (dense) {
            if (s_.received() > 0)
                std::memcpy(source.copy->data, source.base, at(bytes_of(s_.received(), c)));
        } else {
            for (std::int64_t i = 0; i < s_.received(); ++i)
                std::memcpy(source.copy->data + bytes_of(i, c),
                            source.base + way_.place(i) * values.stride_bytes,
                            at(values.elem_bytes));
        }
        source.base = source.copy->data;
        source.place = memory::place_of(source.copy.get());
        use(source.copy);
    }

    bool all_reachable() const {
        return std::ranges::all_of(sources_,
                                   [](const Source& source) { return source.place.has_value(); });
    }

    void offer_values() {
        const bool reachable = all_reachable();
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = s_.recv_counts[at(r)], first = s_.recv_starts[at(r)];
            if (elems == 0 || r == s_.rank()) continue;
            const int p = channel_.position(r);
            if (p >= 0) {
                Offer& offer = slot_.prepare(Topic::elements, p);
                offer.kind = reachable ? OfferKind::reachable : OfferKind::unreachable;
                for (std::size_t c = 0; reachable && c < sources_.size(); ++c) {
                    offer.places[c] = *sources_[c].place;
                    offer.places[c].offset_bytes += bytes_of(first, c);
                }
                slot_.publish(Topic::elements, p);
                readers_.push_back(p);
            }
            if (p < 0 || !reachable) send_values(r, first, elems);
        }
    }

    void send_values(int rank, std::int64_t first, std::int64_t elems) {
        std::vector<Part> parts;
        auto copies = std::make_shared<std::vector<memory::AllocationPtr>>();
        for (std::size_t c = 0; c < sources_.size(); ++c) {
            parts.push_back({sources_[c].base + bytes_of(first, c), bytes_of(elems, c)});
            copies->push_back(sources_[c].copy);
        }
        sends_.send(parts, rank, std::move(copies));
        ++s_.last_move.messages;
    }

    void expect_values() {
        for (Source& source : sources_) source.from.assign(at(s_.nprocs()) + 1, nullptr);
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (s_.send_counts[at(r)] == 0) continue;
            if (r != s_.rank()) {
                pending_.push_back({r, channel_.position(r)});
                continue;
            }
            for (std::size_t c = 0; c < sources_.size(); ++c)
                sources_[c].from[at(r)] = sources_[c].base + bytes_of(s_.recv_starts[at(r)], c);
        }
    }

    /// Learns where the values for this process's elements start, per rank that they went to; true
    /// when all are known.
    bool find_values() {
        const std::size_t found = std::erase_if(pending_, [&](Pending& pending) {
            if (pending.by_message) return receives_.is_complete(pending.number);
            if (pending.position < 0) return receive_values(pending);
            const Offer* offer = slot_.take(Topic::elements, pending.position);
            if (!offer) return false;
            holders_.push_back(pending.position);
            if (offer->kind != OfferKind::reachable) return receive_values(pending);
            for (std::size_t c = 0; c < sources_.size(); ++c)
                sources_[c].from[at(pending.rank)] =
                    channel_.address(pending.position, offer->places[c]);
            return true;
        });
        if (found > 0) note_progress();
        return pending_.empty();
    }

    bool receive_values(Pending& pending) {
        const std::int64_t elems = s_.send_counts[at(pending.rank)], bytes = elems * elem_bytes_;
        const auto memory = memory::SegmentPool::allocate_private(bytes);
        arrived_.push_back(memory);
        s_.last_move.staged_bytes += bytes;
        std::byte* next = memory->data;
        for (std::size_t c = 0; c < sources_.size(); ++c) {
            sources_[c].from[at(pending.rank)] = next;
            next += bytes_of(elems, c);
        }
        const Part part{memory->data, bytes};
        pending.number = receives_.receive({&part, 1}, pending.rank, memory);
        pending.by_message = true;
        return false;
    }

    void collect_column(std::size_t c) {
        const ElementRange all = s_.all_elems();
        std::byte* const result = way_.transfer.results[c].data;
        if ((all.drops || !all.rows.one_each()) && s_.elems > 0)
            std::memset(result, 0, at(bytes_of(s_.elems, c)));
        collect_combined(all, sources_[c].from.data(), result, column(c).elem_bytes, way_.op,
                         column(c).type);
    }

    ReverseTransfer way_;
    std::int64_t elem_bytes_;  ///< of all columns
    Messages sends_, receives_;
    std::vector<Source> sources_;
    std::vector<Pending> pending_;
    std::vector<int> holders_, readers_;  ///< positions on the node
    std::vector<memory::AllocationPtr> arrived_;
    bool collected_ = false;
};

}  // namespace

OperationPtr make_reverse_transfer(State& state, NodeSlot& slot, const ReverseTransfer& way) {
    return std::make_unique<BackCarrier>(state, slot, way);
}

}  // namespace datamover::distribute
