// SPDX-License-Identifier: BSD-3-Clause
// How do arriving elements take the places of those that leave?
//
// Only elements that leave are read; they are staged, and arrivals fill the holes from the front.
// Few stay unfilled at the end, where fewer arrive than leave: only from there on elements move up.
// In stable order those that stay move together to their place between the arrivals.
#include <algorithm>
#include <cstring>

#include "distribution_state.hpp"
#include "pair_messages.hpp"

namespace datamover::distribute {
namespace {

class InPlaceCarrier {
public:
    InPlaceCarrier(State& state, std::byte* data, std::int64_t elem_bytes, bool stable)
        : s_(state),
          channel_(*state.channel),
          data_(data),
          elem_bytes_(elem_bytes),
          sends_(state),
          stable_(stable),
          end_(state.elems) {}

    void run() {
        channel_.trim();
        stage();
        offer();
        if (stable_) move_stayers();
        for (int r = 0; r < s_.nprocs(); ++r)
            if (r != s_.rank() && s_.recv_counts[at(r)] > 0) take_from(r);
        if (!stable_) close_holes();
        sends_.wait();
        for (const int position : borrowers_) {
            NodeChannel::Wait wait(channel_);
            while (!channel_.acknowledged(position)) wait.pause();
        }
    }

private:
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    std::int64_t bytes_of(std::int64_t elems) const { return elems * elem_bytes_; }

    void stage() {
        starts_.assign(at(s_.nprocs()) + 1, 0);
        for (int r = 0; r < s_.nprocs(); ++r)
            starts_[at(r) + 1] =
                starts_[at(r)] + (r == s_.rank() ? 0 : bytes_of(s_.send_counts[at(r)]));
        staging_ = s_.group->pool().allocate(starts_.back());
        s_.counters.staged_bytes = starts_.back();
        std::vector<std::byte*> places(starts_.size());
        for (std::size_t r = 0; r < places.size(); ++r) places[r] = staging_->data + starts_[r];
        holes_ = deal_leaving(s_.deal(), {data_, elem_bytes_, elem_bytes_},
                              static_cast<std::uint32_t>(s_.rank()), places.data());
    }

    void offer() {
        const bool reachable = static_cast<bool>(staging_->segment);
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = s_.send_counts[at(r)];
            if (elems == 0 || r == s_.rank()) continue;
            const int p = channel_.position(r);
            if (p >= 0) {
                Letter& letter = channel_.draft(NodeChannel::opening, p);
                letter.kind = reachable ? LetterKind::shared : LetterKind::private_;
                if (reachable)
                    letter.places[0] = {staging_->segment->name(),
                                        staging_->segment_offset_bytes + starts_[at(r)]};
                channel_.send(NodeChannel::opening, p);
                borrowers_.push_back(p);
            }
            if (p < 0 || !reachable)
                sends_.send(staging_->data + starts_[at(r)], bytes_of(elems), r);
        }
    }

    void take_from(int rank) {
        const std::int64_t elems = s_.recv_counts[at(rank)];
        const int p = channel_.position(rank);
        bool by_message = p < 0;
        if (p >= 0) {
            const Letter& letter = channel_.await(NodeChannel::opening, p);
            by_message = letter.kind != LetterKind::shared;
            if (!by_message) place(channel_.address(p, letter.places[0]), elems, rank);
        }
        if (by_message) {
            const auto arrived = s_.group->pool().allocate(bytes_of(elems));
            s_.counters.staged_bytes += bytes_of(elems);
            receive_bytes(s_, arrived->data, bytes_of(elems), rank);
            place(arrived->data, elems, rank);
        }
        if (p >= 0) channel_.acknowledge(p);
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
        const std::int64_t holes = static_cast<std::int64_t>(holes_.size()) - next_hole_;
        const std::int64_t filled = std::min(elems, holes);
        for (std::int64_t i = 0; i < filled; ++i) {
            std::memcpy(data_ + bytes_of(holes_[at(next_hole_ + i)]), from, at(elem_bytes_));
            from += elem_bytes_;
        }
        next_hole_ += filled;
        std::memcpy(data_ + bytes_of(end_), from, at(bytes_of(elems - filled)));
        end_ += elems - filled;
    }

    void close_holes() {
        if (next_hole_ == static_cast<std::int64_t>(holes_.size())) return;
        std::int64_t to = holes_[at(next_hole_)];
        for (std::int64_t h = next_hole_; h < static_cast<std::int64_t>(holes_.size()); ++h) {
            const std::int64_t from = holes_[at(h)] + 1;
            const bool last = h + 1 == static_cast<std::int64_t>(holes_.size());
            const std::int64_t elems = (last ? s_.elems : holes_[at(h + 1)]) - from;
            std::memmove(data_ + bytes_of(to), data_ + bytes_of(from), at(bytes_of(elems)));
            to += elems;
        }
    }

    State& s_;
    NodeChannel& channel_;
    std::byte* data_;
    std::int64_t elem_bytes_;
    PendingSends sends_;
    bool stable_;
    memory::AllocationPtr staging_;
    std::vector<std::int64_t> starts_;  ///< bytes into the staging memory, per rank
    std::vector<std::int64_t> holes_;   ///< numbers of the elements that left, ascending
    std::int64_t next_hole_ = 0;
    std::int64_t end_;  ///< elements before it are filled or holes
    std::vector<int> borrowers_;
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

void carry_in_place(State& state, std::byte* data, std::int64_t elem_bytes, bool stable) {
    InPlaceCarrier(state, data, elem_bytes, stable).run();
}

}  // namespace datamover::distribute
