// SPDX-License-Identifier: BSD-3-Clause
// In-place moves: arriving elements take the places of departing ones.
//
// Only elements that leave are read; they are staged, and arrivals fill the holes from the front.
// Few stay unfilled at the end, where fewer arrive than leave: only from there on elements move up.
// In stable order those that stay move together to their place between the arrivals.
#include <cstring>

#include "messages.hpp"
#include "migration_state.hpp"

namespace datamover::distribute {
namespace {

class InPlaceCarrier final : public SlotOperation {
public:
    InPlaceCarrier(State& state, NodeSlot& slot, std::byte* data, std::int64_t elem_bytes,
                   bool stable)
        : SlotOperation(state, slot),
          data_(data),
          elem_bytes_(elem_bytes),
          sends_(*state.group, slot.tag()),
          receives_(*state.group, slot.tag()),
          stable_(stable),
          holes_(state.all_elems(), static_cast<std::uint32_t>(state.rank())),
          end_(state.elems) {}

    void begin() override {
        stage();
        offer();
        if (stable_) move_stayers();
        for (int r = 0; r < s_.nprocs(); ++r)
            if (r != s_.rank() && s_.recv_counts[at(r)] > 0) sources_.push_back(r);
    }

    bool advance() override {
        for (; taken_ < sources_.size() && take_from(sources_[taken_]); ++taken_) note_progress();
        if (taken_ < sources_.size()) return false;
        if (!stable_ && !closed_) close_holes();
        closed_ = true;
        std::erase_if(readers_, [&](int position) { return slot_.acknowledged(position); });
        return sends_.all_complete() && readers_.empty();
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> ranks(sources_.begin() + static_cast<std::ptrdiff_t>(taken_),
                                        sources_.end());
        for (const int position : readers_) ranks.push_back(channel_.rank_of(position));
        return ranks;
    }

private:
    std::int64_t bytes_of(std::int64_t elems) const { return elems * elem_bytes_; }

    void stage() {
        starts_.assign(at(s_.nprocs()) + 1, 0);
        for (int r = 0; r < s_.nprocs(); ++r)
            starts_[at(r) + 1] =
                starts_[at(r)] + (r == s_.rank() ? 0 : bytes_of(s_.send_counts[at(r)]));
        staging_ = s_.group->pool().allocate(starts_.back());
        use(staging_);
        s_.last_move.staged_bytes = starts_.back();
        std::vector<std::byte*> places(starts_.size());
        for (std::size_t r = 0; r < places.size(); ++r) places[r] = staging_->data + starts_[r];
        fan_out_leaving(s_.all_elems(), {data_, elem_bytes_, elem_bytes_},
                        static_cast<std::uint32_t>(s_.rank()), places.data());
    }

    void offer() {
        const bool reachable = static_cast<bool>(staging_->segment);
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = s_.send_counts[at(r)];
            if (elems == 0 || r == s_.rank()) continue;
            const int p = channel_.position(r);
            if (p >= 0) {
                Offer& offer = slot_.prepare(Topic::elements, p);
                offer.kind = reachable ? OfferKind::reachable : OfferKind::unreachable;
                if (reachable)
                    offer.places[0] = {staging_->segment->name(),
                                       staging_->segment_offset_bytes + starts_[at(r)]};
                slot_.publish(Topic::elements, p);
                readers_.push_back(p);
            }
            if (p >= 0 && reachable) continue;
            const Part part{staging_->data + starts_[at(r)], bytes_of(elems)};
            sends_.send({&part, 1}, r, staging_);
            ++s_.last_move.messages;
        }
    }

    /// True when the elements of a process, which are next, have come and have their places.
    bool take_from(int rank) {
        const std::int64_t elems = s_.recv_counts[at(rank)];
        const int p = channel_.position(rank);
        if (!arrived_) {
            if (p >= 0) {
                const Offer* offer = slot_.take(Topic::elements, p);
                if (!offer) return false;
                if (offer->kind == OfferKind::reachable) {
                    place(channel_.address(p, offer->places[0]), elems, rank);
                    slot_.acknowledge(p);
                    return true;
                }
            }
            arrived_ = memory::SegmentPool::allocate_private(bytes_of(elems));
            s_.last_move.staged_bytes += bytes_of(elems);
            const Part part{arrived_->data, bytes_of(elems)};
            number_ = receives_.receive({&part, 1}, rank, arrived_);
        }
        if (!receives_.is_complete(number_)) return false;
        place(arrived_->data, elems, rank);
        arrived_.reset();
        if (p >= 0) slot_.acknowledge(p);
        return true;
    }

    void move_stayers() {
        close_holes();
        const auto me = at(s_.rank());
        std::memmove(data_ + bytes_of(s_.recv_starts[me]), data_, at(bytes_of(s_.recv_counts[me])));
    }

    void place(const std::byte* from, std::int64_t elems, int rank) {
        if (stable_)
            std::memcpy(data_ + bytes_of(s_.recv_starts[at(rank)]), from, at(bytes_of(elems)));
        else
            fill(from, elems);
    }

    void fill(const std::byte* from, std::int64_t elems) {
        while (elems > 0) {
            const auto holes = holes_.next(elems);
            if (holes.empty()) break;
            put_at(holes, from, data_, elem_bytes_);
            from += bytes_of(static_cast<std::int64_t>(holes.size()));
            elems -= static_cast<std::int64_t>(holes.size());
        }
        std::memcpy(data_ + bytes_of(end_), from, at(bytes_of(elems)));
        end_ += elems;
    }

    void close_holes() {
        const auto first = holes_.next(1);
        if (first.empty()) return;
        std::int64_t to = first.front();
        std::int64_t from = to + 1;
        const auto move_up = [&](std::int64_t end) {
            std::memmove(data_ + bytes_of(to), data_ + bytes_of(from), at(bytes_of(end - from)));
            to += end - from;
        };
        for (auto holes = holes_.next(s_.elems); !holes.empty(); holes = holes_.next(s_.elems))
            for (const std::int64_t hole : holes) {
                move_up(hole);
                from = hole + 1;
            }
        move_up(s_.elems);
    }

    std::byte* data_;
    std::int64_t elem_bytes_;
    Messages sends_, receives_;
    bool stable_, closed_ = false;
    memory::AllocationPtr staging_;
    std::vector<std::int64_t> starts_;  ///< bytes into the staging memory, per rank
    LeavingElems holes_;                ///< the places of those that left, not yet filled
    std::int64_t end_;                  ///< elements before it are filled or holes
    std::vector<int> readers_;          ///< positions on the node
    std::vector<int> sources_;          ///< ranks
    std::size_t taken_ = 0;             ///< sources whose elements have come
    memory::AllocationPtr arrived_;     ///< what the next one sends in message `number_`
    std::size_t number_ = 0;
};

}  // namespace

std::int64_t in_place_bytes(const State& s, std::int64_t elem_bytes) {
    std::int64_t elems = 0;
    for (int r = 0; r < s.nprocs(); ++r) {
        if (r == s.rank()) continue;
        elems += s.send_counts[static_cast<std::size_t>(r)];
        if (s.channel->position(r) < 0) elems += s.recv_counts[static_cast<std::size_t>(r)];
    }
    return elems * elem_bytes;
}

OperationPtr make_in_place_transfer(State& state, NodeSlot& slot, std::byte* data,
                                    std::int64_t elem_bytes, bool stable) {
    return std::make_unique<InPlaceCarrier>(state, slot, data, elem_bytes, stable);
}

}  // namespace datamover::distribute
