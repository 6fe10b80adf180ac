// SPDX-License-Identifier: BSD-3-Clause
// Cost model for decoding relations on this machine, and the encoding it favors.
#pragma once

#include <string>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Nanoseconds that decoding costs beyond moving the bytes. The defaults are of an x86-64 machine
/// with AVX-512; `datamover bench model` measures them.
struct DecodingCosts {
    double pair = 1.0;    ///< per element kept as a pair
    double block = 3.0;   ///< per contiguous block
    double symbol = 4.0;  ///< per symbol of runs and dictionaries
    double offset = 0.7;  ///< per element kept as an offset
    double byte = 0.1;    ///< per byte of the encoding read
    /// A smaller encoding is chosen when it is at most so many times as slow as the fastest.
    double tolerated_slowness = 1.2;
};

/// The costs that encodings are chosen by in this process. Local, O(1).
DecodingCosts decoding_costs();
/// Sets them for the relations made from now on. The order of a relation's pairs, and so what is
/// sent, does not depend on them: processes may differ.
/// Throws invalid_argument when one is negative or no number, or the slowness is below 1.
void set_decoding_costs(const DecodingCosts& costs);

/// What one encoding of a relation would cost.
struct EncodingEstimate {
    Encoding encoding = Encoding::pairs;
    std::int64_t nbytes = 0;
    double decode_seconds = 0;  ///< predicted, beyond moving the bytes
};

/// Why a relation is kept as it is.
struct EncodingChoice {
    Encoding chosen = Encoding::pairs;
    std::vector<EncodingEstimate> estimates;  ///< of every encoding, or none
    std::string reason;
};

/// Tries every encoding and says what speaks for the one that the relation has. For inspection:
/// time and memory follow the elements, so that nothing is tried where there are more than
/// `most_elems` of them (a product of a few bytes may hold any number).
EncodingChoice explain_encoding(const AddressRelation& relation,
                                std::int64_t most_elems = std::int64_t{1} << 24);

}  // namespace datamover
