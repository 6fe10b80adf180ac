// SPDX-License-Identifier: BSD-3-Clause
// The paper's implementation by sorting, out of place and in place.
//
// Sorting by target over all processes, then a balancing step that gives each process its part of
// the sorted list. A stable distribution sorts by (target, source, position) instead; these keys
// are runs of elements beside the elements. In place everything happens within the buffer and a
// scratch of fixed size; `alltoallv` there sorts locally, and exchanges in rounds.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4 (sort); `alltoallv` in place goes beyond it.
#include <algorithm>
#include <vector>

#include "alternatives.hpp"
#include "element_runs.hpp"
#include "exchange_in_place.hpp"
#include "mpi/all_to_all.hpp"
#include "parallel_sort.hpp"

namespace datamover::alternatives {
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

std::int64_t scratch_elems(const State& s, std::int64_t elem_bytes) {
    const std::int64_t fewest = Scratch::fewest_elems(s.nprocs());
    if (s.limit_bytes == 0) return std::max(usual_scratch_elems, 2 * fewest);
    return std::max(s.limit_bytes / elem_bytes, fewest);
}

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
