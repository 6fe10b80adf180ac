// SPDX-License-Identifier: BSD-3-Clause
// Cost models for decoding relations: the encoding to favor, and when to recompute addresses.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Costs of decoding, in nanoseconds, in addition to moving the bytes. The defaults are for an
/// x86-64 machine with AVX-512; `datamover bench model` measures them.
struct DecodingCosts {
    double pair = 1.0;    ///< per element stored as a pair
    double block = 3.0;   ///< per contiguous block
    double symbol = 4.0;  ///< per symbol of runs and dictionaries
    double offset = 0.7;  ///< per element stored as an offset
    double byte = 0.1;    ///< per byte of the encoding read
    /// A smaller encoding is chosen if it is at most this many times as slow as the fastest.
    double tolerated_slowness = 1.2;
};

/// Return the costs by which this process chooses encodings. Local, O(1).
DecodingCosts decoding_costs();
/// Set the costs for relations made later. The order of a relation's pairs, and so the data sent,
/// does not depend on them: processes may differ. Throws invalid_argument if a cost is negative or
/// not a number, or the slowness is below 1.
void set_decoding_costs(const DecodingCosts& costs);

/// The cost of one encoding of a relation.
struct EncodingEstimate {
    Encoding encoding = Encoding::pairs;
    std::int64_t nbytes = 0;
    double decode_seconds = 0;  ///< predicted, in addition to moving the bytes
};

/// The reason for a relation's encoding.
struct EncodingChoice {
    Encoding chosen = Encoding::pairs;
    std::vector<EncodingEstimate> estimates;  ///< of every encoding, or none
    std::string reason;
};

/// Try every encoding, and give the reason for the one that the relation has. For inspection: time
/// and memory are proportional to the elements, so that nothing is tried for more than `most_elems`
/// of them (a product of a few bytes may hold any number).
EncodingChoice explain_encoding(const AddressRelation& relation,
                                std::int64_t most_elems = std::int64_t{1} << 24);

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
