// SPDX-License-Identifier: BSD-3-Clause
// C interface of stream sources: the object behind the handle, and options.
#pragma once

#include "datamover/stream_source.hpp"
#include "handles.hpp"

struct datamover_stream_source {
    datamover::StreamSource value;
    std::vector<std::string> names{};              ///< of the last step's arrays
    std::vector<datamover::StreamArray> arrays{};  ///< found last
};

namespace datamover::capi {

inline StreamSourceOptions options_of(const datamover_source_options* given_options) {
    StreamSourceOptions made;
    if (!given_options) return made;
    if (given_options->token) made.token = given_options->token;
    if (given_options->timeout_seconds < 0)
        made.timeout_seconds.reset();
    else if (given_options->timeout_seconds != 0)
        made.timeout_seconds = given_options->timeout_seconds;
    made.ahead = given_options->ahead;
    made.shared_memory = given_options->no_shared_memory == 0;
    made.newest = given_options->newest != 0;
    return made;
}

}  // namespace datamover::capi
