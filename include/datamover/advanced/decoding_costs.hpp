// SPDX-License-Identifier: BSD-3-Clause
// Cost model for decoding relations on this machine, and the encoding it favors.
#pragma once

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

}  // namespace datamover
