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
    BackCarrier(State& state, const WayBack& way)
        : s_(state),
          channel_(*state.channel),
          way_(way),
          elem_bytes_(way.carriage.elem_bytes()),
          sends_(state),
          sources_(way.carriage.columns.size()) {}

    void run() {
        channel_.trim();
        for (std::size_t c = 0; c < sources_.size(); ++c) make_dense(c);
        offer();
        find_values();
        for (std::size_t c = 0; c < sources_.size(); ++c) collect_column(c);
        for (const int position : lenders_) channel_.acknowledge(position);
        sends_.wait();
        for (const int position : borrowers_) {
            NodeChannel::Wait wait(channel_);
            while (!channel_.acknowledged(position)) wait.pause();
        }
    }

private:
    /// The values of a column, one behind the other in stable order.
    struct Source {
        const std::byte* base = nullptr;
        Place place;
        bool reachable = false;
        memory::AllocationPtr copy;
        std::vector<const std::byte*> from;  ///< per rank: where the values for elements here start
    };

    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    const ElementColumn& column(std::size_t c) const { return way_.carriage.columns[c]; }
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
        source.reachable = dense && find_place(s_, source.base, source.place);
        if (source.reachable || (dense && !anyone_on_node())) return;
        source.copy = s_.group->pool().allocate(bytes_of(s_.received(), c));
        s_.counters.staged_bytes += bytes_of(s_.received(), c);
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
        source.reachable = static_cast<bool>(source.copy->segment);
        if (source.reachable)
            source.place = {source.copy->segment->name(), source.copy->segment_offset_bytes};
    }

    bool all_reachable() const {
        return std::all_of(sources_.begin(), sources_.end(),
                           [](const Source& source) { return source.reachable; });
    }

    void offer() {
        const bool reachable = all_reachable();
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = s_.recv_counts[at(r)], first = s_.recv_starts[at(r)];
            if (elems == 0 || r == s_.rank()) continue;
            const int p = channel_.position(r);
            if (p >= 0) {
                Letter& letter = channel_.draft(NodeChannel::opening, p);
                letter.kind = reachable ? LetterKind::shared : LetterKind::private_;
                for (std::size_t c = 0; reachable && c < sources_.size(); ++c) {
                    letter.places[c] = sources_[c].place;
                    letter.places[c].offset_bytes += bytes_of(first, c);
                }
                channel_.send(NodeChannel::opening, p);
                borrowers_.push_back(p);
            }
            if (p < 0 || !reachable) send_values(r, first, elems);
        }
    }

    void send_values(int rank, std::int64_t first, std::int64_t elems) {
        std::vector<Part> parts;
        for (std::size_t c = 0; c < sources_.size(); ++c)
            parts.push_back({sources_[c].base + bytes_of(first, c), bytes_of(elems, c)});
        sends_.send(parts, rank);
    }

    /// Learns where the values for this process's elements start, per rank that they went to.
    void find_values() {
        for (Source& source : sources_) source.from.assign(at(s_.nprocs()) + 1, nullptr);
        std::vector<int> by_message;
        std::int64_t bytes = 0;
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = s_.send_counts[at(r)];
            if (elems == 0 || find_on_node(r)) continue;
            by_message.push_back(r);
            bytes += elems * elem_bytes_;
        }
        if (by_message.empty()) return;
        arrived_ = s_.group->pool().allocate(bytes);
        s_.counters.staged_bytes += bytes;
        std::byte* next = arrived_->data;
        for (const int r : by_message) {
            const std::int64_t elems = s_.send_counts[at(r)];
            receive_bytes(s_, next, elems * elem_bytes_, r);
            for (std::size_t c = 0; c < sources_.size(); ++c) {
                sources_[c].from[at(r)] = next;
                next += bytes_of(elems, c);
            }
        }
    }

    /// False where values come in a message.
    bool find_on_node(int rank) {
        const int p = channel_.position(rank);
        if (rank == s_.rank()) {
            for (std::size_t c = 0; c < sources_.size(); ++c)
                sources_[c].from[at(rank)] =
                    sources_[c].base + bytes_of(s_.recv_starts[at(rank)], c);
            return true;
        }
        if (p < 0) return false;
        const Letter& letter = channel_.await(NodeChannel::opening, p);
        lenders_.push_back(p);
        if (letter.kind != LetterKind::shared) return false;
        for (std::size_t c = 0; c < sources_.size(); ++c)
            sources_[c].from[at(rank)] = channel_.address(p, letter.places[c]);
        return true;
    }

    void collect_column(std::size_t c) {
        const Deal all = s_.deal();
        std::byte* result = way_.carriage.results[c].data;
        if ((all.drops || !all.rows.one_each()) && s_.elems > 0)
            std::memset(result, 0, at(bytes_of(s_.elems, c)));
        collect_combined(all, sources_[c].from.data(), result, column(c).elem_bytes, way_.op,
                         column(c).type);
    }

    State& s_;
    NodeChannel& channel_;
    const WayBack& way_;
    std::int64_t elem_bytes_;  ///< of all columns
    PendingSends sends_;
    std::vector<Source> sources_;
    std::vector<int> lenders_, borrowers_;  ///< positions on the node
    memory::AllocationPtr arrived_;
};

}  // namespace

void carry_back(State& state, const WayBack& way) {
    BackCarrier(state, way).run();
}

}  // namespace datamover::distribute
