// SPDX-License-Identifier: BSD-3-Clause
// The paper's implementation with aggregated messages.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4 (sendrecv).
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "alternatives.hpp"
#include "mpi/part_messages.hpp"

namespace datamover::alternatives {
namespace {

/// Elements per target that are sent together.
constexpr std::int64_t aggregated_elems = 128;

/// Sends elements as soon as a target's buffer is full, and receives meanwhile. In a message the
/// columns of an element lie side by side. Each target has two buffers: one is filled while the
/// other is under way.
class Aggregator {
public:
    Aggregator(State& state, NodeSlot& slot, const ColumnTransfer& transfer)
        : s_(state),
          transfer_(transfer),
          elem_bytes_(transfer.elem_bytes()),
          one_column_(transfer.columns.size() == 1),
          sends_(*state.group, slot.tag()),
          receives_(*state.group, slot.tag()),
          buffer_elems_(
              state.limit_bytes == 0
                  ? aggregated_elems
                  : std::clamp<std::int64_t>(state.limit_bytes / (2 * elem_bytes_) / state.nprocs(),
                                             1, aggregated_elems)),
          buffers_(at(state.nprocs())),
          next_(state.recv_starts),
          left_(state.recv_counts) {}

    void run() {
        for_each_entry(s_.all_elems(),
                       [&](std::int64_t i, auto rank) { put(static_cast<int>(rank), i); });
        for (int r = 0; r < s_.nprocs(); ++r) flush(r);
        const auto comes = [](std::int64_t elems) { return elems > 0; };
        const auto through = [&] {
            receive();
            return std::ranges::none_of(left_, comes) && sends_.all_complete();
        };
        mpi::wait_until(*s_.group, through, mpi::Load::data);
    }

private:
    struct Half {
        memory::AllocationPtr memory;
        std::optional<std::size_t> message;  ///< the last one from here
    };
    struct Buffer {
        Half filled, sent;
        std::int64_t elems = 0;  ///< in the one that is filled
    };

    /// Gives the next elements of a source their places: those of its own part of the results.
    std::int64_t take_places(int source, std::int64_t elems) {
        left_[at(source)] -= elems;
        return std::exchange(next_[at(source)], next_[at(source)] + elems);
    }

    /// Takes elements out of a message.
    void unpack(const std::byte* from, std::int64_t begin, std::int64_t elems) const {
        for (std::int64_t i = begin; i < begin + elems; ++i)
            for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
                const std::int64_t bytes = transfer_.columns[c].elem_bytes;
                std::memcpy(transfer_.results[c].data + i * bytes, from, at(bytes));
                from += bytes;
            }
    }

    /// Copies the parts of an element to the places that to(column) gives.
    template <class To>
    void copy(std::int64_t elem, To&& to) const {
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
            const ElementColumn& column = transfer_.columns[c];
            std::memcpy(to(c),
                        static_cast<const std::byte*>(column.data) + elem * column.stride_bytes,
                        at(column.elem_bytes));
        }
    }

    memory::AllocationPtr make_buffer(std::int64_t elems) {
        s_.last_move.staged_bytes += elems * elem_bytes_;
        return memory::SegmentPool::allocate_private(elems * elem_bytes_);
    }

    void put(int rank, std::int64_t elem) {
        if (rank == s_.rank()) {
            const std::int64_t place = take_places(rank, 1);
            return copy(elem, [&](std::size_t c) {
                return transfer_.results[c].data + place * transfer_.columns[c].elem_bytes;
            });
        }
        Buffer& buffer = buffers_[at(rank)];
        auto& memory = buffer.filled.memory;
        if (!memory) memory = make_buffer(buffer_elems_);
        std::byte* next = memory->data + buffer.elems++ * elem_bytes_;
        copy(elem, [&](std::size_t c) {
            return std::exchange(next, next + transfer_.columns[c].elem_bytes);
        });
        if (buffer.elems == buffer_elems_) flush(rank);
    }

    void flush(int rank) {
        auto& [filled, sent, elems] = buffers_[at(rank)];
        if (elems == 0) return;
        filled.message =
            sends_.send({filled.memory->data, elems * elem_bytes_}, rank, filled.memory);
        ++s_.last_move.messages;
        elems = 0;
        std::swap(filled, sent);
        const auto& before = filled.message;
        const auto free = [&] {
            receive();
            return !before || sends_.is_complete(*before);
        };
        mpi::wait_until(*s_.group, free, mpi::Load::data);
    }

    /// Takes one message of each source that has more to send, if one has come.
    void receive() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank() || left_[at(r)] == 0) continue;
            const std::int64_t bytes = receives_.probe(r);
            if (bytes >= 0) receive_from(r, bytes);
        }
    }

    /// One column goes straight to its places.
    void receive_from(int rank, std::int64_t bytes) {
        const std::int64_t elems = bytes / elem_bytes_, begin = take_places(rank, elems);
        const ElementBuffer& result = transfer_.results.front();
        if (one_column_) {
            receives_.receive({result.data + begin * elem_bytes_, bytes}, rank, result.owner);
            return receives_.wait();
        }
        if (!incoming_) incoming_ = make_buffer(buffer_elems_);
        receives_.receive({incoming_->data, bytes}, rank, incoming_);
        receives_.wait();
        unpack(incoming_->data, begin, elems);
    }

    State& s_;
    const ColumnTransfer& transfer_;
    std::int64_t elem_bytes_;  ///< of all columns
    bool one_column_;
    mpi::Messages sends_, receives_;
    std::int64_t buffer_elems_;
    std::vector<Buffer> buffers_;
    memory::AllocationPtr incoming_;
    std::vector<std::int64_t> next_;  ///< per source: where its next element belongs
    std::vector<std::int64_t> left_;  ///< per source: elements that have not come
};

}  // namespace

void carry_by_sendrecv(State& s, NodeSlot& slot, const ColumnTransfer& transfer, bool) {
    Aggregator(s, slot, transfer).run();
}

}  // namespace datamover::alternatives
