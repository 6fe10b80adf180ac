// SPDX-License-Identifier: BSD-3-Clause
// C interface of streams: the objects behind two handles, and arguments.
#pragma once

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

/// Waits for arrays; `count` is 0 if that fails.
inline void find_arrays(datamover_stream_source& source, double timeout_seconds,
                        std::int64_t* count) {
    const auto timeout = converted(source.value, [&] {
        given(count, "count") = 0;
        return timeout_of(timeout_seconds);
    });
    source.arrays.clear();
    source.arrays = source.value.arrays(timeout);
    *count = std::ssize(source.arrays);
}

inline const StreamArray& known_array(const datamover_stream_source& source, std::int64_t number) {
    if (number < 0 || number >= std::ssize(source.arrays))
        throw make_error(ErrorCode::out_of_range, "array ", number, " of ", source.arrays.size(),
                         " that are known");
    return source.arrays[static_cast<std::size_t>(number)];
}

/// Writes what a caller asks for.
template <class Array>
void describe(const Array& array, const char** name, const char** dtype, std::int64_t* elem_bytes,
              datamover_layout** layout) {
    if (layout) hand_out(layout, "layout", Layout(array.layout));
    if (name) *name = array.name.c_str();
    if (dtype) *dtype = array.dtype.c_str();
    if (elem_bytes) *elem_bytes = array.elem_bytes;
}
inline void write_elements(const WholeStreamArray& array, void** elements, std::int64_t* nbytes) {
    if (elements) *elements = array.elements.data();
    if (nbytes) *nbytes = std::ssize(array.elements);
}

/// Receives a step; its number stays DATAMOVER_NO_STEP if there is none, or if that fails.
inline void next_step(datamover_stream_source& source, std::optional<double> timeout,
                      std::int64_t& step) {
    step = DATAMOVER_NO_STEP;
    source.names.clear();
    auto found = source.value.next(timeout);
    if (!found) return;
    step = found->number;
    source.names = std::move(found->names);
}

}  // namespace datamover::capi
