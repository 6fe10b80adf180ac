// SPDX-License-Identifier: BSD-3-Clause
// Moving values back within a limit on extra memory.
//
// They come in messages of few values. A holder sends the next one to a home only when the one
// before has been taken; a home asks for more when it has used what it had, and takes its elements
// in order as far as all their values are there.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "messages.hpp"
#include "migration_state.hpp"

namespace datamover::distribute {
namespace {

class BoundedBackCarrier final : public SlotOperation {
public:
    BoundedBackCarrier(State& state, NodeSlot& slot, const ReverseTransfer& way)
        : SlotOperation(state, slot),
          way_(way),
          messages_(*state.group, slot.tag()),
          places_(at(state.nprocs()) + 1, nullptr) {}

    void begin() override { begin_column(0); }

    bool advance() override {
        while (column_ < way_.transfer.columns.size()) {
            push_messages();
            take_values();
            if (range_.begin_elem < s_.elems || !all_sent()) return false;
            for (const Arrival& arrival : arrivals_) count_memory(arrival.most_bytes);
            if (!messages_.all_complete()) return false;
            begin_column(column_ + 1);
        }
        return true;
    }

    std::vector<std::int64_t> waiting_for() const override {
        std::vector<std::int64_t> ranks;
        for (std::size_t r = 0; r < sends_.size(); ++r)
            if (sends_[r].done < s_.recv_counts[r] || arrivals_[r].coming > 0)
                ranks.push_back(static_cast<std::int64_t>(r));
        return ranks;
    }

private:
    struct Send {
        std::int64_t done = 0;
        memory::AllocationPtr packed;  ///< where values do not lie one behind the other
        std::optional<std::size_t> message;
    };
    struct Arrival {
        std::int64_t asked = 0;            ///< values that have come or are under way
        std::int64_t there = 0, used = 0;  ///< in the buffer
        std::int64_t coming = 0;
        bool short_of = false;  ///< an element waits for more than is there
        std::int64_t most_bytes = 0;
        memory::AllocationPtr buffer;
        std::optional<std::size_t> message;
        std::byte* data() const { return buffer ? buffer->data : nullptr; }
    };

    void begin_column(std::size_t column) {
        column_ = column;
        if (column == way_.transfer.columns.size()) return;
        values_ = way_.transfer.columns[column];
        bytes_ = values_.elem_bytes;
        chunk_ = std::max<std::int64_t>(1, s_.limit_bytes / (2 * bytes_) / s_.nprocs());
        sends_.assign(at(s_.nprocs()), {});
        arrivals_.assign(at(s_.nprocs()), {});
        range_ = s_.all_elems();
        if ((range_.drops || !range_.rows.one_each()) && s_.elems > 0)
            std::memset(result(), 0, at(s_.elems * bytes_));
    }

    std::byte* result() const { return way_.transfer.results[column_].data; }

    /// Combines values for as many elements as have all of theirs.
    void take_values() {
        range_.end_elem = takeable_end(range_);
        if (range_.end_elem == range_.begin_elem) return;
        note_progress();
        for (std::size_t r = 0; r < arrivals_.size(); ++r)
            places_[r] = arrivals_[r].data() + arrivals_[r].used * bytes_;
        collect_combined(range_, places_.data(), result(), bytes_, way_.op, values_.type);
        for (std::size_t r = 0; r < arrivals_.size(); ++r)
            arrivals_[r].used = (places_[r] - arrivals_[r].data()) / bytes_;
        range_.begin_elem = range_.end_elem;
    }

    void count_memory(std::int64_t bytes) { s_.last_move.staged_bytes += bytes; }

    /// The value that is number `elem` in stable order.
    const std::byte* value(std::int64_t elem) const {
        return static_cast<const std::byte*>(values_.data) +
               way_.place(elem) * values_.stride_bytes;
    }

    void pack(std::byte* to, std::int64_t first, std::int64_t elems) const {
        for (std::int64_t i = 0; i < elems; ++i)
            std::memcpy(to + i * bytes_, value(first + i), at(bytes_));
    }

    void push_messages() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r != s_.rank()) send_next(r);
            ask_next(r);
        }
    }

    bool is_complete(std::optional<std::size_t>& message) {
        if (message && messages_.is_complete(*message)) {
            message.reset();
            note_progress();
        }
        return !message;
    }

    void send_next(int rank) {
        Send& send = sends_[at(rank)];
        const std::int64_t elems = std::min(chunk_, s_.recv_counts[at(rank)] - send.done);
        if (!is_complete(send.message) || elems == 0) return;
        const std::int64_t first = s_.recv_starts[at(rank)] + send.done;
        const std::byte* from = value(first);
        if (values_.stride_bytes != bytes_ || !way_.places.empty()) {
            if (!send.packed) {
                send.packed = memory::SegmentPool::allocate_private(elems * bytes_);
                count_memory(elems * bytes_);
            }
            pack(send.packed->data, first, elems);
            from = send.packed->data;
        }
        // Synchronous: so that MPI keeps no messages that nobody waits for.
        send.message = messages_.send_synchronously({from, elems * bytes_}, rank, send.packed);
        ++s_.last_move.messages;
        send.done += elems;
    }

    bool all_sent() {
        bool all = true;
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank()) continue;
            Send& send = sends_[at(r)];
            all = is_complete(send.message) && send.done == s_.recv_counts[at(r)] && all;
        }
        return all;
    }

    /// Takes what has come from a rank, and asks for more where an element waits for it.
    void ask_next(int rank) {
        Arrival& a = arrivals_[at(rank)];
        if (a.coming > 0) {
            if (!is_complete(a.message)) return;
            a.there += a.coming;
            a.coming = 0;
            a.short_of = false;
            return;
        }
        const std::int64_t left = s_.send_counts[at(rank)] - a.asked;
        if (left == 0 || !(a.used == a.there || a.short_of)) return;
        a.short_of = false;
        const std::int64_t elems = std::min(chunk_, left);
        make_room(a, elems);
        std::byte* to = a.data() + a.there * bytes_;
        if (rank == s_.rank()) {
            pack(to, s_.recv_starts[at(rank)] + a.asked, elems);
            a.there += elems;
        } else {
            const Part part{to, elems * bytes_};
            a.message = messages_.receive({&part, 1}, rank, a.buffer);
            a.coming = elems;
        }
        a.asked += elems;
    }

    /// Values that are used make room for more.
    void make_room(Arrival& a, std::int64_t elems) {
        const std::int64_t kept = a.there - a.used, needed = (kept + elems) * bytes_;
        const memory::AllocationPtr old = a.buffer;
        if (!a.buffer || a.buffer->bytes < needed)
            a.buffer = memory::SegmentPool::allocate_private(needed);
        if (kept > 0) std::memmove(a.data(), old->data + a.used * bytes_, at(kept * bytes_));
        a.most_bytes = std::max(a.most_bytes, needed);
        a.there = kept;
        a.used = 0;
    }

    /// How far all values of all elements are there; notes who keeps the next element waiting.
    std::int64_t takeable_end(const ElementRange& range) {
        std::vector<std::int64_t> left(arrivals_.size());
        for (std::size_t r = 0; r < left.size(); ++r)
            left[r] = arrivals_[r].there - arrivals_[r].used;
        return with_codes(s_.codes, [&](const auto* codes) {
            for (std::int64_t i = range.begin_elem; i < s_.elems; ++i) {
                const std::int64_t end = range.rows.first_entry(i + 1);
                for (std::int64_t e = range.rows.first_entry(i); e < end; ++e) {
                    if (codes[e] == range.drop_code || left[codes[e]]-- > 0) continue;
                    arrivals_[codes[e]].short_of = true;
                    return i;
                }
            }
            return s_.elems;
        });
    }

    ReverseTransfer way_;
    Messages messages_;
    std::vector<const std::byte*> places_;
    std::size_t column_ = 0;
    ElementColumn values_;
    std::int64_t bytes_ = 1;
    std::int64_t chunk_ = 1;  ///< values per message
    std::vector<Send> sends_;
    std::vector<Arrival> arrivals_;
    ElementRange range_;  ///< begins with the first element that lacks values
};

}  // namespace

OperationPtr make_bounded_reverse_transfer(State& state, NodeSlot& slot,
                                           const ReverseTransfer& way) {
    return std::make_unique<BoundedBackCarrier>(state, slot, way);
}

}  // namespace datamover::distribute
