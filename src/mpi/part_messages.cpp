// SPDX-License-Identifier: BSD-3-Clause
// Messages of bytes in several parts of memory, and their completion.
#include "part_messages.hpp"

#include <utility>

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
    for (UnderWay& message : under_way_)
        if (message.request != MPI_REQUEST_NULL && is_running() &&
            !end(message.request, message.is_send))
            group_.abandon(std::move(message.memory));
}

std::size_t Messages::next(std::shared_ptr<const void> memory, bool is_send) {
    if (unused_.empty()) {
        unused_.push_back(under_way_.size());
        under_way_.emplace_back();
    }
    const std::size_t number = unused_.back();
    unused_.pop_back();
    under_way_[number] = {MPI_REQUEST_NULL, std::move(memory), true, is_send};
    return number;
}

template <class Call>
std::size_t Messages::begin(Call* call, const char* name, std::span<const Part> parts, int rank,
                            std::shared_ptr<const void> memory, bool is_send) {
    const PartsType all(parts);
    const std::size_t number = next(std::move(memory), is_send);
    check(call(all.buffer(), all.count(), all.type(), rank, tag_, group_.comm(),
               &under_way_[number].request),
          name);
    return number;
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

bool Messages::is_complete(std::size_t number) {
    UnderWay& message = under_way_[number];
    if (!message.active) return true;
    int done = 0;
    check(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) return false;
    message = {};
    unused_.push_back(number);
    return true;
}

bool Messages::all_complete() {
    if (unused_.size() == under_way_.size()) return true;
    bool all = true;
    for (std::size_t i = 0; i < under_way_.size(); ++i) all = is_complete(i) && all;
    return all;
}

void Messages::wait() {
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
        if (!under_way_[i].active) continue;
        group_.complete(under_way_[i].request, "MPI_Test", Load::data);
        is_complete(i);
    }
}

}  // namespace datamover::mpi
