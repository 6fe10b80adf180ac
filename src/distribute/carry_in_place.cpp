// SPDX-License-Identifier: BSD-3-Clause
// In-place moves: arriving elements take the places of departing ones.
//
// Only elements that leave are read; they are staged, and arrivals fill the holes from the front.
// Few stay unfilled at the end, where fewer arrive than leave: only from there on elements move up.
// In stable order those that stay move together to their place between the arrivals.
#include <cstring>

#include "lanes.hpp"

namespace datamover::distribute {
namespace {

class InPlaceCarrier final : public SlotOperation {
public:
    InPlaceCarrier(State& state, NodeSlot& slot, const Buffer& buffer, bool stable)
        : SlotOperation(state, slot),
          data_(buffer.data),
          elem_bytes_(buffer.elem_bytes),
          lanes_(state, slot, elem_bytes_, false),
          stable_(stable),
          holes_(state.all_elems(), static_cast<std::uint32_t>(state.rank())),
          end_(state.elems) {}

    void begin() override {
        stage();
        offer();
        if (stable_) move_stayers();
        lanes_.expect(s_.recv_counts);
    }

    bool advance() override {
        const bool all = lanes_.take(
            true, [&](const LaneSource& source) { return room_for(source); },
            [&](const LaneSource& source) { place(source); });
        lanes_.acknowledge();
        if (!all) return false;
        if (!stable_ && !closed_) close_holes();
        closed_ = true;
        return lanes_.all_taken();
    }

    std::vector<std::int64_t> waiting_for() const override { return lanes_.waiting_for(); }

private:
    std::int64_t bytes_of(std::int64_t elems) const { return elems * elem_bytes_; }

    void stage() {
        starts_.assign(at(s_.nprocs()) + 1, 0);
        for (int r = 0; r < s_.nprocs(); ++r)
            starts_[at(r) + 1] =
                starts_[at(r)] + (r == s_.rank() ? 0 : bytes_of(s_.send_counts[at(r)]));
        staging_ = memory::SegmentPool::of_process().allocate(starts_.back());
        use(staging_);
        s_.last_move.staged_bytes = starts_.back();
        std::vector<std::byte*> places(starts_.size());
        for (std::size_t r = 0; r < places.size(); ++r) places[r] = staging_->data + starts_[r];
        fan_out_leaving(s_.all_elems(), {data_, elem_bytes_, elem_bytes_},
                        static_cast<std::uint32_t>(s_.rank()), places.data());
    }

    void offer() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = s_.send_counts[at(r)];
            if (elems == 0 || r == s_.rank()) continue;
            const std::byte* from = staging_->data + starts_[at(r)];
            const mpi::Part part{from, bytes_of(elems), memory::place_of(staging_.get(), from)};
            lanes_.give(r, elems, {&part, 1}, staging_);
        }
    }

    /// One process's elements at a time come in a message.
    LaneRoom room_for(const LaneSource& source) {
        const std::int64_t bytes = bytes_of(source.elems);
        arrived_ = memory::SegmentPool::allocate_private(bytes);
        s_.last_move.staged_bytes += bytes;
        return {{{arrived_->data, bytes}}, arrived_};
    }

    void move_stayers() {
        close_holes();
        const auto me = at(s_.rank());
        std::memmove(data_ + bytes_of(s_.recv_starts[me]), data_, at(bytes_of(s_.recv_counts[me])));
    }

    void place(const LaneSource& source) {
        note_progress();
        const std::byte* from = source.places.empty() ? arrived_->data : source.places.front();
        if (stable_)
            std::memcpy(data_ + bytes_of(s_.recv_starts[at(source.rank)]), from,
                        at(bytes_of(source.elems)));
        else
            fill(from, source.elems);
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
    Lanes lanes_;
    bool stable_, closed_ = false;
    memory::AllocationPtr staging_;
    std::vector<std::int64_t> starts_;  ///< bytes into the staging memory, per rank
    LeavingElems holes_;                ///< the places of those that left, not yet filled
    std::int64_t end_;                  ///< elements before it are filled or holes
    memory::AllocationPtr arrived_;     ///< what the last message held
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

void exchange_by_partition(State& state, NodeSlot& slot, const Buffer& buffer, bool stable) {
    InPlaceCarrier carrier(state, slot, buffer, stable);
    run(state, carrier);
}

}  // namespace datamover::distribute
