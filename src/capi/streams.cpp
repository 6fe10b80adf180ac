// SPDX-License-Identifier: BSD-3-Clause
// C interface: sending arrays by a stream.
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
