// SPDX-License-Identifier: BSD-3-Clause
// Messages of MPI: lengths beyond int, derived datatypes and requests; whether MPI can be called.
#include "byte_message.hpp"

#include <pthread.h>

#include <atomic>
#include <limits>

#include "checked_call.hpp"

namespace datamover::mpi {

Datatype::~Datatype() {
    if (type_ != MPI_DATATYPE_NULL && is_running()) MPI_Type_free(&type_);
}

void Datatype::commit() {
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
}

Datatype contiguous(std::int64_t count, MPI_Datatype of) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(to_int(count, "element size"), of, &made), "MPI_Type_contiguous");
    return Datatype(made);
}

Datatype sequence(std::vector<PlacedDatatype> parts) {
    if (parts.size() == 1 && parts.front().displacement_bytes == 0)
        return std::move(parts.front().type);
    const std::vector<int> lengths(parts.size(), 1);
    std::vector<MPI_Aint> displacements;
    std::vector<MPI_Datatype> types;
    for (const PlacedDatatype& p : parts) {
        displacements.push_back(static_cast<MPI_Aint>(p.displacement_bytes));
        types.push_back(p.type.get());
    }
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(MPI_Type_create_struct(to_int(static_cast<std::int64_t>(parts.size()), "a list"),
                                 lengths.data(), displacements.data(), types.data(), &made),
          "MPI_Type_create_struct");
    return Datatype(made);
}

Datatype bytes_at(const void* memory, std::int64_t bytes) {
    const ByteMessage message(bytes);
    const int count = message.count();
    const auto displacement = static_cast<MPI_Aint>(displacement_of(memory));
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(MPI_Type_create_hindexed(1, &count, &displacement, message.type(), &made),
          "MPI_Type_create_hindexed");
    Datatype type(made);
    type.commit();
    return type;
}

std::int64_t displacement_of(const void* memory) {
    MPI_Aint displacement = 0;
    check(MPI_Get_address(memory, &displacement), "MPI_Get_address");
    return displacement;
}

namespace {

/// Whether this process was forked from one that used MPI, and whether MPI_Finalize was called.
std::atomic<bool> is_forked{false}, has_ended{false};

/// MPI calls this for MPI_COMM_SELF when it begins to end.
int notice_end(MPI_Comm, int, void*, void*) {
    has_ended.store(true);
    return MPI_SUCCESS;
}

bool watch_process() {
    pthread_atfork(nullptr, nullptr, [] { is_forked.store(true); });
    int key = MPI_KEYVAL_INVALID;
    return MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, notice_end, &key, nullptr) ==
               MPI_SUCCESS &&
           MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr) == MPI_SUCCESS;
}

[[noreturn]] void refuse() {
    throw Error(
        ErrorCode::mpi,
        is_forked_child()
            ? "MPI is used by the process that this one was forked from, which cannot use it"
            : "MPI is not running: call MPI_Init before, MPI_Finalize after");
}

}  // namespace

ByteMessage::ByteMessage(std::int64_t bytes) {
    if (bytes <= std::numeric_limits<int>::max()) {
        count_ = static_cast<int>(bytes);
        return;
    }
    constexpr std::int64_t chunk = std::int64_t{1} << 30;
    std::vector<PlacedDatatype> parts;
    parts.push_back({0, contiguous(bytes / chunk, contiguous(chunk, MPI_BYTE).get())});
    parts.push_back({bytes / chunk * chunk, contiguous(bytes % chunk, MPI_BYTE)});
    long_ = sequence(std::move(parts));
    long_.commit();
    count_ = 1;
}

bool end(MPI_Request& request, bool is_send) noexcept {
    constexpr int tries = 1000;
    int ended = 0;
    // An inactive request counts as ended. A send is not cancelled: MPI may not be able to (mpich 5
    // crashes).
    if (MPI_Test(&request, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && !ended && !is_send) {
        MPI_Cancel(&request);
        for (int n = 0; n < tries && !ended; ++n)
            if (MPI_Test(&request, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    }
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    return ended != 0;
}

bool is_running() {
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized) return false;
    [[maybe_unused]] static const bool watched = watch_process();
    return !is_forked_child();
}

void check_running() {
    if (!is_running()) refuse();
}

void check_usable(MPI_Comm comm) {
    check_running();
    if (comm == MPI_COMM_NULL)
        throw Error(ErrorCode::invalid_argument, "the communicator is MPI_COMM_NULL");
    int inter = 0;
    check(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
    if (inter)
        throw Error(ErrorCode::invalid_argument,
                    "an intercommunicator was given; an intracommunicator is needed");
}

void check_still_running() {
    if (is_ending() || is_forked_child()) refuse();
}

bool is_ending() {
    return has_ended.load(std::memory_order_relaxed);
}

bool is_forked_child() {
    return is_forked.load(std::memory_order_relaxed);
}

void Requests::assign(std::size_t places) {
    requests_.assign(places, MPI_REQUEST_NULL);
    sends_.assign(places, 0);
    ended_.assign(places, 0);  // of one request, this is what has ended
    statuses_.resize(places);
}

void Requests::begin(std::size_t place, bool sends, void* buffer, int count, MPI_Datatype type,
                     int peer, int tag, MPI_Comm comm) {
    sends_[place] = sends;
    MPI_Request* const request = &requests_[place];
    if (sends)
        check(MPI_Isend(buffer, count, type, peer, tag, comm, request), "MPI_Isend");
    else
        check(MPI_Irecv(buffer, count, type, peer, tag, comm, request), "MPI_Irecv");
}

std::span<const int> Requests::ended() {
    int count = 0;
    if (requests_.size() == 1) {
        if (requests_.front() != MPI_REQUEST_NULL)
            check(MPI_Test(&requests_.front(), &count, MPI_STATUS_IGNORE), "MPI_Test");
        return std::span(ended_).first(count != 0 ? 1 : 0);
    }
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  ended_.data(), statuses_.data());
    if (is_of_class(code, MPI_ERR_IN_STATUS))
        for (int k = 0; k < count; ++k)
            check(statuses_[static_cast<std::size_t>(k)].MPI_ERROR, "MPI_Testsome");
    check(code, "MPI_Testsome");
    // Without a request under way the count is MPI_UNDEFINED, below 0.
    return std::span(ended_).first(count > 0 ? static_cast<std::size_t>(count) : 0);
}

bool Requests::free(std::size_t place) noexcept {
    MPI_Request& request = requests_[place];
    return request == MPI_REQUEST_NULL || !is_running() || end(request, sends_[place] != 0);
}

}  // namespace datamover::mpi
