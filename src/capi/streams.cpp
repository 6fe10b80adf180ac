// SPDX-License-Identifier: BSD-3-Clause
// C interface of both ends of a stream: what is not generated.
#include "streams.hpp"

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

int datamover_source_free(datamover_stream_source** source) {
    return guarded([&] {
        datamover_stream_source* const left = std::exchange(given(source, "source"), nullptr);
        if (left == nullptr) return;
        const std::unique_ptr<datamover_stream_source> freed(left);
        freed->value.close();
    });
}
