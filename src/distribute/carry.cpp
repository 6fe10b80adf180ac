// SPDX-License-Identifier: BSD-3-Clause
// Moving elements to their targets in one pass.
//
// Every target has a place where its next element is written: this process's result for elements
// that stay, the window that the receiver offers where its result lies in shared memory, else
// staging memory from which the receiver copies (on the node) or a message is sent (beyond it).
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "lanes.hpp"
#include "memory/cache_lines.hpp"

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
          lanes_(state, slot, elem_bytes_, true),
          next_(state.recv_starts),
          places_(at(state.nprocs()) + 1, nullptr),
          range_(state.all_elems()) {
        range_.end_elem = 0;
        range_.streams = s_.received() * elem_bytes_ > streamed_bytes;
        for (const ElementBuffer& result : transfer.results) owners_->push_back(result.owner);
    }

    void begin() override {
        lanes_.expect(s_.recv_counts);
        offer_windows();
        find_targets();
    }

    bool advance() override {
        const bool all_arrived = lanes_.take(
            false, [&](const LaneSource& source) { return LaneRoom{room_for(source), owners_}; },
            [&](const LaneSource& source) { place(source); });
        lanes_.acknowledge();
        if (!find_windows()) return false;
        while (lanes_.all_taken()) {
            if (fanned_out_) return all_arrived;
            fan_out_round();
        }
        return false;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> ranks = lanes_.waiting_for();
        for (const Target& target : unknown_) ranks.push_back(target.rank);
        return ranks;
    }

private:
    /// A process that elements go to; this process itself has no position.
    struct Target {
        int rank = 0, position = -1;
        std::vector<std::byte*> next{};            ///< per column: where they are written directly
        std::int64_t elems = 0, offset_bytes = 0;  ///< staged in this round
    };
    /// Tells the senders on the node where their elements belong.
    void offer_windows() {
        // Shared memory of the results; made for the first process of the node that sends here.
        std::optional<std::vector<memory::SharedPlace>> windows;
        for (int r = 0; r < s_.nprocs(); ++r) {
            const int p = channel_.position(r);
            if (r == s_.rank() || p < 0 || s_.recv_counts[at(r)] == 0) continue;
            if (!windows) windows = share_results();
            const bool reachable = windows->size() == transfer_.columns.size();
            Offer& offer = slot_.prepare(Topic::windows, p);
            offer.kind = reachable ? OfferKind::reachable : OfferKind::unreachable;
            for (std::size_t c = 0; reachable && c < windows->size(); ++c) {
                offer.places[c] = (*windows)[c];
                offer.places[c].offset_bytes += next_[at(r)] * transfer_.columns[c].elem_bytes;
            }
            slot_.publish(Topic::windows, p);
        }
    }

    std::vector<memory::SharedPlace> share_results() {
        std::vector<memory::SharedPlace> windows;
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
            const auto window =
                share(transfer_.results[c].data, s_.received() * transfer_.columns[c].elem_bytes);
            if (!window) break;
            windows.push_back(*window);
        }
        return windows;
    }

    void find_targets() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (s_.send_counts[at(r)] == 0) continue;
            const bool stays = r == s_.rank();
            Target target{r, stays ? -1 : channel_.position(r)};
            for (std::size_t c = 0; stays && c < transfer_.columns.size(); ++c)
                target.next.push_back(transfer_.results[c].data +
                                      s_.recv_starts[at(r)] * transfer_.columns[c].elem_bytes);
            if (stays)
                direct_.push_back(std::move(target));
            else if (target.position < 0)
                staged_.push_back(std::move(target));
            else
                unknown_.push_back(std::move(target));
        }
    }

    /// True when it is known of all targets how elements get there.
    bool find_windows() {
        for (std::size_t i = 0; i < unknown_.size();) {
            Target& target = unknown_[i];
            const Offer* offer = slot_.take(Topic::windows, target.position);
            if (!offer) {
                ++i;
                continue;
            }
            note_progress();
            const bool reachable = offer->kind == OfferKind::reachable;
            for (std::size_t c = 0; reachable && c < transfer_.columns.size(); ++c)
                target.next.push_back(channel_.address(offer->places[c]));
            (reachable ? direct_ : staged_).push_back(std::move(target));
            unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        return unknown_.empty();
    }

    /// Advances the range to the elements of the next round: as many as can be staged within the
    /// limit, and at least one. Returns how many go to each rank.
    std::vector<std::int64_t> take_next() {
        const std::int64_t limit = s_.options.max_bytes;
        if (limit == 0 || staged_.empty()) {
            range_.end_elem = s_.elems;
            return s_.send_counts;
        }
        std::vector<char> is_staged(places_.size(), 0);
        for (const Target& target : staged_) is_staged[at(target.rank)] = 1;
        std::int64_t room = limit / elem_bytes_;
        return advance_range(range_, s_.elems, [&](auto code, std::int64_t) {
            room -= is_staged[code];
            return room >= 0;
        });
    }

    void fan_out_round() {
        note_progress();
        ++s_.last_move.rounds;
        stage(take_next());
        std::int64_t before = 0;  // bytes of an element in the columns before
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
            for (const Target& target : direct_) places_[at(target.rank)] = target.next[c];
            for (const Target& target : staged_)
                places_[at(target.rank)] =
                    staging_->data + target.offset_bytes + target.elems * before;
            fan_out(range_, transfer_.columns[c], places_.data());
            for (Target& target : direct_) target.next[c] = places_[at(target.rank)];
            before += transfer_.columns[c].elem_bytes;
        }
        for (const Target& target : staged_) {
            if (target.elems == 0) continue;
            const std::byte* from = staging_->data + target.offset_bytes;
            const mpi::Part part{from, target.elems * elem_bytes_,
                                 memory::place_of(staging_.get(), from)};
            lanes_.give(target.rank, target.elems, {&part, 1}, staging_);
        }
        fanned_out_ = range_.end_elem >= s_.elems;
        for (const Target& target : direct_)
            if (fanned_out_ && target.position >= 0) {
                slot_.prepare(Topic::elements, target.position).kind = OfferKind::done;
                slot_.publish(Topic::elements, target.position);
            }
    }

    /// Lays out the staging memory: one message per target, in it one column after the other.
    void stage(const std::vector<std::int64_t>& counts) {
        if (staged_.empty()) return;
        std::int64_t bytes = 0;
        for (Target& target : staged_) {
            target.elems = counts[at(target.rank)];
            target.offset_bytes = bytes;
            bytes += s_.options.max_bytes == 0 ? memory::whole_lines(target.elems * elem_bytes_)
                                               : target.elems * elem_bytes_;
        }
        if (!staging_ || staging_->bytes < bytes) {
            staging_ = memory::SegmentPool::of_process().allocate(bytes);
            use(staging_);
        }
        s_.last_move.staged_bytes = std::max(s_.last_move.staged_bytes.load(), bytes);
    }

    std::vector<mpi::Part> room_for(const LaneSource& source) const {
        std::vector<mpi::Part> parts;
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
            const std::int64_t bytes = transfer_.columns[c].elem_bytes;
            parts.push_back(
                {transfer_.results[c].data + next_[at(source.rank)] * bytes, source.elems * bytes});
        }
        return parts;
    }

    void place(const LaneSource& source) {
        note_progress();
        const std::byte* from = source.places.empty() ? nullptr : source.places.front();
        for (const mpi::Part& part : room_for(source)) {
            if (!from) break;
            std::memcpy(const_cast<std::byte*>(part.data), from, at(part.bytes));
            from += part.bytes;
        }
        next_[at(source.rank)] += source.elems;
    }

    ColumnTransfer transfer_;
    std::int64_t elem_bytes_;
    Lanes lanes_;
    std::vector<std::int64_t> next_;  ///< per source: the place of its next element
    std::vector<std::byte*> places_;
    ElementRange range_;  ///< of the last round
    bool fanned_out_ = false;
    /// Of the results, into which messages are received.
    std::shared_ptr<std::vector<std::shared_ptr<const void>>> owners_ =
        std::make_shared<std::vector<std::shared_ptr<const void>>>();
    /// Targets whose window is not known yet, those that are written directly, and the others.
    std::vector<Target> unknown_, direct_, staged_;
    memory::AllocationPtr staging_;
};

}  // namespace

OperationPtr make_transfer(State& state, NodeSlot& slot, const ColumnTransfer& transfer) {
    return std::make_unique<FanOut>(state, slot, transfer);
}

void carry_by_partition(State& state, NodeSlot& slot, const ColumnTransfer& transfer, bool) {
    FanOut some(state, slot, transfer);
    run(state, some);
}

}  // namespace datamover::distribute
