// SPDX-License-Identifier: BSD-3-Clause
// The paper's model of decoding a relation compared with recomputing its addresses.
#pragma once

#include <cstdint>
#include <limits>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The machine parameters of the model: rates per second. A word is one address or element.
struct MachineRates {
    double instructions = 0;      ///< integer instructions issued
    double read_contiguous = 0;   ///< words read, stride one
    double read_random = 0;       ///< words read at random addresses
    double write_contiguous = 0;  ///< words written, stride one
};

/// Instructions per element of the loops, and to compute one pair of addresses.
struct LoopInstructions {
    double generate = 0;   ///< to compute one pair (n_g)
    double recompute = 0;  ///< overhead of the loop that recomputes (n_au)
    double decode = 0;     ///< overhead of the loop that decodes (n_ac)
    double encode = 0;     ///< overhead of the loop that stores the relation (n_o)
};

/// The paper's model of decoding a relation of pairs compared with recomputing it (the commented
/// part of its section on assembly models). Times are seconds per element, for the put model: a
/// message holds both the data and the destination addresses.
class RecomputeModel {
public:
    /// Make a model. Throws invalid_argument unless all rates are positive and no instruction count
    /// is negative.
    RecomputeModel(const MachineRates& machine, const LoopInstructions& loops);

    /// Return the time to compute, read and write one element.
    double recompute_seconds() const;
    /// Return the time to decode, read and write one element.
    double decode_seconds() const;
    /// Return the time per element and use if the relation is used `uses` times after it was made.
    double amortised_seconds(std::int64_t uses) const;

    /// Return the instructions per pair above which decoding is faster in the long run.
    double threshold_instructions() const;
    /// Return whether it ever pays to keep the relation.
    bool decoding_pays() const { return loops_.generate > threshold_instructions(); }
    /// Return the uses after which making the relation has paid off; `never` if decoding does not
    /// pay.
    std::int64_t break_even_uses() const;
    static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    /// Return how many times faster decoding is in the limit.
    double ultimate_speedup() const;

private:
    MachineRates machine_;
    LoopInstructions loops_;
};

}  // namespace datamover
