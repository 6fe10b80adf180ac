// SPDX-License-Identifier: BSD-3-Clause
// Moving elements to their targets in one pass.
//
// Every target has a place where its next element is written: this process's result for elements
// that stay, the window that the receiver offers where its result lies in shared memory, else
// staging memory from which the receiver copies (on the node) or a message is sent (beyond it).
#include <algorithm>
#include <cstring>

#include "memory/cache_lines.hpp"
#include "messages.hpp"
#include "migration_state.hpp"

namespace datamover::distribute {
namespace {

/// Results beyond this are written past the caches.
constexpr std::int64_t streamed_bytes = std::int64_t{4} << 20;

class FanOut final : public SlotOperation {
public:
    FanOut(State& state, NodeSlot& slot, const ColumnTransfer& transfer)
        : SlotOperation(state, slot),
          transfer_(transfer),
          elem_bytes_(transfer.elem_bytes()),
          sends_(*state.group, slot.tag()),
          receives_(*state.group, slot.tag()),
          places_(at(state.nprocs()) + 1, nullptr),
          range_(state.all_elems()) {
        range_.end_elem = 0;
        range_.streams = s_.received() * elem_bytes_ > streamed_bytes;
        for (const ElementBuffer& result : transfer.results) owners_->push_back(result.owner);
    }

    void begin() override {
        expect_arrivals();
        offer_windows();
        find_targets();
    }

    bool advance() override {
        const bool all_arrived = take_arrivals();
        if (!find_windows()) return false;
        while (staging_free()) {
            if (fanned_out_) return all_arrived;
            fan_out_round();
        }
        return false;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> ranks;
        for (const Arrival& arrival : arrivals_)
            if (arrival.left > 0) ranks.push_back(arrival.rank);
        for (const Unknown& target : unknown_) ranks.push_back(target.rank);
        for (const Staged& target : staged_)
            if (target.unacknowledged) ranks.push_back(target.rank);
        return ranks;
    }

private:
    /// A target whose window is not known yet.
    struct Unknown {
        int rank = 0, position = -1;
    };
    /// A target whose elements are written where they belong; this process itself has no position.
    struct Direct {
        int rank = 0, position = -1;
        std::vector<std::byte*> next;  ///< per column
    };
    /// A target whose elements are staged.
    struct Staged {
        int rank = 0, position = -1;
        std::int64_t elems = 0, offset_bytes = 0;  ///< in this round
        bool unacknowledged = false;
    };
    struct Arrival {
        int rank = 0, position = -1;
        std::int64_t next_elem = 0, left = 0;
        bool by_message = false;
        std::int64_t coming_elems = 0;  ///< in the message `number`
        std::size_t number = 0;
    };

    void expect_arrivals() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank() || s_.recv_counts[at(r)] == 0) continue;
            const int p = channel_.position(r);
            Arrival arrival{r, p, s_.recv_starts[at(r)], s_.recv_counts[at(r)], p < 0};
            arrivals_.push_back(arrival);
        }
    }

    /// Tells the senders on the node where their elements belong.
    void offer_windows() {
        const bool any =
            std::ranges::any_of(arrivals_, [](const Arrival& a) { return a.position >= 0; });
        std::vector<std::optional<memory::SharedPlace>> windows;
        bool reachable = true;
        for (std::size_t c = 0; any && reachable && c < transfer_.columns.size(); ++c) {
            windows.push_back(
                share(transfer_.results[c].data, s_.received() * transfer_.columns[c].elem_bytes));
            reachable = windows.back().has_value();
        }
        for (const Arrival& arrival : arrivals_) {
            if (arrival.position < 0) continue;
            Offer& offer = slot_.prepare(Topic::windows, arrival.position);
            offer.kind = reachable ? OfferKind::reachable : OfferKind::unreachable;
            for (std::size_t c = 0; reachable && c < windows.size(); ++c) {
                offer.places[c] = *windows[c];
                offer.places[c].offset_bytes += arrival.next_elem * transfer_.columns[c].elem_bytes;
            }
            slot_.publish(Topic::windows, arrival.position);
        }
    }

    void find_targets() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (s_.send_counts[at(r)] == 0) continue;
            const int p = channel_.position(r);
            if (r == s_.rank())
                direct_.push_back({r, -1, own_places()});
            else if (p < 0)
                staged_.push_back({r, p});
            else
                unknown_.push_back({r, p});
        }
    }

    std::vector<std::byte*> own_places() const {
        std::vector<std::byte*> places;
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c)
            places.push_back(transfer_.results[c].data +
                             s_.recv_starts[at(s_.rank())] * transfer_.columns[c].elem_bytes);
        return places;
    }

    /// True when it is known of all targets how elements get there.
    bool find_windows() {
        std::erase_if(unknown_, [&](const Unknown& target) {
            const Offer* offer = slot_.take(Topic::windows, target.position);
            if (!offer) return false;
            note_progress();
            if (offer->kind != OfferKind::reachable) {
                staged_.push_back({target.rank, target.position});
                return true;
            }
            Direct direct{target.rank, target.position, {}};
            for (std::size_t c = 0; c < transfer_.columns.size(); ++c)
                direct.next.push_back(channel_.address(target.position, offer->places[c]));
            direct_.push_back(std::move(direct));
            return true;
        });
        return unknown_.empty();
    }

    /// How far a round goes so that what it stages keeps to the limit, at least one element.
    std::int64_t round_end() const {
        const std::int64_t limit = s_.options.max_bytes;
        if (limit == 0 || staged_.empty()) return s_.elems;
        std::vector<char> is_staged(places_.size(), 0);
        for (const Staged& target : staged_) is_staged[at(target.rank)] = 1;
        std::int64_t room = limit / elem_bytes_;
        return with_codes(*range_.codes, [&](const auto* codes) {
            std::int64_t i = range_.begin_elem;
            for (; i < s_.elems; ++i) {
                const std::int64_t end = range_.rows.first_entry(i + 1);
                for (std::int64_t e = range_.rows.first_entry(i); e < end; ++e)
                    room -= is_staged[codes[e]];
                if (room < 0) break;
            }
            return std::max(i, range_.begin_elem + 1);
        });
    }

    void fan_out_round() {
        note_progress();
        ++s_.last_move.rounds;
        range_.begin_elem = range_.end_elem;
        range_.end_elem = std::min(round_end(), s_.elems);
        stage(range_.begin_elem == 0 && range_.end_elem == s_.elems);
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) fan_out_column(c);
        for (Staged& target : staged_) dispatch(target);
        fanned_out_ = range_.end_elem >= s_.elems;
        for (const Direct& target : direct_)
            if (fanned_out_ && target.position >= 0) {
                slot_.prepare(Topic::elements, target.position).kind = OfferKind::done;
                slot_.publish(Topic::elements, target.position);
            }
    }

    /// Lays out the staging memory: one message per target, in it one column after the other.
    void stage(bool whole) {
        if (staged_.empty()) return;
        std::vector<std::int64_t> counts;
        if (!whole) {
            counts.assign(places_.size(), 0);
            count_range(range_, counts.data());
        }
        std::int64_t bytes = 0;
        for (Staged& target : staged_) {
            target.elems = whole ? s_.send_counts[at(target.rank)] : counts[at(target.rank)];
            target.offset_bytes = bytes;
            bytes += s_.options.max_bytes == 0 ? memory::whole_lines(target.elems * elem_bytes_)
                                               : target.elems * elem_bytes_;
        }
        if (!staging_ || staging_->bytes < bytes) {
            staging_ = s_.group->pool().allocate(bytes);
            use(staging_);
        }
        s_.last_move.staged_bytes = std::max(s_.last_move.staged_bytes.load(), bytes);
    }

    void fan_out_column(std::size_t c) {
        std::int64_t before = 0;
        for (std::size_t i = 0; i < c; ++i) before += transfer_.columns[i].elem_bytes;
        for (const Direct& target : direct_) places_[at(target.rank)] = target.next[c];
        for (const Staged& target : staged_)
            places_[at(target.rank)] = staging_->data + target.offset_bytes + target.elems * before;
        fan_out(range_, transfer_.columns[c], places_.data());
        for (Direct& target : direct_) target.next[c] = places_[at(target.rank)];
    }

    void dispatch(Staged& target) {
        if (target.elems == 0) return;
        const bool reachable = target.position >= 0 && staging_->segment;
        if (target.position >= 0) {
            Offer& offer = slot_.prepare(Topic::elements, target.position);
            offer.kind = reachable ? OfferKind::reachable : OfferKind::unreachable;
            offer.elems = target.elems;
            if (reachable)
                offer.places[0] = {staging_->segment->name(),
                                   staging_->segment_offset_bytes + target.offset_bytes};
            slot_.publish(Topic::elements, target.position);
            target.unacknowledged = true;
        }
        if (reachable) return;
        const Part part{staging_->data + target.offset_bytes, target.elems * elem_bytes_};
        sends_.send({&part, 1}, target.rank, staging_);
        ++s_.last_move.messages;
    }

    bool staging_free() {
        bool free = sends_.all_complete();
        for (Staged& target : staged_) {
            if (target.unacknowledged && slot_.acknowledged(target.position))
                target.unacknowledged = false;
            free = free && !target.unacknowledged;
        }
        return free;
    }

    /// Takes what has come; true when everything has.
    bool take_arrivals() {
        bool all = true;
        for (Arrival& arrival : arrivals_) {
            if (arrival.left == 0) continue;
            if (arrival.by_message)
                take_message(arrival);
            else if (const Offer* offer = slot_.take(Topic::elements, arrival.position))
                take_offer(arrival, *offer);
            all = all && arrival.left == 0;
        }
        return all;
    }

    void take_message(Arrival& arrival) {
        if (arrival.coming_elems == 0) {
            const std::int64_t bytes = receives_.probe(arrival.rank);
            if (bytes < 0) return;
            arrival.coming_elems = bytes / elem_bytes_;
            arrival.number = receives_.receive(parts_of(arrival), arrival.rank, owners_);
        }
        if (!receives_.is_complete(arrival.number)) return;
        take(arrival, arrival.coming_elems);
        arrival.coming_elems = 0;
    }

    std::vector<Part> parts_of(const Arrival& arrival) const {
        std::vector<Part> parts;
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
            const std::int64_t bytes = transfer_.columns[c].elem_bytes;
            parts.push_back({transfer_.results[c].data + arrival.next_elem * bytes,
                             arrival.coming_elems * bytes});
        }
        return parts;
    }

    void take(Arrival& arrival, std::int64_t elems) {
        note_progress();
        arrival.next_elem += elems;
        arrival.left -= elems;
        if (arrival.position < 0) return;
        slot_.acknowledge(arrival.position);
        arrival.by_message = false;
    }

    void take_offer(Arrival& arrival, const Offer& offer) {
        if (offer.kind == OfferKind::done) {
            arrival.left = 0;
            return;
        }
        if (offer.kind == OfferKind::unreachable) {
            arrival.by_message = true;
            take_message(arrival);
            return;
        }
        const std::byte* from = channel_.address(arrival.position, offer.places[0]);
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
            const std::int64_t bytes = transfer_.columns[c].elem_bytes;
            std::memcpy(transfer_.results[c].data + arrival.next_elem * bytes, from,
                        at(offer.elems * bytes));
            from += offer.elems * bytes;
        }
        take(arrival, offer.elems);
    }

    ColumnTransfer transfer_;
    std::int64_t elem_bytes_;
    Messages sends_, receives_;
    std::vector<std::byte*> places_;
    ElementRange range_;  ///< of the last round
    bool fanned_out_ = false;
    /// Of the results, into which messages are received.
    std::shared_ptr<std::vector<std::shared_ptr<const void>>> owners_ =
        std::make_shared<std::vector<std::shared_ptr<const void>>>();
    std::vector<Unknown> unknown_;
    std::vector<Direct> direct_;
    std::vector<Staged> staged_;
    std::vector<Arrival> arrivals_;
    memory::AllocationPtr staging_;
};

}  // namespace

OperationPtr make_transfer(State& state, NodeSlot& slot, const ColumnTransfer& transfer) {
    return std::make_unique<FanOut>(state, slot, transfer);
}

}  // namespace datamover::distribute
