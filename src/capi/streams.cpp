// SPDX-License-Identifier: BSD-3-Clause
// C interface of both ends of a stream: what is not generated.
#include "streams.hpp"

#include <algorithm>

#include "geometry/make_error.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_stream_manager_create(MPI_Comm comm, const datamover_stream_manager_options* options,
                                    datamover_stream_manager** manager) {
    return guarded([&] {
        const StreamManagerOptions made = collectively(comm, [&] {
            given(manager, "manager");
            return options_of(options);
        });
        given(manager, "manager") = new datamover_stream_manager{StreamManager(comm, made), comm};
    });
}

int datamover_stream_manager_create_stream(const datamover_stream_manager* manager,
                                           const char* name, const char* address,
                                           const datamover_stream_options* options,
                                           datamover_stream** stream) {
    return guarded([&] {
        const auto [named, at, made] = collectively(given(manager, "manager").comm, [&] {
            given(stream, "stream");
            return held(std::string(text(name, "name")), std::string(text(address, "address")),
                        options_of(options));
        });
        hand_out(stream, "stream", manager->value.open(named, at, made));
    });
}

// C interface: receiving the arrays of a stream.

namespace {

/// Writes what a caller asks for.
template <class Array>
void describe(const Array& array, const char** name, const char** dtype, int64_t* elem_bytes,
              datamover_layout** layout) {
    if (layout) hand_out(layout, "layout", Layout(array.layout));
    if (name) *name = array.name.c_str();
    if (dtype) *dtype = array.dtype.c_str();
    if (elem_bytes) *elem_bytes = array.elem_bytes;
}

}  // namespace

int datamover_source_arrays(datamover_stream_source* source, double timeout_seconds,
                            int64_t* count) {
    return guarded([&] {
        StreamSource& from = value_of(source, "source");
        const auto timeout = converted(from, [&] {
            given(count, "count") = 0;
            return timeout_of(timeout_seconds);
        });
        source->arrays.clear();
        source->arrays = from.arrays(timeout);
        *count = static_cast<std::int64_t>(source->arrays.size());
    });
}

int datamover_source_array(const datamover_stream_source* source, int64_t number, const char** name,
                           const char** dtype, int64_t* elem_bytes, datamover_layout** layout) {
    return guarded([&] {
        value_of(source, "source");
        const auto count = static_cast<std::int64_t>(source->arrays.size());
        if (number < 0 || number >= count)
            throw make_error(ErrorCode::out_of_range, "array ", number, " of ", count,
                             " that are known");
        const StreamArray& array = source->arrays[static_cast<std::size_t>(number)];
        describe(array, name, dtype, elem_bytes, layout);
    });
}

int datamover_source_next(datamover_stream_source* source, double timeout_seconds, int64_t* step) {
    return guarded([&] {
        StreamSource& from = value_of(source, "source");
        const std::optional<double> timeout = timeout_of(timeout_seconds);
        given(step, "step") = DATAMOVER_NO_STEP;
        source->names.clear();
        auto found = from.next(timeout);
        if (!found) return;
        *step = found->number;
        source->names = std::move(found->names);
    });
}

int datamover_source_has(const datamover_stream_source* source, const char* name, int* has) {
    return guarded([&] {
        value_of(source, "source");
        const std::string wanted = &given(name, "name");
        const auto& names = source->names;
        given(has, "has") = std::ranges::find(names, wanted) != names.end();
    });
}

int datamover_source_whole_array(const datamover_stream_source* source, const char** name,
                                 const char** dtype, int64_t* elem_bytes, void** elements,
                                 int64_t* nbytes, datamover_layout** layout) {
    return guarded([&] {
        const WholeStreamArray& array = value_of(source, "source").whole_array();
        describe(array, name, dtype, elem_bytes, layout);
        if (elements) *elements = array.elements.data();
        if (nbytes) *nbytes = static_cast<std::int64_t>(array.elements.size());
    });
}

int datamover_source_free(datamover_stream_source** source) {
    return guarded([&] {
        datamover_stream_source* const left = std::exchange(given(source, "source"), nullptr);
        if (left == nullptr) return;
        const std::unique_ptr<datamover_stream_source> freed(left);
        freed->value.close();
    });
}
