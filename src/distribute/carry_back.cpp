// SPDX-License-Identifier: BSD-3-Clause
// How do values of received elements get to where the elements came from?
//
// Values for one home lie one behind the other where they are: nothing is packed. On a node the
// home reads them straight from the holder's memory, or from a shared copy where that is private.
#include <algorithm>
#include <cstring>

#include "distribution_state.hpp"
#include "pair_messages.hpp"

namespace datamover::distribute {
namespace {

class BackCarrier {
public:
    BackCarrier(State& state, const ElementColumn& values)
        : s_(state), channel_(*state.channel), values_(values), sends_(state) {}

    void run(std::byte* result, Op op, ScalarType type) {
        channel_.trim();
        make_dense();
        offer();
        std::vector<const std::byte*> places = find_values();
        const Deal all = s_.deal();
        if (all.drops || !all.rows.one_each())
            std::memset(result, 0, static_cast<std::size_t>(s_.elems * values_.elem_bytes));
        collect_combined(all, places.data(), result, values_.elem_bytes, op, type);
        for (const int position : lenders_) channel_.acknowledge(position);
        sends_.wait();
        for (const int position : borrowers_) {
            NodeChannel::Wait wait(channel_);
            while (!channel_.acknowledged(position)) wait.pause();
        }
    }

private:
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    std::int64_t bytes_of(std::int64_t elems) const { return elems * values_.elem_bytes; }

    bool anyone_on_node() const {
        for (int p = 0; p < channel_.size(); ++p)
            if (p != channel_.me() && s_.recv_counts[at(channel_.rank_of(p))] > 0) return true;
        return false;
    }

    /// Values in private memory are copied once to where the node reaches them.
    void make_dense() {
        base_ = static_cast<const std::byte*>(values_.data);
        const bool dense = values_.stride_bytes == values_.elem_bytes;
        reachable_ = dense && find_place(s_, base_, place_);
        if (reachable_ || (dense && !anyone_on_node())) return;
        copy_ = s_.group->pool().allocate(bytes_of(s_.received()));
        s_.counters.staged_bytes += bytes_of(s_.received());
        if (dense) {
            std::memcpy(copy_->data, base_, at(bytes_of(s_.received())));
        } else {
            for (std::int64_t i = 0; i < s_.received(); ++i)
                std::memcpy(copy_->data + bytes_of(i), base_ + i * values_.stride_bytes,
                            at(values_.elem_bytes));
        }
        base_ = copy_->data;
        reachable_ = static_cast<bool>(copy_->segment);
        if (reachable_) place_ = {copy_->segment->name(), copy_->segment_offset_bytes};
    }

    void offer() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = s_.recv_counts[at(r)], first = s_.recv_starts[at(r)];
            if (elems == 0 || r == s_.rank()) continue;
            const int p = channel_.position(r);
            if (p >= 0) {
                Letter& letter = channel_.draft(NodeChannel::opening, p);
                letter.kind = reachable_ ? LetterKind::shared : LetterKind::private_;
                letter.places[0] = place_;
                letter.places[0].offset_bytes += bytes_of(first);
                channel_.send(NodeChannel::opening, p);
                borrowers_.push_back(p);
            }
            if (p < 0 || !reachable_) sends_.send(base_ + bytes_of(first), bytes_of(elems), r);
        }
    }

    /// Where the values for this process's elements start, per rank that they went to.
    std::vector<const std::byte*> find_values() {
        std::vector<const std::byte*> places(at(s_.nprocs()) + 1, nullptr);
        std::vector<int> by_message;
        std::int64_t bytes = 0;
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (s_.send_counts[at(r)] == 0) continue;
            const int p = channel_.position(r);
            if (r == s_.rank()) {
                places[at(r)] = base_ + bytes_of(s_.recv_starts[at(r)]);
                continue;
            }
            if (p >= 0) {
                const Letter& letter = channel_.await(NodeChannel::opening, p);
                lenders_.push_back(p);
                if (letter.kind == LetterKind::shared) {
                    places[at(r)] = channel_.address(p, letter.places[0]);
                    continue;
                }
            }
            by_message.push_back(r);
            bytes += bytes_of(s_.send_counts[at(r)]);
        }
        if (by_message.empty()) return places;
        arrived_ = s_.group->pool().allocate(bytes);
        s_.counters.staged_bytes += bytes;
        std::byte* next = arrived_->data;
        for (const int r : by_message) {
            receive_bytes(s_, next, bytes_of(s_.send_counts[at(r)]), r);
            places[at(r)] = next;
            next += bytes_of(s_.send_counts[at(r)]);
        }
        return places;
    }

    State& s_;
    NodeChannel& channel_;
    const ElementColumn& values_;
    PendingSends sends_;
    const std::byte* base_ = nullptr;
    Place place_;
    bool reachable_ = false;
    std::vector<int> lenders_, borrowers_;  ///< positions on the node
    memory::AllocationPtr copy_, arrived_;
};

}  // namespace

void carry_back(State& state, const ElementColumn& values, std::byte* result, Op op,
                ScalarType type) {
    BackCarrier(state, values).run(result, op, type);
}

}  // namespace datamover::distribute
