// SPDX-License-Identifier: BSD-3-Clause
// The paper's implementation by sorting, out of place and in place.
//
// Sorting by target over all processes, then a balancing step that gives each process its part of
// the sorted list. A stable migration sorts by (target, source, position) instead; these keys
// are runs of elements next to the elements. In place everything happens within the buffer and a
// scratch of fixed size; `alltoallv` there sorts locally, and exchanges in rounds.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4 (sort); `alltoallv` in place goes beyond it.
//
// In the parallel sort each process keeps its number of elements. Two processes exchange their
// runs; from them both compute how many elements change sides: the last of the lower process for as
// many of the first of the upper. Batcher's network sorts when all have as many elements; if they
// do not, neighbours continue until all is in order.
#include "alternatives.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mpi/collectives.hpp"
#include "mpi/part_messages.hpp"

namespace datamover::alternatives {
namespace {

/// Calls f(i, j) with i < j for Batcher's comparators between n items, in order.
template <class F>
void visit_network(int n, F&& f) {
    int top = 1;
    while (2 * top < n) top *= 2;
    for (int p = top; p > 0; p /= 2) {
        int q = top, r = 0, d = p;
        for (;;) {
            for (int i = 0; i + d < n; ++i)
                if ((i & p) == r) f(i, i + d);
            if (q == p) break;
            d = q - p;
            q /= 2;
            r = p;
        }
    }
}

/// How many of the first `low` elements of both lists together come from the upper list.
std::int64_t crossing_elems(const ElementRuns& lower, const ElementRuns& upper, std::int64_t low) {
    std::int64_t crossing = 0;
    std::size_t a = 0, b = 0;
    while (low > 0 && b < upper.size()) {
        const bool from_upper = a == lower.size() || upper[b] < lower[a];
        const std::int64_t n = std::min(low, from_upper ? upper[b++].elems : lower[a++].elems);
        if (from_upper) crossing += n;
        low -= n;
    }
    return crossing;
}

/// Elements that lie sorted on each process become sorted over all processes that have any, in
/// order of rank, by merging pairs of processes. The elements are exchanged through the start of
/// the scratch, `swapped_elems` at a time (the same on all processes, at most what each has there).
/// O(log^2 P) merges per process where all have as many elements.
/// Source: H. Dachsel, M. Hofmann, G. Rünger, Library Support for Parallel Sorting in Scientific
/// Computations, Euro-Par 2007; the pairs are those of Batcher's merge exchange (D. Knuth, The Art
/// of Computer Programming, volume 3, algorithm 5.2.2 M).
class ProcessSort {
public:
    ProcessSort(const mpi::ProcessGroup& group, std::byte* data, std::int64_t elem_bytes,
                ElementRuns runs, const Scratch& scratch, std::int64_t swapped_elems, int tag)
        : group_(group),
          rank_(group.rank()),
          data_(data),
          bytes_(elem_bytes),
          runs_(std::move(runs)),
          elems_(elems_of(runs_)),
          scratch_(scratch),
          swapped_elems_(swapped_elems),
          tag_(tag),
          sorter_(data, elem_bytes, scratch) {
        const auto all = group.gather({elems_});
        for (int r = 0; r < group.size(); ++r)
            if (all[at(r)].front() > 0) ranks_.push_back(r);
    }

    /// Returns what lies here afterwards. Collective.
    ElementRuns run() {
        const int n = static_cast<int>(ranks_.size());
        visit_network(n, [&](int i, int j) { meet(i, j); });
        for (int turn = 0; !in_order(); ++turn)
            for (int i = turn % 2; i + 1 < n; i += 2) meet(i, i + 1);
        return std::move(runs_);
    }

private:
    void meet(int i, int j) {
        const int lower = ranks_[at(i)], upper = ranks_[at(j)];
        if (rank_ == lower) keep_part(upper, true);
        if (rank_ == upper) keep_part(lower, false);
    }

    void keep_part(int peer, bool lower) {
        const ElementRuns theirs = exchange_runs(peer);
        const std::int64_t crossing = lower ? crossing_elems(runs_, theirs, elems_)
                                            : crossing_elems(theirs, runs_, elems_of(theirs));
        if (crossing == 0) return;
        const std::int64_t kept = elems_ - crossing, all = elems_of(theirs);
        swap(peer, lower ? kept : 0, crossing);
        runs_ = lower ? sorter_.merge(0, cut(runs_, 0, kept), cut(theirs, 0, crossing))
                      : sorter_.merge(0, cut(theirs, all - crossing, all),
                                      cut(runs_, crossing, elems_));
    }

    ElementRuns exchange_runs(int peer) const {
        constexpr auto run_bytes = static_cast<std::int64_t>(sizeof(ElementRun));
        mpi::Messages messages(group_, tag_);
        const auto sent = std::make_shared<ElementRuns>(runs_);
        messages.send({reinterpret_cast<std::byte*>(sent->data()), std::ssize(*sent) * run_bytes},
                      peer, sent);
        std::int64_t bytes = -1;
        mpi::wait_until(group_, [&] { return (bytes = messages.probe(peer)) >= 0; });
        const auto theirs = std::make_shared<ElementRuns>(at(bytes / run_bytes));
        messages.receive({reinterpret_cast<std::byte*>(theirs->data()), bytes}, peer, theirs);
        messages.wait();
        return *theirs;
    }

    /// Exchanges elements with those of a peer.
    void swap(int peer, std::int64_t first, std::int64_t elems) const {
        for (std::int64_t done = 0; done < elems; done += swapped_elems_) {
            std::byte* part = data_ + (first + done) * bytes_;
            const std::int64_t bytes = std::min(swapped_elems_, elems - done) * bytes_;
            mpi::Messages messages(group_, tag_);
            messages.receive({scratch_.data, bytes}, peer, scratch_.owner);
            messages.send({part, bytes}, peer, scratch_.owner);
            messages.wait();
            std::memcpy(part, scratch_.data, at(bytes));
        }
    }

    /// Whether the last element of each process goes before the first of the next one. Collective.
    bool in_order() const {
        std::vector<std::int64_t> ends;
        if (!runs_.empty())
            for (const ElementRun& run : {runs_.front(), runs_.back()})
                ends.insert(ends.end(), {run.target, run.source, run.first});
        const auto all = group_.gather(ends);
        for (std::size_t k = 0; k + 1 < ranks_.size(); ++k) {
            const auto& next = all[at(ranks_[k + 1])];
            if (std::ranges::lexicographical_compare(std::span(next).first(3),
                                                     std::span(all[at(ranks_[k])]).last(3)))
                return false;
        }
        return true;
    }

    const mpi::ProcessGroup& group_;
    int rank_;
    std::byte* data_;
    std::int64_t bytes_;
    ElementRuns runs_;
    std::int64_t elems_;
    Scratch scratch_;
    std::int64_t swapped_elems_;
    int tag_;
    ElementSorter sorter_;
    std::vector<int> ranks_;  ///< that have elements
};

/// What the paper gives the in-place variant.
constexpr std::int64_t usual_scratch_elems = 1024;
/// Exchanged at a time between two processes where there is memory.
constexpr std::int64_t swapped_bytes = std::int64_t{1} << 20;

/// Elements sorted within their buffer, without those that are dropped.
ElementRuns sort_locally(const State& s, ElementSorter& sorter, bool stable) {
    const auto drop = static_cast<std::uint32_t>(s.nprocs());
    const ElementRuns all = stable ? sorter.sort_stable(s.codes, s.elems, drop, s.rank())
                                   : sorter.sort_unordered(s.codes, s.elems, drop);
    return cut(all, 0, s.elems - s.dropped);
}

/// The runs of elements that lie sorted by target as `fan_out` leaves them.
ElementRuns runs_by_target(const State& s, bool stable) {
    ElementRuns runs;
    for (int r = 0; r < s.nprocs(); ++r)
        append(runs, {r, stable ? s.rank() : 0, stable ? 0 : -1, s.send_counts[at(r)]});
    return runs;
}

void exchange_within(State& s, int tag, const Buffer& buffer, bool stable, bool sorts) {
    const std::int64_t bytes = buffer.elem_bytes, room = buffer.scratch_elems;
    const auto memory = memory::SegmentPool::of_process().allocate(room * bytes);
    const Scratch scratch{memory->data, room, memory};
    s.last_move.staged_bytes = room * bytes;
    ElementSorter sorter(buffer.data, bytes, scratch);
    ElementRuns runs = sort_locally(s, sorter, stable);
    if (sorts) runs = ProcessSort(*s.group, buffer.data, bytes, runs, scratch, room, tag).run();
    runs = exchange_in_place(*s.group, buffer, runs, scratch);
    sorter.sort_runs(0, runs);
}

}  // namespace

void carry_by_sort(State& s, NodeSlot& slot, const ColumnTransfer& transfer, bool stable) {
    const ElementColumn& column = transfer.columns.front();
    const ElementBuffer& result = transfer.results.front();
    const std::int64_t bytes = column.elem_bytes;
    const auto sorted_blocks = mpi::Blocks::behind(s.send_counts);
    const std::int64_t elems = sorted_blocks.total();
    const std::int64_t swapped = std::max(usual_scratch_elems, swapped_bytes / bytes);
    const std::int64_t room = std::max(swapped, (elems + 1) / 2);
    const auto memory = memory::SegmentPool::of_process().allocate((elems + room) * bytes);
    s.last_move.staged_bytes = std::max(s.last_move.staged_bytes.load(), (elems + room) * bytes);
    std::byte* sorted = memory->data;
    sort_by_target(column, s.all_elems(), sorted_blocks, sorted);
    const Scratch scratch{sorted + elems * bytes, room, memory};
    const ElementRuns runs = ProcessSort(*s.group, sorted, bytes, runs_by_target(s, stable),
                                         scratch, swapped, slot.tag())
                                 .run();
    std::vector<std::int64_t> counts(at(s.nprocs()), 0);
    for (const ElementRun& run : runs) counts[at(run.target)] += run.elems;
    const auto received = mpi::Blocks::behind(mpi::exchange(*s.group, counts));
    mpi::all_to_all({memory, result.owner}, sorted, mpi::Blocks::behind(counts), result.data,
                    received, bytes, *s.group);
}

void exchange_by_sort(State& s, NodeSlot& slot, const Buffer& buffer, bool stable) {
    exchange_within(s, slot.tag(), buffer, stable, true);
}

void exchange_by_alltoallv(State& s, NodeSlot& slot, const Buffer& buffer, bool stable) {
    exchange_within(s, slot.tag(), buffer, stable, false);
}

}  // namespace datamover::alternatives

std::int64_t datamover::distribute::scratch_elems(const State& s, std::int64_t elem_bytes) {
    const std::int64_t fewest = alternatives::Scratch::fewest_elems(s.nprocs());
    if (s.limit_bytes == 0) return std::max(alternatives::usual_scratch_elems, 2 * fewest);
    return std::max(s.limit_bytes / elem_bytes, fewest);
}
