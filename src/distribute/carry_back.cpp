// SPDX-License-Identifier: BSD-3-Clause
// Moving values of received elements back to where the elements came from.
//
// Values for one home lie one behind the other where they are: nothing is packed. On a node the
// home reads them straight from the holder's memory, or from a shared copy where that is private.
//
// With a limit on extra memory they go back in rounds. A round serves some elements of every
// process, so few that no holder hands over more than its share of the limit.
#include <algorithm>
#include <cstring>

#include "lanes.hpp"
#include "mpi/collectives.hpp"

namespace datamover::distribute {
namespace {

/// The values that go back in one round.
struct Portion {
    ElementRange range;                    ///< the elements of this process that they are for
    std::span<const std::int64_t> wanted;  ///< how many come from each rank
    std::span<const std::int64_t> given;   ///< how many each rank gets
    std::span<const std::int64_t> first;   ///< the number in stable order of the first of these
};

class BackCarrier final : public SlotOperation {
public:
    BackCarrier(State& state, NodeSlot& slot, const ReverseTransfer& way, const Portion& portion)
        : SlotOperation(state, slot),
          way_(way),
          portion_(portion),
          lanes_(state, slot, way.transfer.elem_bytes(), false),
          sources_(way.transfer.columns.size()),
          copy_starts_(1, 0) {
        for (const std::int64_t elems : portion.given)
            copy_starts_.push_back(copy_starts_.back() + elems);
    }

    void begin() override {
        for (std::size_t c = 0; c < sources_.size(); ++c) make_dense(c);
        offer_values();
        expect_values();
    }

    bool advance() override {
        const bool all = lanes_.take(
            false, [&](const LaneSource& from) { return room_for(from); },
            [&](const LaneSource& from) {
                note_progress();
                for (std::size_t c = 0; c < from.places.size(); ++c)
                    sources_[c].from[at(from.rank)] = from.places[c];
            });
        if (all && !collected_) {
            for (std::size_t c = 0; c < sources_.size(); ++c) collect_column(c);
            lanes_.acknowledge();
            collected_ = true;
        }
        if (!lanes_.all_taken() || !collected_) return false;
        s_.last_move.staged_bytes = std::max(s_.last_move.staged_bytes.load(), staged_bytes_);
        return true;
    }

    std::vector<std::int64_t> waiting_for() const override { return lanes_.waiting_for(); }

private:
    /// The values of a column, one behind the other in stable order for each rank.
    struct Source {
        const std::byte* base = nullptr;
        std::span<const std::int64_t> starts;  ///< per rank, in values
        std::optional<memory::SharedPlace> place;
        std::vector<const std::byte*> from;  ///< per rank: where the values for elements here start
    };

    const ElementColumn& column(std::size_t c) const { return way_.transfer.columns[c]; }
    std::int64_t bytes_of(std::int64_t elems, std::size_t c) const {
        return elems * column(c).elem_bytes;
    }
    std::int64_t start_bytes(std::size_t c, int rank) const {
        return bytes_of(sources_[c].starts[at(rank)], c);
    }

    /// Values in private memory are copied once to where the node reaches them.
    void make_dense(std::size_t c) {
        Source& source = sources_[c];
        const ElementColumn& values = column(c);
        source.base = static_cast<const std::byte*>(values.data);
        source.starts = portion_.first;
        const bool dense = values.stride_bytes == values.elem_bytes && way_.places.empty();
        const bool anyone = std::ranges::any_of(channel_.ranks(), [&](int rank) {
            return rank != s_.rank() && portion_.given[at(rank)] > 0;
        });
        if (dense && anyone) source.place = share(source.base, bytes_of(s_.received(), c));
        if (source.place || (dense && !anyone)) return;
        const auto copy =
            memory::SegmentPool::of_process().allocate(bytes_of(copy_starts_.back(), c));
        staged_bytes_ += bytes_of(copy_starts_.back(), c);
        for (int r = 0; r < s_.nprocs(); ++r)
            copy_values(c, portion_.first[at(r)], portion_.given[at(r)],
                        copy->data + bytes_of(copy_starts_[at(r)], c), dense);
        source.base = copy->data;
        source.starts = copy_starts_;
        source.place = memory::place_of(copy.get());
        copies_->push_back(copy);
        use(copy);
    }

    void copy_values(std::size_t c, std::int64_t first, std::int64_t elems, std::byte* to,
                     bool dense) const {
        const std::byte* base = sources_[c].base;
        if (dense && elems > 0) std::memcpy(to, base + bytes_of(first, c), at(bytes_of(elems, c)));
        for (std::int64_t i = 0; !dense && i < elems; ++i)
            std::memcpy(to + bytes_of(i, c), base + way_.place(first + i) * column(c).stride_bytes,
                        at(column(c).elem_bytes));
    }

    void offer_values() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            const std::int64_t elems = portion_.given[at(r)];
            if (elems == 0 || r == s_.rank()) continue;
            std::vector<mpi::Part> parts;
            for (std::size_t c = 0; c < sources_.size(); ++c) {
                const std::int64_t start = start_bytes(c, r);
                parts.push_back({sources_[c].base + start, bytes_of(elems, c), sources_[c].place});
                if (parts.back().place) parts.back().place->offset_bytes += start;
            }
            lanes_.give(r, elems, parts, copies_);
        }
    }

    void expect_values() {
        for (Source& source : sources_) source.from.assign(at(s_.nprocs()) + 1, nullptr);
        lanes_.expect(portion_.wanted);
        const int me = s_.rank();
        if (portion_.wanted[at(me)] == 0) return;
        for (std::size_t c = 0; c < sources_.size(); ++c)
            sources_[c].from[at(me)] = sources_[c].base + start_bytes(c, me);
    }

    LaneRoom room_for(const LaneSource& from) {
        const std::int64_t bytes = from.elems * way_.transfer.elem_bytes();
        const auto memory = memory::SegmentPool::allocate_private(bytes);
        arrived_.push_back(memory);
        staged_bytes_ += bytes;
        std::byte* next = memory->data;
        for (std::size_t c = 0; c < sources_.size(); ++c) {
            sources_[c].from[at(from.rank)] = next;
            next += bytes_of(from.elems, c);
        }
        return {{{memory->data, bytes}}, memory};
    }

    void collect_column(std::size_t c) {
        const ElementRange& range = portion_.range;
        const std::int64_t elems = range.end_elem - range.begin_elem;
        std::byte* const result = way_.transfer.results[c].data;
        if ((range.drops || !range.rows.one_each()) && elems > 0)
            std::memset(result + bytes_of(range.begin_elem, c), 0, at(bytes_of(elems, c)));
        collect(range, sources_[c].from.data(), result, column(c).elem_bytes, way_.op,
                column(c).type);
    }

    ReverseTransfer way_;
    Portion portion_;
    Lanes lanes_;
    std::vector<Source> sources_;
    std::vector<std::int64_t> copy_starts_;  ///< per rank, in a copy of the values
    using Allocations = std::vector<memory::AllocationPtr>;
    std::shared_ptr<Allocations> copies_ = std::make_shared<Allocations>();
    Allocations arrived_;
    std::int64_t staged_bytes_ = 0;
    bool collected_ = false;
};

void carry_in_rounds(State& s, NodeSlot& slot, const ReverseTransfer& way) {
    const std::int64_t most =
        std::max<std::int64_t>(1, s.limit_bytes / (2 * way.transfer.elem_bytes()) / s.nprocs());
    ElementRange range = s.all_elems();
    range.end_elem = 0;
    std::vector<std::int64_t> first = s.recv_starts;
    while (s.group->maximum({range.end_elem < s.elems}).front() > 0) {
        const auto wanted = advance_range(range, s.elems, [&](auto code, std::int64_t count) {
            return count <= most || code == range.drop_code;
        });
        const auto given = mpi::exchange(*s.group, wanted);
        BackCarrier carrier(s, slot, way, {range, wanted, given, first});
        run(s, carrier);
        for (std::size_t r = 0; r < given.size(); ++r) first[r] += given[r];
    }
}

}  // namespace

void carry_back(State& s, NodeSlot& slot, const ReverseTransfer& way) {
    const bool in_rounds = s.limit_bytes > 0;
    for (std::size_t c = 0; c < way.transfer.columns.size();) {
        ReverseTransfer some = way;
        some.transfer = way.transfer.next(c, in_rounds ? 1 : offered_columns);
        if (in_rounds) {
            propagating_errors(s, [&] { carry_in_rounds(s, slot, some); });
            continue;
        }
        BackCarrier carrier(s, slot, some,
                            {s.all_elems(), s.send_counts, s.recv_counts, s.recv_starts});
        run(s, carrier);
    }
}

}  // namespace datamover::distribute
