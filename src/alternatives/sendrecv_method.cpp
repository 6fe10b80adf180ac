// SPDX-License-Identifier: BSD-3-Clause
// How does the paper's implementation with aggregated messages move elements?
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4 (sendrecv).
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "mpi/checked_call.hpp"
#include "alternatives.hpp"

namespace datamover::alternatives {
namespace {

/// Elements per target that are sent together.
constexpr std::int64_t aggregated_elems = 128;

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

/// Sends elements as soon as a target's buffer is full, and receives meanwhile. Each target has two
/// buffers: one is filled while the other is under way.
class Aggregator {
public:
    Aggregator(State& state, const ElementColumn& column, std::byte* result, bool stable)
        : s_(state),
          column_(column),
          result_(result),
          tag_(state.data_tag),
          buffer_elems_(buffer_elems(state, column.elem_bytes)),
          stable_(stable),
          buffers_(at(state.nprocs())),
          next_(state.recv_starts),
          left_(state.recv_counts) {}

    void run() {
        const Deal all = s_.deal();
        with_codes(s_.codes, [&](const auto* codes) {
            for (std::int64_t i = 0; i < s_.elems; ++i)
                for (std::int64_t e = all.rows.first_entry(i); e < all.rows.first_entry(i + 1); ++e)
                    if (codes[e] != all.drop_code) put(static_cast<int>(codes[e]), i);
        });
        for (int r = 0; r < s_.nprocs(); ++r) flush(r);
        const auto comes = [](std::int64_t elems) { return elems > 0; };
        NodeChannel::Wait wait(*s_.channel);
        for (; std::any_of(left_.begin(), left_.end(), comes); wait.pause()) receive();
        for (Buffer& buffer : buffers_)
            mpi::check(MPI_Waitall(2, buffer.requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    }

private:
    struct Buffer {
        std::unique_ptr<std::byte[]> halves[2];
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        int half = 0;
        std::int64_t elems = 0;
    };

    static std::int64_t buffer_elems(const State& s, std::int64_t elem_bytes) {
        if (s.limit_bytes == 0) return aggregated_elems;
        return std::clamp<std::int64_t>(s.limit_bytes / (2 * elem_bytes * s.nprocs()), 1,
                                        aggregated_elems);
    }

    /// Where the next elements of a source go: to its own part of the result, or, where the order
    /// is free, behind all that is there.
    std::byte* take_places(int source, std::int64_t elems) {
        std::int64_t& next = stable_ ? next_[at(source)] : next_.front();
        std::byte* place = result_ + next * column_.elem_bytes;
        next += elems;
        left_[at(source)] -= elems;
        return place;
    }

    void put(int rank, std::int64_t elem) {
        const std::byte* from =
            static_cast<const std::byte*>(column_.data) + elem * column_.stride_bytes;
        if (rank == s_.rank()) {
            std::memcpy(take_places(rank, 1), from, at(column_.elem_bytes));
            return;
        }
        Buffer& buffer = buffers_[at(rank)];
        auto& half = buffer.halves[buffer.half];
        if (!half) {
            half =
                std::make_unique_for_overwrite<std::byte[]>(at(buffer_elems_ * column_.elem_bytes));
            s_.counters.staged_bytes += buffer_elems_ * column_.elem_bytes;
        }
        std::memcpy(half.get() + buffer.elems++ * column_.elem_bytes, from, at(column_.elem_bytes));
        if (buffer.elems == buffer_elems_) flush(rank);
    }

    void flush(int rank) {
        Buffer& buffer = buffers_[at(rank)];
        if (buffer.elems == 0) return;
        mpi::check(MPI_Isend(buffer.halves[buffer.half].get(),
                             mpi::to_int(buffer.elems * column_.elem_bytes, "message"), MPI_BYTE,
                             rank, tag_, s_.group->comm(), &buffer.requests[buffer.half]),
                   "MPI_Isend");
        ++s_.counters.messages;
        buffer.half = 1 - buffer.half;
        buffer.elems = 0;
        NodeChannel::Wait wait(*s_.channel);
        for (;; wait.pause()) {
            int free = 0;
            receive();
            mpi::check(MPI_Test(&buffer.requests[buffer.half], &free, MPI_STATUS_IGNORE),
                       "MPI_Test");
            if (free) break;
        }
    }

    /// Takes one message of each source that has more to send, if one has come.
    void receive() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank() || left_[at(r)] == 0) continue;
            int arrived = 0, bytes = 0;
            MPI_Status status;
            mpi::check(MPI_Iprobe(r, tag_, s_.group->comm(), &arrived, &status), "MPI_Iprobe");
            if (!arrived) continue;
            mpi::check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
            mpi::check(MPI_Recv(take_places(r, bytes / column_.elem_bytes), bytes, MPI_BYTE, r,
                                tag_, s_.group->comm(), MPI_STATUS_IGNORE),
                       "MPI_Recv");
        }
    }

    State& s_;
    const ElementColumn& column_;
    std::byte* result_;
    int tag_;
    std::int64_t buffer_elems_;
    bool stable_;
    std::vector<Buffer> buffers_;
    std::vector<std::int64_t> next_;  ///< per source: where its next element belongs
    std::vector<std::int64_t> left_;  ///< per source: elements that have not come
};

}  // namespace

void carry_by_sendrecv(State& s, const ElementColumn& column, std::byte* result, bool stable) {
    Aggregator(s, column, result, stable).run();
}

}  // namespace datamover::alternatives
