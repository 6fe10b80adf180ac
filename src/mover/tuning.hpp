// SPDX-License-Identifier: BSD-3-Clause
// Tuning: measures which transports are fastest for a mover.
#pragma once

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

}  // namespace datamover
