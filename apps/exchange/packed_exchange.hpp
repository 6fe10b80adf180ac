// SPDX-License-Identifier: BSD-3-Clause
// Packing of messages by hand-written loops as fast as possible, and sending by persistent
// requests.
#pragma once

#include <cstring>

#include "message.hpp"

namespace apps {

// communication: begin

/// Some messages of a process that are sent and received together, any number of times.
class PackedExchange {
public:
    PackedExchange(const std::vector<Message>& receives, const std::vector<Message>& sends) {
        for (const Message& message : receives) {
            Buffer& b = receives_.emplace_back(message);
            MPI_Recv_init(b.elems.data(), b.count(), MPI_DOUBLE, message.peer, message.tag,
                          MPI_COMM_WORLD, &arriving_.emplace_back());
        }
        for (const Message& message : sends) {
            Buffer& b = sends_.emplace_back(message);
            MPI_Send_init(b.elems.data(), b.count(), MPI_DOUBLE, message.peer, message.tag,
                          MPI_COMM_WORLD, &leaving_.emplace_back());
        }
    }
    PackedExchange(PackedExchange&&) = default;
    ~PackedExchange() {
        for (auto* requests : {&arriving_, &leaving_})
            for (MPI_Request& request : *requests) MPI_Request_free(&request);
    }

    void start(Times& times) {
        for (MPI_Request& request : arriving_) MPI_Start(&request);
        for (std::size_t i = 0; i < sends_.size(); ++i) {
            timed(times.pack, [&] {
                double* to = sends_[i].elems.data();
                for (const Section& section : sends_[i].sections)
                    for_each_run(section, [&](const double* run, std::size_t elems) {
                        std::memcpy(to, run, elems * sizeof(double));
                        to += elems;
                    });
            });
            MPI_Start(&leaving_[i]);
        }
    }

    void finish(Times& times) {
        for (std::size_t i = 0; i < receives_.size(); ++i) {
            timed(times.wait, [&] { MPI_Wait(&arriving_[i], MPI_STATUS_IGNORE); });
            timed(times.pack, [&] { unpack(receives_[i]); });
        }
        timed(times.wait, [&] {
            for (MPI_Request& request : leaving_) MPI_Wait(&request, MPI_STATUS_IGNORE);
        });
    }

private:
    struct Buffer {
        explicit Buffer(const Message& message)
            : sections(message.sections), elems(static_cast<std::size_t>(message.elems())) {}
        int count() const { return static_cast<int>(elems.size()); }

        std::vector<Section> sections;
        std::vector<double> elems;
    };

    static void unpack(const Buffer& buffer) {
        const double* from = buffer.elems.data();
        for (const Section& section : buffer.sections)
            for_each_run(section, [&](double* run, std::size_t elems) {
                std::memcpy(run, from, elems * sizeof(double));
                from += elems;
            });
    }

    /// Calls visit(address, elements) for what lies together in memory. The values of a point do,
    /// and with them its row; or, where each value has an array of its own, the rows of each.
    template <class Visit>
    static void for_each_run(const Section& section, Visit&& visit) {
        const Values& v = section.values;
        const Box& box = section.box;
        const std::int64_t arrays = v.value_stride == 1 ? 1 : v.count;
        const auto row = static_cast<std::size_t>((box.hi[0] - box.lo[0]) * v.strides[0]);
        for (std::int64_t m = 0; m < arrays; ++m)
            for (std::int64_t z = box.lo[2]; z < box.hi[2]; ++z)
                for (std::int64_t y = box.lo[1]; y < box.hi[1]; ++y)
                    visit(v.at({box.lo[0], y, z}) + m * v.value_stride, row);
    }

    std::vector<Buffer> receives_, sends_;
    std::vector<MPI_Request> arriving_, leaving_;
};

// communication: end

}  // namespace apps
