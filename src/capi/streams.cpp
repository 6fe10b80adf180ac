// SPDX-License-Identifier: BSD-3-Clause
// C interface: sending arrays by a stream.
#include "datamover/stream.hpp"
#include "datamover/stream_manager.hpp"
#include "geometry/make_error.hpp"
#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

struct datamover_stream {
    Stream value;
};
struct datamover_stream_manager {
    StreamManager value;
    MPI_Comm comm;
};

namespace {

StreamOptions options_of(const datamover_stream_options* given_options) {
    StreamOptions made;
    if (!given_options) return made;
    if (given_options->pathways != 0) made.pathways = given_options->pathways;
    if (given_options->policy) made.policy = given_options->policy;
    if (given_options->queue_steps != 0) made.queue_steps = given_options->queue_steps;
    if (given_options->queue_bytes != 0) made.queue_bytes = given_options->queue_bytes;
    made.consumers = given_options->consumers;
    if (given_options->token) made.token = given_options->token;
    if (given_options->timeout_seconds != 0) made.timeout_seconds = given_options->timeout_seconds;
    made.shared_memory = given_options->no_shared_memory == 0;
    made.open = given_options->open != 0;
    return made;
}

StreamManagerOptions options_of(const datamover_stream_manager_options* given_options) {
    StreamManagerOptions made;
    if (!given_options) return made;
    if (given_options->active != 0) made.active = given_options->active;
    if (given_options->unit) made.unit = given_options->unit;
    if (given_options->stall_seconds != 0) made.stall_seconds = given_options->stall_seconds;
    return made;
}

struct SendArguments {
    std::string name;
    const ArrayPart* array;
    std::optional<std::int64_t> step;
};

}  // namespace

int datamover_stream_open(datamover_stream** stream, MPI_Comm comm, const char* address,
                          const datamover_stream_options* options) {
    return guarded([&] {
        struct Arguments {
            std::string address;
            StreamOptions options;
        };
        const Arguments all = collectively(comm, [&] {
            given(stream, "stream");
            return Arguments{&given(address, "address"), options_of(options)};
        });
        hand_out(stream, "stream", Stream(comm, all.address, all.options));
    });
}

int datamover_stream_send(datamover_stream* stream, const char* name, const datamover_array* array,
                          int64_t step) {
    return guarded([&] {
        Stream& out = value_of(stream, "stream");
        const SendArguments all = converted(out, [&] {
            return SendArguments{
                &given(name, "name"), &value_of(array, "array"),
                step == DATAMOVER_NEXT_STEP ? std::nullopt : std::optional<std::int64_t>(step)};
        });
        out.send(all.name, *all.array, all.step);
    });
}

int datamover_stream_end_step(datamover_stream* stream) {
    return guarded([&] { value_of(stream, "stream").end_step(); });
}

int datamover_stream_refuse(datamover_stream* stream, int code, const char* message) {
    return guarded([&] { value_of(stream, "stream").refuse(said_error(code, message)); });
}

int datamover_stream_close(datamover_stream* stream, double timeout_seconds) {
    return guarded([&] {
        value_of(stream, "stream")
            .close(timeout_seconds < 0 ? std::nullopt : std::optional<double>(timeout_seconds));
    });
}

int datamover_stream_address(const datamover_stream* stream, const char** address) {
    return guarded(
        [&] { given(address, "address") = value_of(stream, "stream").address().c_str(); });
}

int datamover_stream_token(const datamover_stream* stream, const char** token) {
    return guarded([&] { given(token, "token") = value_of(stream, "stream").token().c_str(); });
}

int datamover_stream_free(datamover_stream** stream) {
    return release(stream, "stream");
}

int datamover_stream_manager_create(datamover_stream_manager** manager, MPI_Comm comm,
                                    const datamover_stream_manager_options* options) {
    return guarded([&] {
        const StreamManagerOptions made = collectively(comm, [&] {
            given(manager, "manager");
            return options_of(options);
        });
        given(manager, "manager") = new datamover_stream_manager{StreamManager(comm, made), comm};
    });
}

int datamover_stream_manager_open(datamover_stream** stream,
                                  const datamover_stream_manager* manager, const char* name,
                                  const char* address, const datamover_stream_options* options) {
    return guarded([&] {
        struct Arguments {
            std::string name, address;
            StreamOptions options;
        };
        const Arguments all = collectively(given(manager, "manager").comm, [&] {
            given(stream, "stream");
            return Arguments{&given(name, "name"), &given(address, "address"), options_of(options)};
        });
        hand_out(stream, "stream", manager->value.open(all.name, all.address, all.options));
    });
}

int datamover_stream_manager_active(const datamover_stream_manager* manager, int64_t* streams) {
    return guarded([&] { given(streams, "streams") = value_of(manager, "manager").active(); });
}

int datamover_stream_manager_free(datamover_stream_manager** manager) {
    return release(manager, "manager");
}
