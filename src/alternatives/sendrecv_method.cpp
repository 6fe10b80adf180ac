// SPDX-License-Identifier: BSD-3-Clause
// The paper's implementation with aggregated messages.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4 (sendrecv).
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "alternatives.hpp"
#include "distribute/messages.hpp"

namespace datamover::alternatives {
namespace {

/// Elements per target that are sent together.
constexpr std::int64_t aggregated_elems = 128;

/// The places that elements of each source get, where their order is free: those in which the
/// first move of a migration happened to put them, so that all later ones belong together.
class FreeOrder {
public:
    explicit FreeOrder(State& s) : runs_(s.free_order), fixed_(!runs_.empty()) {
        if (!fixed_) return;
        ranges_.resize(at(s.nprocs()));
        for (const distribute::SourceRun& run : runs_) {
            ranges_[at(run.source)].push_back({end_, end_ + run.elems});
            end_ += run.elems;
        }
        next_.assign(ranges_.size(), 0);
    }

    struct Range {
        std::int64_t begin = 0, end = 0;
    };
    /// The next places of a source, at most so many.
    Range take(int source, std::int64_t elems) {
        if (!fixed_) {
            if (runs_.empty() || runs_.back().source != source) runs_.push_back({source, 0});
            runs_.back().elems += elems;
            end_ += elems;
            return {end_ - elems, end_};
        }
        Range& range = ranges_[at(source)][next_[at(source)]];
        const Range taken{range.begin, std::min(range.end, range.begin + elems)};
        range.begin = taken.end;
        if (range.begin == range.end) ++next_[at(source)];
        return taken;
    }

    /// The begin of so many places, where the next ones lie one behind the other.
    std::optional<std::int64_t> take_together(int source, std::int64_t elems) {
        if (fixed_) {
            const Range& range = ranges_[at(source)][next_[at(source)]];
            if (range.end - range.begin < elems) return std::nullopt;
        }
        return take(source, elems).begin;
    }

private:
    std::vector<distribute::SourceRun>& runs_;
    bool fixed_;
    std::int64_t end_ = 0;
    std::vector<std::vector<Range>> ranges_;  ///< per source
    std::vector<std::size_t> next_;
};

/// Sends elements as soon as a target's buffer is full, and receives meanwhile. In a message the
/// columns of an element lie side by side. Each target has two buffers: one is filled while the
/// other is under way.
class Aggregator {
public:
    Aggregator(State& state, NodeSlot& slot, const ColumnTransfer& transfer, bool stable)
        : s_(state),
          transfer_(transfer),
          elem_bytes_(transfer.elem_bytes()),
          one_column_(transfer.columns.size() == 1),
          sends_(*state.group, slot.tag()),
          receives_(*state.group, slot.tag()),
          buffer_elems_(buffer_elems(state, elem_bytes_)),
          buffers_(at(state.nprocs())),
          next_(state.recv_starts),
          left_(state.recv_counts) {
        if (!stable) free_order_.emplace(state);
    }

    void run() {
        const ElementRange all = s_.all_elems();
        with_codes(s_.codes, [&](const auto* codes) {
            for (std::int64_t i = 0; i < s_.elems; ++i)
                for (std::int64_t e = all.rows.first_entry(i); e < all.rows.first_entry(i + 1); ++e)
                    if (codes[e] != all.drop_code) put(static_cast<int>(codes[e]), i);
        });
        for (int r = 0; r < s_.nprocs(); ++r) flush(r);
        const auto comes = [](std::int64_t elems) { return elems > 0; };
        const auto through = [&] {
            receive();
            return std::ranges::none_of(left_, comes) && sends_.all_complete();
        };
        s_.group->wait_until(through, mpi::Load::data);
    }

private:
    struct Buffer {
        memory::AllocationPtr halves[2];
        std::optional<std::size_t> messages[2];  ///< under way
        int half = 0;
        std::int64_t elems = 0;
    };

    static std::int64_t buffer_elems(const State& s, std::int64_t elem_bytes) {
        if (s.limit_bytes == 0) return aggregated_elems;
        return std::clamp<std::int64_t>(s.limit_bytes / (2 * elem_bytes) / s.nprocs(), 1,
                                        aggregated_elems);
    }

    /// Elements that arrive go to their source's own part of the results, or, where the order is
    /// free, to the next places there are.
    void place(int source, const std::byte* from, std::int64_t stride, std::int64_t elems) {
        left_[at(source)] -= elems;
        while (elems > 0) {
            FreeOrder::Range to{next_[at(source)], next_[at(source)] + elems};
            if (free_order_) to = free_order_->take(source, elems);
            next_[at(source)] += to.end - to.begin;
            elems -= to.end - to.begin;
            if (one_column_ && stride == elem_bytes_) {
                std::memcpy(transfer_.results.front().data + to.begin * elem_bytes_, from,
                            at((to.end - to.begin) * elem_bytes_));
                from += (to.end - to.begin) * elem_bytes_;
                continue;
            }
            for (std::int64_t i = to.begin; i < to.end; ++i, from += stride) {
                const std::byte* part = from;
                for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
                    const std::int64_t bytes = transfer_.columns[c].elem_bytes;
                    std::memcpy(transfer_.results[c].data + i * bytes, part, at(bytes));
                    part += bytes;
                }
            }
        }
    }

    static const std::byte* place_in(const ElementColumn& column, std::int64_t elem) {
        return static_cast<const std::byte*>(column.data) + elem * column.stride_bytes;
    }

    void pack(std::byte* to, std::int64_t elem) const {
        if (one_column_) {
            std::memcpy(to, place_in(transfer_.columns.front(), elem), at(elem_bytes_));
            return;
        }
        for (const ElementColumn& column : transfer_.columns) {
            std::memcpy(to, place_in(column, elem), at(column.elem_bytes));
            to += column.elem_bytes;
        }
    }

    memory::AllocationPtr make_buffer(std::int64_t elems) {
        s_.last_move.staged_bytes += elems * elem_bytes_;
        return memory::SegmentPool::allocate_private(elems * elem_bytes_);
    }

    void put(int rank, std::int64_t elem) {
        if (rank == s_.rank()) {
            put_here(elem);
            return;
        }
        Buffer& buffer = buffers_[at(rank)];
        auto& half = buffer.halves[buffer.half];
        if (!half) half = make_buffer(buffer_elems_);
        pack(half->data + buffer.elems++ * elem_bytes_, elem);
        if (buffer.elems == buffer_elems_) flush(rank);
    }

    void put_here(std::int64_t elem) {
        if (here_.begin == here_.end) here_ = more_places_here();
        const std::int64_t place = here_.begin++;
        --left_[at(s_.rank())];
        for (std::size_t c = 0; c < transfer_.columns.size(); ++c) {
            const ElementColumn& column = transfer_.columns[c];
            std::memcpy(transfer_.results[c].data + place * column.elem_bytes,
                        place_in(column, elem), at(column.elem_bytes));
        }
    }

    /// Many at once: so many elements of its own this process has at least.
    FreeOrder::Range more_places_here() {
        const int rank = s_.rank();
        const std::int64_t left = left_[at(rank)];
        if (free_order_) return free_order_->take(rank, std::min(left, aggregated_elems));
        return {next_[at(rank)], next_[at(rank)] + left};
    }

    void flush(int rank) {
        Buffer& buffer = buffers_[at(rank)];
        if (buffer.elems == 0) return;
        const auto& half = buffer.halves[buffer.half];
        buffer.messages[buffer.half] =
            sends_.send({half->data, buffer.elems * elem_bytes_}, rank, half);
        ++s_.last_move.messages;
        buffer.half = 1 - buffer.half;
        buffer.elems = 0;
        auto& before = buffer.messages[buffer.half];
        const auto free = [&] {
            receive();
            return !before || sends_.is_complete(*before);
        };
        s_.group->wait_until(free, mpi::Load::data);
        before.reset();
    }

    /// Takes one message of each source that has more to send, if one has come.
    void receive() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank() || left_[at(r)] == 0) continue;
            const std::int64_t bytes = receives_.probe(r);
            if (bytes >= 0) receive_from(r, bytes);
        }
    }

    /// Where the next elements of a source go, if that is one behind the other.
    std::optional<std::int64_t> take_places(int source, std::int64_t elems) {
        if (free_order_) return free_order_->take_together(source, elems);
        return std::exchange(next_[at(source)], next_[at(source)] + elems);
    }

    void receive_from(int rank, std::int64_t bytes) {
        const std::int64_t elems = bytes / elem_bytes_;
        const std::optional<std::int64_t> begin =
            one_column_ ? take_places(rank, elems) : std::nullopt;
        if (!begin) {
            if (!incoming_) incoming_ = make_buffer(buffer_elems_);
            receives_.receive({incoming_->data, bytes}, rank, incoming_);
            receives_.wait();
            return place(rank, incoming_->data, elem_bytes_, elems);
        }
        const auto& result = transfer_.results.front();
        receives_.receive({result.data + *begin * elem_bytes_, bytes}, rank, result.owner);
        receives_.wait();
        left_[at(rank)] -= elems;
    }

    State& s_;
    const ColumnTransfer& transfer_;
    std::int64_t elem_bytes_;  ///< of all columns
    bool one_column_;
    distribute::Messages sends_, receives_;
    std::int64_t buffer_elems_;
    std::vector<Buffer> buffers_;
    memory::AllocationPtr incoming_;
    FreeOrder::Range here_;           ///< places for elements of this process
    std::vector<std::int64_t> next_;  ///< per source: where its next element belongs
    std::vector<std::int64_t> left_;  ///< per source: elements that have not come
    std::optional<FreeOrder> free_order_;
};

}  // namespace

void carry_by_sendrecv(State& s, NodeSlot& slot, const ColumnTransfer& transfer, bool stable) {
    Aggregator(s, slot, transfer, stable).run();
}

}  // namespace datamover::alternatives
