// SPDX-License-Identifier: BSD-3-Clause
// How do elements get to their processes in one pass over them?
//
// Every target has a place where its next element is written: this process's result for elements
// that stay, the receiver's result where it lies in shared memory, else staging memory from which
// the receiver copies (on the node) or a message is sent (beyond it).
#include <algorithm>
#include <atomic>
#include <cstring>

#include "distribution_state.hpp"
#include "pair_messages.hpp"

namespace datamover::distribute {
namespace {

/// Results beyond this are written past the caches.
constexpr std::int64_t streamed_bytes = std::int64_t{4} << 20;
constexpr std::int64_t line_bytes = 64;

std::int64_t whole_lines(std::int64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

class Carrier {
public:
    Carrier(State& state, const Carriage& carriage)
        : s_(state),
          channel_(*state.channel),
          carriage_(carriage),
          elem_bytes_(carriage.elem_bytes()),
          sends_(state),
          places_(static_cast<std::size_t>(state.nprocs()) + 1, nullptr) {}

    void run() {
        channel_.trim();
        expect_arrivals();
        open();
        find_targets();
        Deal range = s_.deal();
        const std::int64_t elems = range.end_elem;
        range.streams = s_.received() * elem_bytes_ > streamed_bytes;
        do {
            range.end_elem = round_end(range, elems);
            round(range, range.begin_elem == 0 && range.end_elem == elems);
            range.begin_elem = range.end_elem;
        } while (range.begin_elem < elems);
        for (const Direct& target : direct_)
            if (target.position >= 0) tell_done(target.position);
        NodeChannel::Wait wait(channel_);
        while (!progress()) wait.pause();
    }

private:
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
    };

    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

    void expect_arrivals() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank() || s_.recv_counts[at(r)] == 0) continue;
            const int p = channel_.position(r);
            arrivals_.push_back({r, p, s_.recv_starts[at(r)], s_.recv_counts[at(r)], p < 0});
        }
    }

    /// Tells the senders on the node where their elements belong.
    void open() {
        std::vector<Place> bases(carriage_.columns.size());
        bool reachable = true;
        for (std::size_t c = 0; c < bases.size(); ++c)
            reachable = reachable && find_place(s_, carriage_.results[c].data, bases[c]);
        for (const Arrival& arrival : arrivals_) {
            if (arrival.position < 0) continue;
            Letter& letter = channel_.draft(NodeChannel::opening, arrival.position);
            letter.kind = reachable ? LetterKind::shared : LetterKind::private_;
            for (std::size_t c = 0; reachable && c < bases.size(); ++c) {
                letter.places[c] = bases[c];
                letter.places[c].offset_bytes +=
                    arrival.next_elem * carriage_.columns[c].elem_bytes;
            }
            channel_.send(NodeChannel::opening, arrival.position);
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
                find_target_on_node(r, p);
        }
    }

    std::vector<std::byte*> own_places() const {
        std::vector<std::byte*> places;
        for (std::size_t c = 0; c < carriage_.columns.size(); ++c)
            places.push_back(carriage_.results[c].data +
                             s_.recv_starts[at(s_.rank())] * carriage_.columns[c].elem_bytes);
        return places;
    }

    void find_target_on_node(int rank, int position) {
        const Letter& letter = channel_.await(NodeChannel::opening, position);
        if (letter.kind != LetterKind::shared) {
            staged_.push_back({rank, position});
            return;
        }
        Direct target{rank, position, {}};
        for (std::size_t c = 0; c < carriage_.columns.size(); ++c)
            target.next.push_back(channel_.address(position, letter.places[c]));
        direct_.push_back(std::move(target));
    }

    /// How far a round goes so that what it stages keeps to the limit, at least one element.
    std::int64_t round_end(const Deal& range, std::int64_t elems) const {
        const std::int64_t limit = s_.options.max_bytes;
        if (limit == 0 || staged_.empty()) return elems;
        std::vector<char> is_staged(places_.size(), 0);
        for (const Staged& target : staged_) is_staged[at(target.rank)] = 1;
        std::int64_t room = limit / elem_bytes_;
        return with_codes(*range.codes, [&](const auto* codes) {
            std::int64_t i = range.begin_elem;
            for (; i < elems; ++i) {
                const std::int64_t end = range.rows.first_entry(i + 1);
                for (std::int64_t e = range.rows.first_entry(i); e < end; ++e)
                    room -= is_staged[codes[e]];
                if (room < 0) break;
            }
            return std::max(i, range.begin_elem + 1);
        });
    }

    void round(const Deal& range, bool whole) {
        ++s_.counters.rounds;
        stage(range, whole);
        for (std::size_t c = 0; c < carriage_.columns.size(); ++c) deal_column(range, c);
        for (Staged& target : staged_) dispatch(target);
        NodeChannel::Wait wait(channel_);
        while (!staging_free()) {
            progress();
            wait.pause();
        }
    }

    /// Lays out the staging memory: one message per target, in it one column after the other.
    void stage(const Deal& range, bool whole) {
        if (staged_.empty()) return;
        std::vector<std::int64_t> counts;
        if (!whole) {
            counts.assign(places_.size(), 0);
            count_range(range, counts.data());
        }
        std::int64_t bytes = 0;
        for (Staged& target : staged_) {
            target.elems = whole ? s_.send_counts[at(target.rank)] : counts[at(target.rank)];
            target.offset_bytes = bytes;
            bytes += s_.options.max_bytes == 0 ? whole_lines(target.elems * elem_bytes_)
                                               : target.elems * elem_bytes_;
        }
        if (!staging_ || staging_->bytes < bytes) staging_ = s_.group->pool().allocate(bytes);
        s_.counters.staged_bytes = std::max(s_.counters.staged_bytes, bytes);
    }

    void deal_column(const Deal& range, std::size_t c) {
        std::int64_t before = 0;
        for (std::size_t i = 0; i < c; ++i) before += carriage_.columns[i].elem_bytes;
        for (const Direct& target : direct_) places_[at(target.rank)] = target.next[c];
        for (const Staged& target : staged_)
            places_[at(target.rank)] = staging_->data + target.offset_bytes + target.elems * before;
        deal(range, carriage_.columns[c], places_.data());
        for (Direct& target : direct_) target.next[c] = places_[at(target.rank)];
    }

    void dispatch(Staged& target) {
        if (target.elems == 0) return;
        const bool reachable = target.position >= 0 && staging_->segment;
        if (target.position >= 0) {
            Letter& letter = channel_.draft(NodeChannel::answer, target.position);
            letter.kind = reachable ? LetterKind::shared : LetterKind::private_;
            letter.elems = target.elems;
            if (reachable)
                letter.places[0] = {staging_->segment->name(),
                                    staging_->segment_offset_bytes + target.offset_bytes};
            channel_.send(NodeChannel::answer, target.position);
            target.unacknowledged = true;
        }
        if (!reachable)
            sends_.send(staging_->data + target.offset_bytes, target.elems * elem_bytes_,
                        target.rank);
    }

    bool staging_free() {
        bool free = sends_.test();
        for (Staged& target : staged_) {
            if (target.unacknowledged && channel_.acknowledged(target.position))
                target.unacknowledged = false;
            free = free && !target.unacknowledged;
        }
        return free;
    }

    void tell_done(int position) {
        channel_.draft(NodeChannel::answer, position).kind = LetterKind::done;
        channel_.send(NodeChannel::answer, position);
    }

    /// Takes what has come; true when everything has.
    bool progress() {
        bool all = true;
        for (Arrival& arrival : arrivals_) {
            if (arrival.left == 0) continue;
            if (arrival.by_message)
                take(arrival, receive_elements(s_, carriage_, arrival.next_elem, arrival.rank));
            else if (const Letter* letter = channel_.receive(NodeChannel::answer, arrival.position))
                read(arrival, *letter);
            all = all && arrival.left == 0;
        }
        return all;
    }

    void take(Arrival& arrival, std::int64_t elems) {
        arrival.next_elem += elems;
        arrival.left -= elems;
        if (elems > 0 && arrival.position >= 0) {
            channel_.acknowledge(arrival.position);
            arrival.by_message = false;
        }
    }

    void read(Arrival& arrival, const Letter& letter) {
        if (letter.kind == LetterKind::done) {
            arrival.left = 0;
            return;
        }
        if (letter.kind == LetterKind::private_) {
            arrival.by_message = true;
            return;
        }
        const std::byte* from = channel_.address(arrival.position, letter.places[0]);
        for (std::size_t c = 0; c < carriage_.columns.size(); ++c) {
            const std::int64_t bytes = carriage_.columns[c].elem_bytes;
            std::memcpy(carriage_.results[c].data + arrival.next_elem * bytes, from,
                        at(letter.elems * bytes));
            from += letter.elems * bytes;
        }
        take(arrival, letter.elems);
    }

    State& s_;
    NodeChannel& channel_;
    const Carriage& carriage_;
    std::int64_t elem_bytes_;
    PendingSends sends_;
    std::vector<std::byte*> places_;
    std::vector<Direct> direct_;
    std::vector<Staged> staged_;
    std::vector<Arrival> arrivals_;
    memory::AllocationPtr staging_;
};

}  // namespace

bool find_place(State& s, const std::byte* data, Place& place) {
    const memory::AllocationPtr memory = s.channel->remembered(data);
    if (!memory || !memory->segment) return false;
    place = {memory->segment->name(), memory->segment_offset_bytes + (data - memory->data)};
    return true;
}

void carry(State& state, const Carriage& carriage) {
    Carrier(state, carriage).run();
}

}  // namespace datamover::distribute
