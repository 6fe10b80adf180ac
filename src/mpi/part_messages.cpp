// SPDX-License-Identifier: BSD-3-Clause
// Messages of bytes in several parts of memory, and their completion.
#include "part_messages.hpp"

#include <iterator>
#include <utility>
#include <vector>

#include "byte_message.hpp"
#include "checked_call.hpp"

namespace datamover::mpi {
namespace {

/// Several parts as one message, counted from MPI_BOTTOM.
ByteMessage message_of(std::span<const Part> parts) {
    std::vector<PlacedDatatype> placed;
    for (const Part& part : parts) placed.push_back({0, bytes_at(part.data, part.bytes)});
    Datatype all = sequence(std::move(placed));
    all.commit();
    return ByteMessage(std::move(all));
}

}  // namespace

Messages::~Messages() {
    for (auto& [number, message] : under_way_)
        if (message.request != MPI_REQUEST_NULL && is_running() &&
            !end(message.request, message.is_send))
            group_.abandon(std::move(message.memory));
}

template <class Call>
std::size_t Messages::begin(Call* call, const char* name, std::span<const Part> parts, int rank,
                            std::shared_ptr<const void> memory, bool is_send) {
    const bool is_one = parts.size() == 1;
    const ByteMessage all = is_one ? ByteMessage(parts.front().bytes) : message_of(parts);
    void* const buffer = is_one ? const_cast<std::byte*>(parts.front().data) : MPI_BOTTOM;
    UnderWay& message = under_way_[count_];
    message = {MPI_REQUEST_NULL, std::move(memory), is_send};
    check(call(buffer, all.count(), all.type(), rank, tag_, group_.comm(), &message.request), name);
    return count_++;
}

std::size_t Messages::send(std::span<const Part> parts, int rank,
                           std::shared_ptr<const void> memory) {
    return begin(MPI_Isend, "MPI_Isend", parts, rank, std::move(memory), true);
}

std::size_t Messages::send_synchronously(const Part& part, int rank,
                                         std::shared_ptr<const void> memory) {
    return begin(MPI_Issend, "MPI_Issend", {&part, 1}, rank, std::move(memory), true);
}

std::size_t Messages::receive(std::span<const Part> parts, int rank,
                              std::shared_ptr<const void> memory) {
    return begin(MPI_Irecv, "MPI_Irecv", parts, rank, std::move(memory), false);
}

std::int64_t Messages::probe(int rank) const {
    int arrived = 0;
    MPI_Status status;
    check(MPI_Iprobe(rank, tag_, group_.comm(), &arrived, &status), "MPI_Iprobe");
    if (!arrived) return -1;
    MPI_Count bytes = 0;
    check(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    return static_cast<std::int64_t>(bytes);
}

bool Messages::UnderWay::has_ended() {
    int ended = 0;
    check(MPI_Test(&request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    return ended != 0;
}

bool Messages::is_complete(std::size_t number) {
    const auto message = under_way_.find(number);
    if (message == under_way_.end()) return true;
    if (!message->second.has_ended()) return false;
    under_way_.erase(message);
    return true;
}

bool Messages::all_complete() {
    for (auto at = under_way_.begin(); at != under_way_.end();)
        at = at->second.has_ended() ? under_way_.erase(at) : std::next(at);
    return under_way_.empty();
}

void Messages::wait() {
    for (auto& [number, message] : under_way_)
        complete(group_, message.request, "MPI_Test", Load::data);
    under_way_.clear();
}

}  // namespace datamover::mpi
