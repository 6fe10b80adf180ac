// SPDX-License-Identifier: BSD-3-Clause
// C's mover options and the description of a pair, converted.
#pragma once

#include "datamover/datamover.h"
#include "datamover/mover.hpp"

namespace datamover::capi {

/// NULL: the defaults. Throws invalid_argument for names that are unknown.
MoverOptions mover_options_of(const datamover_mover_options* given_options);
/// Long texts are cut.
datamover_mover_pair described(const MoverPair& pair);

}  // namespace datamover::capi
