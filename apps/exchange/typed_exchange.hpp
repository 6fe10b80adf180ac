// SPDX-License-Identifier: BSD-3-Clause
// Messages described by MPI datatypes, which MPI packs.
#pragma once

#include "message.hpp"

namespace apps {

// communication: begin

/// Some messages of a process that are sent and received together, any number of times.
class TypedExchange {
public:
    TypedExchange(const std::vector<Message>& receives, const std::vector<Message>& sends) {
        for (const Message& message : receives)
            MPI_Recv_init(MPI_BOTTOM, 1, type_of(message), message.peer, message.tag,
                          MPI_COMM_WORLD, &requests_.emplace_back());
        for (const Message& message : sends)
            MPI_Send_init(MPI_BOTTOM, 1, type_of(message), message.peer, message.tag,
                          MPI_COMM_WORLD, &requests_.emplace_back());
    }
    TypedExchange(TypedExchange&&) = default;
    ~TypedExchange() {
        for (MPI_Request& request : requests_) MPI_Request_free(&request);
        for (MPI_Datatype& type : types_) MPI_Type_free(&type);
    }

    void start(Times&) {
        for (MPI_Request& request : requests_) MPI_Start(&request);
    }
    void finish(Times& times) {
        timed(times.wait, [&] {
            for (MPI_Request& request : requests_) MPI_Wait(&request, MPI_STATUS_IGNORE);
        });
    }

private:
    /// Of the sections at their addresses.
    MPI_Datatype type_of(const Message& message) {
        std::vector<MPI_Datatype> boxes;
        std::vector<MPI_Aint> addresses;
        for (const Section& section : message.sections) {
            boxes.push_back(type_of(section));
            MPI_Get_address(section.values.at(section.box.lo), &addresses.emplace_back());
        }
        const std::vector<int> ones(boxes.size(), 1);
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_create_struct(static_cast<int>(boxes.size()), ones.data(), addresses.data(),
                               boxes.data(), &type);
        MPI_Type_commit(&type);
        for (MPI_Datatype& box : boxes) MPI_Type_free(&box);
        types_.push_back(type);
        return type;
    }

    static MPI_Datatype type_of(const Section& section) {
        const Values& v = section.values;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_dup(MPI_DOUBLE, &type);
        const auto repeat = [&](std::int64_t count, std::int64_t stride) {
            MPI_Datatype one = type;
            MPI_Type_create_hvector(static_cast<int>(count), 1,
                                    stride * std::int64_t{sizeof(double)}, one, &type);
            MPI_Type_free(&one);
        };
        if (v.value_stride == 1) repeat(v.count, 1);
        for (std::size_t d = 0; d < 3; ++d)
            repeat(section.box.hi[d] - section.box.lo[d], v.strides[d]);
        if (v.value_stride != 1) repeat(v.count, v.value_stride);
        return type;
    }

    std::vector<MPI_Request> requests_;
    std::vector<MPI_Datatype> types_;
};

// communication: end

}  // namespace apps
