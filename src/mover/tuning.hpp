// SPDX-License-Identifier: BSD-3-Clause
// Tuning: measures which transports are fastest for a mover, and keeps what was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binding.hpp"

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

/// Whether a transport carries between processes of different nodes.
bool reaches_other_nodes(const transport::TransportKind& kind);

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

// What has been measured, by what it depends on: the plans and the memory of this process's
// arrays, element sizes, options, this process's place among all, the MPI and its version, the
// version of the library, processors. From any thread.

/// The names of the fastest transports; empty if they are not known. Local.
std::string remembered_transports(const mpi::ProcessGroup& group, const Moves& moves,
                                  const MoverOptions& options);
void remember_transports(const mpi::ProcessGroup& group, const Moves& moves,
                         const MoverOptions& options, const std::string& transports);

/// What the choice depends on, as far as this process knows. Never negative.
std::int64_t tuning_key(const mpi::ProcessGroup& group, const Moves& moves,
                        const MoverOptions& options);

// Scratch arrays that replace a mover's arrays during tuning.

/// The moves between memory of the same shape, alignment and kind as their arrays, all zero at
/// first. Where arrays overlap, or are the same, what replaces them does and is too. Local. Throws
/// no_memory.
std::vector<Moves> between_scratch_arrays(std::vector<Moves> phases);
/// Bytes that this takes. Local.
std::int64_t scratch_bytes(const std::vector<Moves>& phases);

}  // namespace datamover
