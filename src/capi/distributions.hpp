// SPDX-License-Identifier: BSD-3-Clause
// The object behind C's handle of a distribution, and its options.
#pragma once

#include "datamover/distribute.h"
#include "datamover/distribution.hpp"
#include "handles.hpp"

struct datamover_distribution {
    datamover::Distribution value;
};

namespace datamover::capi {

/// NULL: the defaults.
inline DistributionOptions options_of(const datamover_distribution_options* given_options) {
    DistributionOptions options;
    if (!given_options) return options;
    options.max_bytes = given_options->max_bytes;
    if (given_options->method) options.carry.method = given_options->method;
    options.carry.stable = given_options->any_order == 0;
    return options;
}

}  // namespace datamover::capi
