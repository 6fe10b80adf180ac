// SPDX-License-Identifier: BSD-3-Clause
// Collectives of a group that no process failure blocks, comparison of passed values, the alarm,
// and all-to-all exchange with 64-bit sizes.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "message_tags.hpp"
#include "process_group.hpp"

namespace datamover::mpi {

/// Throws on all processes the error that process `rank` has. Collective.
[[noreturn]] void throw_error_of(const ProcessGroup& group, int rank,
                                 const std::optional<Error>& mine);
/// Collective: the text of process `rank`.
std::string broadcast(const ProcessGroup& group, int rank, std::string text);
/// Collective: whether all processes bring the same value.
bool all_equal(const ProcessGroup& group, std::uint32_t value);
/// Collective: takes a value for each rank, gives the value that each rank had for this one.
std::vector<std::int64_t> exchange(const ProcessGroup& group, std::vector<std::int64_t> values);

/// A value that a process passed: what it is, as a plural ("options"), and the value itself
/// (`op="add"`).
struct PassedValue {
    std::string what, value;
};

/// Throws mismatch, with the same message on all processes, if one of them passed another value
/// than process 0: `processes 0 and 2 passed different options: op="add" on process 0, ...`, where
/// `verb` replaces "passed". Values are compared by their digests; `describe(i)` is called on two
/// processes for the first that differs. If numbers of values may differ, a value before the first
/// that one process lacks must differ too. Collective.
void require_same(const ProcessGroup& group, std::span<const std::int64_t> digests,
                  const std::function<PassedValue(std::size_t)>& describe,
                  std::string_view verb = "passed");
/// The same for values that are compared as texts.
void require_same(const ProcessGroup& group, const std::vector<PassedValue>& values,
                  std::string_view verb = "passed");

// The alarm: a process makes the others stop independent work.

/// An empty message to all others of a group, with a tag of its own. Unlike a failure of the group
/// it leaves this usable. Destroyed without settle(), what was sent stays under way: for who leaves
/// the group anyway.
class Alarm {
public:
    /// Collective, like a mover's.
    explicit Alarm(ProcessGroupPtr group);

    /// Tells all others, at the first call. Never waits.
    void ring();
    /// Whether another process has rung. Throws peer_failed where one has left. Local.
    bool rings() const;
    /// Takes in what was sent. Collective, when all have stopped; waits as movers do.
    void settle();

private:
    ProcessGroupPtr group_;
    ClaimedTags tag_;
    bool has_rung_ = false;
};

// All-to-all exchange with 64-bit sizes.

/// Sizes and places of the blocks to, or from, each rank, in elements.
struct Blocks {
    std::vector<std::int64_t> counts, starts;

    /// Blocks of these sizes one behind the other.
    static Blocks behind(std::vector<std::int64_t> counts);
    std::int64_t total() const;
};

/// Whether the MPI that is loaded has the calls of MPI 4, with 64-bit counts and displacements: it
/// may be older than that compiled against, as beside a wheel. Then they are null.
bool has_large_counts();

/// True when a buffer of so many elements can be named to `all_to_all`: always from MPI 4 on,
/// before it below 2^31 elements.
bool all_to_all_reaches(std::int64_t elems);

/// MPI_Alltoallv with elements of `elem_bytes` bytes; `memory` is kept where the operation
/// fails and may still touch it. Collective. Throws mpi, unsupported, peer_failed, timeout.
void all_to_all(std::vector<std::shared_ptr<const void>> memory, const std::byte* send,
                const Blocks& sent, std::byte* receive, const Blocks& received,
                std::int64_t elem_bytes, const ProcessGroup& group);

}  // namespace datamover::mpi
