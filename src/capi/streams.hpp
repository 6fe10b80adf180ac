// SPDX-License-Identifier: BSD-3-Clause
// C interface of streams: the objects behind two handles, and arguments.
#pragma once

#include "geometry/make_error.hpp"
#include "handles.hpp"

struct datamover_stream_manager {
    datamover::StreamManager value;
    MPI_Comm comm;
};

struct datamover_stream_source {
    datamover::StreamSource value;
    std::vector<std::string> names{};              ///< of the last step's arrays
    std::vector<datamover::StreamArray> arrays{};  ///< found last
};

namespace datamover::capi {

inline std::optional<std::int64_t> step_or_next(std::int64_t step) {
    return step == DATAMOVER_NEXT_STEP ? std::nullopt : std::optional<std::int64_t>(step);
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
