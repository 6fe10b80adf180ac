// SPDX-License-Identifier: BSD-3-Clause
// ShownField: sends the computed field to a viewer.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "datamover/stream.hpp"

namespace apps {

/// A stream of one array, where DATAMOVER_STREAM says at which address. The token is that of
/// DATAMOVER_STREAM_TOKEN. It begins when somebody looks. Collective.
class ShownField {
public:
    ShownField() {
        const char* const address = std::getenv("DATAMOVER_STREAM");
        if (address == nullptr) return;
        datamover::StreamOptions options;
        options.consumers = 1;
        options.timeout_seconds = wait_seconds;
        const char* const token = std::getenv("DATAMOVER_STREAM_TOKEN");
        if (token != nullptr) options.token = token;
        stream_.emplace(MPI_COMM_WORLD, address, options);
    }

    /// Sends the field of a step, if anybody wants to look. Collective.
    void send(const datamover::ArrayPart& field, std::int64_t step) {
        if (stream_) stream_->send("u", field, step);
    }
    /// Collective.
    void close() {
        if (stream_) stream_->close();
    }
    bool is_wanted() const { return stream_.has_value(); }

private:
    static constexpr double wait_seconds = 60;
    std::optional<datamover::Stream> stream_;
};

}  // namespace apps
