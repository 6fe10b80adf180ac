// SPDX-License-Identifier: BSD-3-Clause
// C interface of files: options.
#pragma once

#include "datamover/files.hpp"
#include "handles.hpp"

namespace datamover::capi {

inline FileOptions options_of(const datamover_file_options* given_options) {
    FileOptions made;
    if (!given_options) return made;
    made.format = static_cast<FileFormat>(given_options->format);
    if (given_options->ranks)
        made.ranks = values_or_none(given_options->ranks, given_options->num_ranks, "ranks");
    if (given_options->max_bytes != 0) made.max_bytes = given_options->max_bytes;
    made.overwrite = given_options->overwrite != 0;
    return made;
}

}  // namespace datamover::capi
