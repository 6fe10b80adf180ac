// SPDX-License-Identifier: BSD-3-Clause
// What is left to move where one array is source and destination at once?
#pragma once

#include <vector>

#include "datamover/pair_part.hpp"

namespace datamover::plan {

/// The parts without the pieces that bring every element of a block to itself: in one array they
/// stay where they are, whatever the operation. O(size of the tables).
std::vector<PeerPart> without_identities(std::vector<PeerPart> parts);

}  // namespace datamover::plan
