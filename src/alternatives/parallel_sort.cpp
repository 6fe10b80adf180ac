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
          sorter_(data, elem_bytes, scratch.data, scratch.elems) {
        const auto all = group.exchange(
            std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), elems_));
        for (int r = 0; r < group.size(); ++r)
            if (all[static_cast<std::size_t>(r)] > 0) ranks_.push_back(r);
    }

    ElementRuns run() {
        const int n = static_cast<int>(ranks_.size());
        visit_network(n, [&](int i, int j) { meet(i, j); });
        for (int turn = 0; !in_order(); ++turn)
            for (int i = turn % 2; i + 1 < n; i += 2) meet(i, i + 1);
        return std::move(runs_);
    }

private:
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

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
        const std::int64_t kept = elems_ - crossing;
        if (lower) {
            swap(peer, kept, crossing);
            runs_ = sorter_.merge(0, cut(runs_, 0, kept), cut(theirs, 0, crossing));
        } else {
            swap(peer, 0, crossing);
            const std::int64_t all = elems_of(theirs);
            runs_ =
                sorter_.merge(0, cut(theirs, all - crossing, all), cut(runs_, crossing, elems_));
        }
    }

    ElementRuns exchange_runs(int peer) const {
        const auto mine = std::make_shared<std::int64_t>(static_cast<std::int64_t>(runs_.size()));
        const auto count = std::make_shared<std::int64_t>(0);
        exchange(peer, {bytes_at(mine.get()), sizeof *mine, mine},
                 {bytes_at(count.get()), sizeof *count, count});
        constexpr auto run_bytes = static_cast<std::int64_t>(sizeof(ElementRun));
        const auto sent = std::make_shared<ElementRuns>(runs_);
        const auto theirs = std::make_shared<ElementRuns>(at(*count));
        exchange(peer, {bytes_at(sent->data()), *mine * run_bytes, sent},
                 {bytes_at(theirs->data()), *count * run_bytes, theirs});
        return *theirs;
    }

    template <class T>
    static std::byte* bytes_at(T* data) {
        return reinterpret_cast<std::byte*>(data);
    }

    struct Message {
        std::byte* data = nullptr;
        std::int64_t bytes = 0;
        std::shared_ptr<const void> memory{};
    };
    /// Sends one message to a peer that sends one here.
    void exchange(int peer, const Message& out, const Message& in) const {
        mpi::Messages messages(group_, tag_);
        const mpi::Part to{in.data, in.bytes}, from{out.data, out.bytes};
        messages.receive({&to, 1}, peer, in.memory);
        messages.send({&from, 1}, peer, out.memory);
        messages.wait();
    }

    /// Exchanges elements with those of a peer.
    void swap(int peer, std::int64_t first, std::int64_t elems) const {
        for (std::int64_t done = 0; done < elems; done += swapped_elems_) {
            std::byte* part = data_ + (first + done) * bytes_;
            const std::int64_t bytes = std::min(swapped_elems_, elems - done) * bytes_;
            exchange(peer, {part, bytes, scratch_.owner}, {scratch_.data, bytes, scratch_.owner});
            std::memcpy(part, scratch_.data, at(bytes));
        }
    }

    /// Whether the last element of each process goes before the first of the next one. Collective.
    bool in_order() const {
        // This process's, then those of all.
        const auto ends = std::make_shared<ElementRuns>(2 + 2 * at(group_.size()));
        if (!runs_.empty()) (*ends)[0] = runs_.front(), (*ends)[1] = runs_.back();
        ElementRun* const all = ends->data() + 2;
        constexpr int bytes = 2 * sizeof(ElementRun);
        group_.carry_out("MPI_Iallgather", ends, [&](MPI_Request* request) {
            return MPI_Iallgather(ends->data(), bytes, MPI_BYTE, all, bytes, MPI_BYTE,
                                  group_.comm(), request);
        });
        for (std::size_t k = 0; k + 1 < ranks_.size(); ++k)
            if (all[2 * at(ranks_[k + 1])] < all[2 * at(ranks_[k]) + 1]) return false;
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

}  // namespace

ElementRuns sort_over_processes(const mpi::ProcessGroup& group, std::byte* data,
                                std::int64_t elem_bytes, const ElementRuns& sorted,
                                const Scratch& scratch, std::int64_t swapped_elems, int tag) {
    return ProcessSort(group, data, elem_bytes, sorted, scratch, swapped_elems, tag).run();
}

namespace {

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
        append(runs, {r, stable ? s.rank() : 0, stable ? 0 : -1,
                      s.send_counts[static_cast<std::size_t>(r)]});
    return runs;
}

void exchange_within(State& s, int tag, const Buffer& buffer, bool stable, bool sorts) {
    const std::int64_t bytes = buffer.elem_bytes, room = buffer.scratch_elems;
    const auto memory = s.group->pool().allocate(room * bytes);
    const Scratch scratch{memory->data, room, memory};
    s.last_move.staged_bytes = room * bytes;
    ElementSorter sorter(buffer.data, bytes, scratch.data, scratch.elems);
    ElementRuns runs = sort_locally(s, sorter, stable);
    if (sorts) runs = sort_over_processes(*s.group, buffer.data, bytes, runs, scratch, room, tag);
    runs = exchange_in_place(*s.group, buffer.data, bytes, buffer.capacity_elems, runs, scratch);
    sorter.sort_runs(0, runs);
}

void sort_column(State& s, int tag, const ElementColumn& column, const ElementBuffer& result,
                 bool stable) {
    const std::int64_t bytes = column.elem_bytes;
    const auto sorted_blocks = mpi::Blocks::behind(s.send_counts);
    const std::int64_t elems = sorted_blocks.total();
    const std::int64_t swapped = std::max(usual_scratch_elems, swapped_bytes / bytes);
    const std::int64_t room = std::max(swapped, (elems + 1) / 2);
    const auto memory = s.group->pool().allocate((elems + room) * bytes);
    s.last_move.staged_bytes = std::max(s.last_move.staged_bytes.load(), (elems + room) * bytes);
    std::byte* sorted = memory->data;
    std::vector<std::byte*> places;
    for (const std::int64_t start : sorted_blocks.starts) places.push_back(sorted + start * bytes);
    places.push_back(nullptr);
    fan_out(s.all_elems(), column, places.data());
    const Scratch scratch{sorted + elems * bytes, room, memory};
    const ElementRuns runs = sort_over_processes(*s.group, sorted, bytes, runs_by_target(s, stable),
                                                 scratch, swapped, tag);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(s.nprocs()), 0);
    for (const ElementRun& run : runs) counts[static_cast<std::size_t>(run.target)] += run.elems;
    const auto received = mpi::Blocks::behind(s.group->exchange(counts));
    mpi::all_to_all({memory, result.owner}, sorted, mpi::Blocks::behind(counts), result.data,
                    received, bytes, *s.group);
}

}  // namespace

void carry_by_sort(State& s, NodeSlot& slot, const ColumnTransfer& transfer, bool stable) {
    for (std::size_t c = 0; c < transfer.columns.size(); ++c)
        sort_column(s, slot.tag(), transfer.columns[c], transfer.results[c], stable);
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
