// SPDX-License-Identifier: BSD-3-Clause
// C interface: receiving the arrays of a stream.
#include <algorithm>

#include "datamover/stream_source.hpp"
#include "geometry/make_error.hpp"
#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

struct datamover_stream_source {
    StreamSource value;
    std::vector<std::string> names{};   ///< of the last step's arrays
    std::vector<StreamArray> arrays{};  ///< found last
};

namespace {

StreamSourceOptions options_of(const datamover_source_options* given_options) {
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

std::map<std::string, ArrayPart> wanted_of(std::int64_t count, const char* const* names,
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

}  // namespace

int datamover_stream_connect(datamover_stream_source** source, MPI_Comm comm, const char* address,
                             const datamover_source_options* options) {
    return guarded([&] {
        struct Arguments {
            std::string address;
            StreamSourceOptions options;
        };
        const Arguments all = collectively(comm, [&] {
            given(source, "source");
            return Arguments{&given(address, "address"), options_of(options)};
        });
        hand_out(source, "source", StreamSource(comm, all.address, all.options));
    });
}

int datamover_stream_arrays(datamover_stream_source* source, double timeout_seconds,
                            int64_t* count) {
    return guarded([&] {
        StreamSource& from = value_of(source, "source");
        converted(from, [&] { given(count, "count") = 0; });
        source->arrays.clear();
        source->arrays = from.arrays(timeout_seconds < 0 ? std::nullopt
                                                         : std::optional<double>(timeout_seconds));
        *count = static_cast<std::int64_t>(source->arrays.size());
    });
}

int datamover_stream_array(const datamover_stream_source* source, int64_t number, const char** name,
                           const char** dtype, int64_t* elem_bytes, datamover_layout** layout) {
    return guarded([&] {
        value_of(source, "source");
        const auto count = static_cast<std::int64_t>(source->arrays.size());
        if (number < 0 || number >= count)
            throw make_error(ErrorCode::out_of_range, "array ", number, " of ", count,
                             " that are known");
        const StreamArray& array = source->arrays[static_cast<std::size_t>(number)];
        if (layout) hand_out(layout, "layout", Layout(array.layout));
        if (name) *name = array.name.c_str();
        if (dtype) *dtype = array.dtype.c_str();
        if (elem_bytes) *elem_bytes = array.elem_bytes;
    });
}

int datamover_stream_subscribe(datamover_stream_source* source, int64_t count,
                               const char* const* names, const datamover_array* const* arrays) {
    return guarded([&] {
        StreamSource& from = value_of(source, "source");
        from.subscribe(converted(from, [&] { return wanted_of(count, names, arrays); }));
    });
}

int datamover_stream_subscribe_to_all(datamover_stream_source* source) {
    return guarded([&] { value_of(source, "source").subscribe_to_all(); });
}

int datamover_stream_source_refuse(datamover_stream_source* source, int code, const char* message) {
    return guarded([&] { value_of(source, "source").refuse(said_error(code, message)); });
}

int datamover_stream_next(datamover_stream_source* source, double timeout_seconds, int64_t* step) {
    return guarded([&] {
        StreamSource& from = value_of(source, "source");
        const std::optional<double> limit = limit_of(timeout_seconds);
        given(step, "step") = DATAMOVER_NO_STEP;
        source->names.clear();
        auto found = from.next(limit);
        if (!found) return;
        *step = found->number;
        source->names = std::move(found->names);
    });
}

int datamover_stream_has(const datamover_stream_source* source, const char* name, int* has) {
    return guarded([&] {
        value_of(source, "source");
        const std::string wanted = &given(name, "name");
        const auto& names = source->names;
        given(has, "has") = std::ranges::find(names, wanted) != names.end();
    });
}

int datamover_stream_whole_array(const datamover_stream_source* source, const char** name,
                                 const char** dtype, int64_t* elem_bytes, void** elements,
                                 int64_t* nbytes, datamover_layout** layout) {
    return guarded([&] {
        const WholeStreamArray& array = value_of(source, "source").whole_array();
        if (layout) hand_out(layout, "layout", Layout(array.layout));
        if (name) *name = array.name.c_str();
        if (dtype) *dtype = array.dtype.c_str();
        if (elem_bytes) *elem_bytes = array.elem_bytes;
        if (elements) *elements = array.elements.data();
        if (nbytes) *nbytes = static_cast<std::int64_t>(array.elements.size());
    });
}

int datamover_stream_dropped(const datamover_stream_source* source, int64_t* steps) {
    return guarded([&] {
        given(steps, "steps") =
            static_cast<std::int64_t>(value_of(source, "source").counters().steps_dropped);
    });
}

int datamover_stream_disconnect(datamover_stream_source** source) {
    return guarded([&] {
        datamover_stream_source* const left = std::exchange(given(source, "source"), nullptr);
        if (left == nullptr) return;
        const std::unique_ptr<datamover_stream_source> freed(left);
        freed->value.close();
    });
}
