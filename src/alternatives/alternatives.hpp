// SPDX-License-Identifier: BSD-3-Clause
// The four implementations of the paper on fine-grained migration.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "distribute/methods.hpp"
#include "distribute/target_codes.hpp"
#include "mpi/collectives.hpp"

namespace datamover::alternatives {

using distribute::Buffer;
using distribute::ColumnTransfer;
using distribute::ElementRange;
using distribute::NodeSlot;
using distribute::State;

/// A rank or a number of elements as an index of a vector.
inline std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

void carry_by_alltoallv(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void carry_by_alltoallw(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void carry_by_sendrecv(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void carry_by_sort(State&, NodeSlot&, const ColumnTransfer&, bool stable);
void exchange_by_alltoallv(State&, NodeSlot&, const Buffer&, bool stable);
void exchange_by_sort(State&, NodeSlot&, const Buffer&, bool stable);

/// Copies a range of elements to blocks by their targets.
void sort_by_target(const ElementColumn& column, const ElementRange& range,
                    const mpi::Blocks& blocks, std::byte* sorted);

// Runs of elements, sorted with little extra memory.
//
// A run stands for elements with the same target and source, in their order at the source. It is
// the distinct key (target, source, position) that makes a migration by sorting stable, told
// once for all elements of the run instead of in each of them.

using distribute::TargetCodes;

struct ElementRun {
    std::int32_t target = 0;
    std::int32_t source = 0;
    /// Number of its first element among all from `source` to `target`; -1 where order is free.
    std::int64_t first = 0;
    std::int64_t elems = 0;

    bool ordered() const { return first >= 0; }
    /// The run without its first `n` elements.
    ElementRun after(std::int64_t n) const {
        return {target, source, ordered() ? first + n : first, elems - n};
    }
    ElementRun before(std::int64_t n) const { return {target, source, first, n}; }

    /// By key; the number of elements does not count.
    friend bool operator<(const ElementRun& a, const ElementRun& b) {
        return std::tie(a.target, a.source, a.first) < std::tie(b.target, b.source, b.first);
    }
};

/// In the order of memory.
using ElementRuns = std::vector<ElementRun>;

std::int64_t elems_of(const ElementRuns& runs);
/// Appends a run; one that continues the last becomes part of it.
void append(ElementRuns& runs, const ElementRun& run);
/// The runs of elements [begin, end).
ElementRuns cut(const ElementRuns& runs, std::int64_t begin, std::int64_t end);

/// Memory beside the elements, the same number of elements on all processes.
struct Scratch {
    std::byte* data = nullptr;
    std::int64_t elems = 0;
    std::shared_ptr<const void> owner{};

    /// Elements that `exchange_in_place` needs at least.
    static std::int64_t fewest_elems(int nprocs) { return 2 * std::int64_t{nprocs}; }
};

/// Puts elements in order where they lie, with a buffer of a fixed number of elements beside them.
class ElementSorter {
public:
    /// The scratch has room for at least one element.
    ElementSorter(std::byte* data, std::int64_t elem_bytes, const Scratch& scratch)
        : data_(data), bytes_(elem_bytes), scratch_(scratch.data), room_(scratch.elems) {}

    /// Sorts elements 0 to `elems` by their codes, keeping the order within a code. Runs say
    /// `source`. O(n log n) moves: pieces of the buffer's size are sorted by counting, then merged.
    ElementRuns sort_stable(const TargetCodes& codes, std::int64_t elems, std::uint32_t most_code,
                            std::int32_t source);
    /// Likewise in any order within a code, in one pass: each element goes straight to where it
    /// belongs, and the one that lay there is next. O(n) moves, no buffer.
    ElementRuns sort_unordered(const TargetCodes& codes, std::int64_t elems,
                               std::uint32_t most_code);

    /// Sorts runs that lie one behind the other from element `begin` on, by merging.
    ElementRuns sort_runs(std::int64_t begin, const ElementRuns& runs);
    /// Merges two sorted lists of runs that lie one behind the other from element `begin` on.
    ElementRuns merge(std::int64_t begin, const ElementRuns& a, const ElementRuns& b);

private:
    std::byte* at(std::int64_t elem) const { return data_ + elem * bytes_; }
    void copy(std::byte* to, const std::byte* from, std::int64_t elems) const;
    /// Exchanges [first, middle) and [middle, last).
    void rotate(std::int64_t first, std::int64_t middle, std::int64_t last);
    ElementRuns merge_through_buffer(std::int64_t begin, const ElementRuns& a, const ElementRuns& b,
                                     bool a_waits);
    ElementRuns merge_halves(std::int64_t begin, const ElementRuns& a, const ElementRuns& b);

    std::byte* data_;
    std::int64_t bytes_;
    std::byte* scratch_;
    std::int64_t room_;
};

// In-place exchange of sorted elements between processes.

/// Sends elements, which lie sorted by target from the buffer's start on, to their targets; returns
/// what lies there afterwards, in the order of memory. The buffer has room for at least what each
/// process has before and after. Works in rounds in which every pair sends the same share of its
/// elements, so that no process ever holds more than before or after, but for a few in the
/// scratch. Collective.
ElementRuns exchange_in_place(const mpi::ProcessGroup& group, const Buffer& buffer,
                              const ElementRuns& sorted, const Scratch& scratch);

}  // namespace datamover::alternatives
