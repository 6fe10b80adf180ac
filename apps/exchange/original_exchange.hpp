// SPDX-License-Identifier: BSD-3-Clause
// Packing and sending of messages as in the original benchmarks: value by value, with a buffer
// index that is incremented each time, and with new requests for every message.
#pragma once

#include "message.hpp"

namespace apps {

// communication: begin

/// Some messages of a process that are sent and received together, any number of times.
class OriginalExchange {
public:
    OriginalExchange(const std::vector<Message>& receives, const std::vector<Message>& sends)
        : receives_(receives.begin(), receives.end()), sends_(sends.begin(), sends.end()) {}

    void start(Times& times) {
        requests_.clear();
        for (Buffer& b : receives_)
            MPI_Irecv(b.elems.data(), b.count(), MPI_DOUBLE, b.message.peer, b.message.tag,
                      MPI_COMM_WORLD, &requests_.emplace_back());
        timed(times.pack, [&] {
            for (Buffer& b : sends_) {
                std::size_t p = 0;
                for_each_value(b.message, [&](const double& value) { b.elems[p++] = value; });
            }
        });
        for (Buffer& b : sends_)
            MPI_Isend(b.elems.data(), b.count(), MPI_DOUBLE, b.message.peer, b.message.tag,
                      MPI_COMM_WORLD, &requests_.emplace_back());
    }

    void finish(Times& times) {
        timed(times.wait, [&] {
            for (MPI_Request& request : requests_) MPI_Wait(&request, MPI_STATUS_IGNORE);
        });
        timed(times.pack, [&] {
            for (Buffer& b : receives_) {
                std::size_t p = 0;
                for_each_value(b.message, [&](double& value) { value = b.elems[p++]; });
            }
        });
    }

private:
    struct Buffer {
        explicit Buffer(const Message& m)
            : message(m), elems(static_cast<std::size_t>(m.elems())) {}
        int count() const { return static_cast<int>(elems.size()); }

        Message message;
        std::vector<double> elems;
    };

    template <class Visit>
    static void for_each_value(const Message& message, Visit&& visit) {
        for (const Section& section : message.sections) {
            const Values& v = section.values;
            if (v.value_stride == 1)
                for_each_point(section.box, [&](const Index& point) {
                    for (std::int64_t m = 0; m < v.count; ++m) visit(v.at(point)[m]);
                });
            else
                for (std::int64_t m = 0; m < v.count; ++m)
                    for_each_point(section.box, [&](const Index& point) {
                        visit(v.at(point)[m * v.value_stride]);
                    });
        }
    }

    std::vector<Buffer> receives_, sends_;
    std::vector<MPI_Request> requests_;
};

// communication: end

}  // namespace apps
