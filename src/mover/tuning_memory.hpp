// SPDX-License-Identifier: BSD-3-Clause
// Measured transport choices of this program and earlier ones.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "binding.hpp"

namespace datamover {

std::int64_t text_digest(const std::string& text);

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

}  // namespace datamover
