// SPDX-License-Identifier: BSD-3-Clause
// How do values of received elements get home within a limit of extra memory?
//
// They come in messages of few values. A holder sends the next one to a home only when the one
// before has been taken; a home asks for more when it has used what it had, and takes its elements
// in order as far as all their values are there.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "distribution_state.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::distribute {
namespace {

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

class BoundedBackCarrier {
public:
    BoundedBackCarrier(State& state, const WayBack& way, std::size_t column)
        : s_(state),
          way_(way),
          values_(way.carriage.columns[column]),
          result_(way.carriage.results[column].data),
          bytes_(values_.elem_bytes),
          chunk_(std::max<std::int64_t>(1, state.limit_bytes / (2 * bytes_ * state.nprocs()))),
          sends_(at(state.nprocs())),
          arrivals_(at(state.nprocs())) {}

    void run() {
        Deal range = s_.deal();
        if ((range.drops || !range.rows.one_each()) && s_.elems > 0)
            std::memset(result_, 0, at(s_.elems * bytes_));
        std::vector<const std::byte*> places(sends_.size() + 1, nullptr);
        for (NodeChannel::Wait wait(*s_.channel); range.begin_elem < s_.elems;) {
            progress();
            range.end_elem = takeable_end(range);
            if (range.end_elem == range.begin_elem) {
                wait.pause();
                continue;
            }
            for (std::size_t r = 0; r < arrivals_.size(); ++r)
                places[r] = arrivals_[r].buffer.data() + arrivals_[r].used * bytes_;
            collect_combined(range, places.data(), result_, bytes_, way_.op, values_.type);
            for (std::size_t r = 0; r < arrivals_.size(); ++r)
                arrivals_[r].used = (places[r] - arrivals_[r].buffer.data()) / bytes_;
            range.begin_elem = range.end_elem;
        }
        for (NodeChannel::Wait wait(*s_.channel); !all_sent(); wait.pause()) progress();
        for (const Arrival& arrival : arrivals_) count_memory(arrival.most_bytes);
    }

private:
    struct Send {
        std::int64_t done = 0;
        std::vector<std::byte> packed;  ///< where values do not lie one behind the other
        MPI_Request request = MPI_REQUEST_NULL;
    };
    struct Arrival {
        std::int64_t asked = 0;            ///< values that have come or are under way
        std::int64_t there = 0, used = 0;  ///< in the buffer
        std::int64_t coming = 0;
        bool short_of = false;  ///< an element waits for more than is there
        std::int64_t most_bytes = 0;
        std::vector<std::byte> buffer;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    void count_memory(std::int64_t bytes) { s_.counters.staged_bytes += bytes; }

    /// The value that is number `elem` in stable order.
    const std::byte* value(std::int64_t elem) const {
        return static_cast<const std::byte*>(values_.data) +
               way_.place(elem) * values_.stride_bytes;
    }

    void pack(std::byte* to, std::int64_t first, std::int64_t elems) const {
        for (std::int64_t i = 0; i < elems; ++i)
            std::memcpy(to + i * bytes_, value(first + i), at(bytes_));
    }

    void progress() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r != s_.rank()) send_next(r);
            ask_next(r);
        }
    }

    static bool complete(MPI_Request& request) {
        int done = 0;
        mpi::check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        return done != 0;
    }

    void send_next(int rank) {
        Send& send = sends_[at(rank)];
        const std::int64_t elems = std::min(chunk_, s_.recv_counts[at(rank)] - send.done);
        if (!complete(send.request) || elems == 0) return;
        const std::int64_t first = s_.recv_starts[at(rank)] + send.done;
        const std::byte* from = value(first);
        if (values_.stride_bytes != bytes_ || !way_.places.empty()) {
            if (send.packed.empty()) {
                send.packed.resize(at(elems * bytes_));
                count_memory(elems * bytes_);
            }
            pack(send.packed.data(), first, elems);
            from = send.packed.data();
        }
        const mpi::ByteMessage message(elems * bytes_);
        // Synchronous: so that MPI keeps no messages that nobody waits for.
        mpi::check(MPI_Issend(from, message.count(), message.type(), rank, s_.data_tag,
                              s_.group->comm(), &send.request),
                   "MPI_Issend");
        ++s_.counters.messages;
        send.done += elems;
    }

    bool all_sent() {
        bool all = true;
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank()) continue;
            Send& send = sends_[at(r)];
            all = complete(send.request) && send.done == s_.recv_counts[at(r)] && all;
        }
        return all;
    }

    /// Takes what has come from a rank, and asks for more where an element waits for it.
    void ask_next(int rank) {
        Arrival& a = arrivals_[at(rank)];
        if (a.coming > 0) {
            if (!complete(a.request)) return;
            a.there += a.coming;
            a.coming = 0;
            a.short_of = false;
            return;
        }
        const std::int64_t left = s_.send_counts[at(rank)] - a.asked;
        if (left == 0 || !(a.used == a.there || a.short_of)) return;
        a.short_of = false;
        std::memmove(a.buffer.data(), a.buffer.data() + a.used * bytes_,
                     at((a.there - a.used) * bytes_));
        a.there -= a.used;
        a.used = 0;
        const std::int64_t elems = std::min(chunk_, left);
        a.buffer.resize(std::max(a.buffer.size(), at((a.there + elems) * bytes_)));
        a.most_bytes = static_cast<std::int64_t>(a.buffer.size());
        std::byte* to = a.buffer.data() + a.there * bytes_;
        if (rank == s_.rank()) {
            pack(to, s_.recv_starts[at(rank)] + a.asked, elems);
            a.there += elems;
        } else {
            const mpi::ByteMessage message(elems * bytes_);
            mpi::check(MPI_Irecv(to, message.count(), message.type(), rank, s_.data_tag,
                                 s_.group->comm(), &a.request),
                       "MPI_Irecv");
            a.coming = elems;
        }
        a.asked += elems;
    }

    /// How far all values of all elements are there; notes who keeps the next element waiting.
    std::int64_t takeable_end(const Deal& range) {
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

    State& s_;
    const WayBack& way_;
    const ElementColumn& values_;
    std::byte* result_;
    std::int64_t bytes_;
    std::int64_t chunk_;  ///< values per message
    std::vector<Send> sends_;
    std::vector<Arrival> arrivals_;
};

}  // namespace

void carry_back_bounded(State& state, const WayBack& way) {
    for (std::size_t c = 0; c < way.carriage.columns.size(); ++c)
        BoundedBackCarrier(state, way, c).run();
}

}  // namespace datamover::distribute
