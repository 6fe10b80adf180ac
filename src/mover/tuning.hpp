// SPDX-License-Identifier: BSD-3-Clause
// Tuning: measures which transports are fastest for a mover, and keeps what was measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "binding.hpp"
#include "memory/segment_pool.hpp"

namespace datamover {

struct TuningResult {
    std::string transports;  ///< names, as for choose_transport; empty: nothing was measured
    std::string why;         ///< these
    std::vector<MoverTrial> trials;
};

/// Tries the transports that can carry bound moves, on memory that stands in for the arrays, for
/// about `seconds` in all besides binding each, its first rounds. All processes agree on the
/// fastest and remember it. `looks_in_file`: nothing is tried where the file of earlier programs
/// knows. Without memory to try in, none is named. Collective. Throws what a round throws,
/// and invalid_argument unless `seconds` is a positive number.
TuningResult tuned(const mpi::ProcessGroupPtr& group, const std::vector<Moves>& bound,
                   const MoverOptions& options, double seconds, bool looks_in_file);

// The tuning file: measured choices kept for later programs.

/// What DATAMOVER_TUNING_FILE names (nothing: no file), else datamover/tuning in the user's cache
/// folder. Empty where there is none.
std::string tuning_file_path();

/// The names that stand in the file for a key; empty where there are none, or no file that can be
/// read. Lines that are damaged count as missing.
std::string find_in_tuning_file(const std::string& path, std::int64_t key) noexcept;

/// Adds names, or replaces those of the key, by a new file that takes the place of the old one at
/// once. Where that cannot be, everything stays as it is.
void add_to_tuning_file(const std::string& path, std::int64_t key,
                        const std::string& transports) noexcept;

// Measured transport choices of this program and earlier ones.

/// What has been measured, by what it depends on: the plans and the memory of this process's
/// arrays, element sizes, options, this process's place among all, the MPI and its version, the
/// version of the library, processors. Thread-safe.
class TuningMemory {
public:
    /// The one of this process; it is never destroyed.
    static TuningMemory& of_process();

    /// The names of the fastest transports; empty where they are not known. Local.
    std::string find(const mpi::ProcessGroup& group, const Moves& moves,
                     const MoverOptions& options) const;
    void keep(const mpi::ProcessGroup& group, const Moves& moves, const MoverOptions& options,
              const std::string& transports);

private:
    TuningMemory() = default;
    mutable std::mutex mutex_;
    std::map<std::int64_t, std::string> fastest_;
};

/// What the choice depends on, as far as this process knows. Never negative.
std::int64_t tuning_key(const mpi::ProcessGroup& group, const Moves& moves,
                        const MoverOptions& options);

// Scratch arrays that replace a mover's arrays during tuning.

/// Memory of the same shape, alignment and kind as the arrays of a mover. Where arrays overlap, or
/// are the same, what stands in for them does and is too.
class ScratchArrays {
public:
    /// Memory that some of the arrays lie in, and what stands in for it.
    struct Span {
        std::byte* user = nullptr;
        std::int64_t bytes = 0;
        bool shared = false;
        memory::AllocationPtr memory;
        std::byte* scratch = nullptr;  ///< stands in for `user`
    };

    ScratchArrays() = default;
    /// All zero at first. Local. Throws no_memory.
    explicit ScratchArrays(const std::vector<Moves>& phases);

    /// Bytes that this takes. Local.
    static std::int64_t bytes_for(const std::vector<Moves>& phases);

    /// The moves between what stands in.
    std::vector<Moves> stand_in(std::vector<Moves> phases) const;

private:
    const Span& span_at(const std::byte* user) const;
    void stand_in(ArrayPart& part) const;

    std::vector<Span> spans_;  ///< ascending, apart from each other
};

}  // namespace datamover
