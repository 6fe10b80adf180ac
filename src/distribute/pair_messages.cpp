// SPDX-License-Identifier: BSD-3-Clause
// How do the elements of a pair of processes go in one MPI message?
#include "pair_messages.hpp"

#include <deque>

#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::distribute {
namespace {

/// A datatype for parts of memory at their addresses.
class PartsType {
public:
    explicit PartsType(std::span<const Part> parts) {
        std::deque<mpi::ByteMessage> messages;
        std::vector<int> counts;
        std::vector<MPI_Aint> addresses;
        std::vector<MPI_Datatype> types;
        for (const Part& part : parts) {
            messages.emplace_back(part.bytes);
            counts.push_back(messages.back().count());
            types.push_back(messages.back().type());
            MPI_Aint address = 0;
            mpi::check(MPI_Get_address(part.data, &address), "MPI_Get_address");
            addresses.push_back(address);
        }
        mpi::check(MPI_Type_create_struct(static_cast<int>(counts.size()), counts.data(),
                                          addresses.data(), types.data(), &type_),
                   "MPI_Type_create_struct");
        mpi::check(MPI_Type_commit(&type_), "MPI_Type_commit");
    }
    ~PartsType() {
        if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
    }
    PartsType(const PartsType&) = delete;
    PartsType& operator=(const PartsType&) = delete;

    MPI_Datatype type() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

void PendingSends::send(const std::byte* data, std::int64_t bytes, int rank) {
    const mpi::ByteMessage message(bytes);
    requests_.push_back(MPI_REQUEST_NULL);
    mpi::check(MPI_Isend(data, message.count(), message.type(), rank, state_.data_tag,
                         state_.group->comm(), &requests_.back()),
               "MPI_Isend");
    ++state_.counters.messages;
}

void PendingSends::send(std::span<const Part> parts, int rank) {
    if (parts.size() == 1) return send(parts.front().data, parts.front().bytes, rank);
    const PartsType all(parts);
    requests_.push_back(MPI_REQUEST_NULL);
    mpi::check(MPI_Isend(MPI_BOTTOM, 1, all.type(), rank, state_.data_tag, state_.group->comm(),
                         &requests_.back()),
               "MPI_Isend");
    ++state_.counters.messages;
}

bool PendingSends::test() {
    if (requests_.empty()) return true;
    int all = 0;
    mpi::check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all,
                           MPI_STATUSES_IGNORE),
               "MPI_Testall");
    if (all) requests_.clear();
    return all != 0;
}

void PendingSends::wait() {
    if (requests_.empty()) return;
    mpi::check(
        MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
        "MPI_Waitall");
    requests_.clear();
}

void receive_bytes(State& state, std::byte* data, std::int64_t bytes, int rank) {
    const mpi::ByteMessage message(bytes);
    mpi::check(MPI_Recv(data, message.count(), message.type(), rank, state.data_tag,
                        state.group->comm(), MPI_STATUS_IGNORE),
               "MPI_Recv");
}

std::int64_t receive_elements(State& state, const Carriage& carriage, std::int64_t first_elem,
                              int rank) {
    int arrived = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    mpi::check(MPI_Improbe(rank, state.data_tag, state.group->comm(), &arrived, &message, &status),
               "MPI_Improbe");
    if (!arrived) return 0;
    MPI_Count bytes = 0;
    mpi::check(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    const std::int64_t elems = static_cast<std::int64_t>(bytes) / carriage.elem_bytes();
    std::vector<Part> parts;
    for (std::size_t c = 0; c < carriage.columns.size(); ++c) {
        const std::int64_t elem_bytes = carriage.columns[c].elem_bytes;
        parts.push_back({carriage.results[c].data + first_elem * elem_bytes, elems * elem_bytes});
    }
    const PartsType columns(parts);
    mpi::check(MPI_Mrecv(MPI_BOTTOM, 1, columns.type(), &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    return elems;
}

}  // namespace datamover::distribute
