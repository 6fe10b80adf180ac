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

/// A buffer, a count and a datatype that stand for parts of memory.
class PartsType {
public:
    explicit PartsType(std::span<const Part> parts)
        : one_(parts.size() == 1 ? parts.front().bytes : 0) {
        if (parts.size() == 1) {
            buffer_ = const_cast<std::byte*>(parts.front().data);
            return;
        }
        std::vector<PlacedDatatype> placed;
        for (const Part& part : parts) placed.push_back({0, bytes_at(part.data, part.bytes)});
        all_ = sequence(std::move(placed));
        all_.commit();
    }

    void* buffer() const { return buffer_; }
    int count() const { return is_one() ? one_.count() : 1; }
    MPI_Datatype type() const { return is_one() ? one_.type() : all_.get(); }

private:
    bool is_one() const { return all_.get() == MPI_DATATYPE_NULL; }

    void* buffer_ = MPI_BOTTOM;
    ByteMessage one_;
    Datatype all_;  ///< of several parts, counted from MPI_BOTTOM
};

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
    const PartsType all(parts);
    UnderWay& message = under_way_[count_];
    message = {MPI_REQUEST_NULL, std::move(memory), is_send};
    check(call(all.buffer(), all.count(), all.type(), rank, tag_, group_.comm(), &message.request),
          name);
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
        group_.complete(message.request, "MPI_Test", Load::data);
    under_way_.clear();
}

}  // namespace datamover::mpi
