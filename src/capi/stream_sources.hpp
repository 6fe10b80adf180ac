// SPDX-License-Identifier: BSD-3-Clause
// C interface of stream sources: the object behind the handle, and options.
#pragma once

#include "datamover/stream_source.hpp"
#include "geometry/make_error.hpp"
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
    set_timeout(made.timeout_seconds, given_options->timeout_seconds);
    made.ahead = given_options->ahead;
    made.shared_memory = given_options->no_shared_memory == 0;
    made.newest = given_options->newest != 0;
    return made;
}

inline std::map<std::string, ArrayPart> wanted_of(std::int64_t count, const char* const* names,
                                                  const datamover_array* const* arrays) {
    if (count < 1)
        throw Error(ErrorCode::invalid_argument,
                    "count is below 1; subscribe to at least one array");
    given(names, "names");
    given(arrays, "arrays");
    std::map<std::string, ArrayPart> wanted;
    for (std::int64_t n = 0; n < count; ++n)
        if (!wanted.emplace(&given(names[n], "a name"), value_of(arrays[n], "an array")).second)
            throw make_error(ErrorCode::invalid_argument, "array '", names[n],
                             "' is subscribed to twice");
    return wanted;
}

}  // namespace datamover::capi
