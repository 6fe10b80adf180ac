// SPDX-License-Identifier: BSD-3-Clause
// The C operation of the paper on migration, with its prototype.
#include <limits>

#include "datamover/distribute.h"
#include "datamover/migration.hpp"
#include "geometry/checked.hpp"
#include "handles.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::capi {
namespace {

struct AlltoallCall {
    void* sendbuf;
    std::int64_t sendcount;
    MPI_Datatype sendtype;
    void* recvbuf;
    std::int64_t recvcount;
    MPI_Datatype recvtype;

    bool in_place() const { return sendbuf == MPI_IN_PLACE; }
    const std::byte* elements() const {
        return static_cast<const std::byte*>(in_place() ? recvbuf : sendbuf);
    }
};

std::int64_t extent_bytes(MPI_Datatype type, const char* name) {
    if (type == MPI_DATATYPE_NULL)
        throw make_error(ErrorCode::invalid_argument, name, " is MPI_DATATYPE_NULL");
    MPI_Aint low = 0, extent = 0;
    mpi::check(MPI_Type_get_extent(type, &low, &extent), "MPI_Type_get_extent");
    if (low != 0 || extent <= 0)
        throw make_error(
            ErrorCode::unsupported,
            "elements must begin at the type's lower bound 0 and have a positive extent, "
            "this one goes from ",
            low, " over ", extent, " bytes");
    return extent;
}

std::int64_t checked_elem_bytes(const AlltoallCall& call) {
    if (call.recvbuf == MPI_IN_PLACE)
        throw Error(ErrorCode::invalid_argument, "MPI_IN_PLACE stands for sendbuf, not recvbuf");
    const std::int64_t bytes = extent_bytes(call.recvtype, "recvtype");
    if (call.sendcount < 0 || call.recvcount < 0)
        throw make_error(ErrorCode::invalid_argument, "counts of ", call.sendcount, " and ",
                         call.recvcount, " elements make no sense");
    if (!call.in_place() && extent_bytes(call.sendtype, "sendtype") != bytes)
        throw make_error(ErrorCode::wrong_type, "elements of ",
                         extent_bytes(call.sendtype, "sendtype"), " bytes are sent, of ", bytes,
                         " bytes received");
    if (call.sendcount > 0 && !call.elements())
        throw make_error(ErrorCode::invalid_argument, call.in_place() ? "recvbuf" : "sendbuf",
                         " is NULL, sendcount is ", call.sendcount);
    geometry::multiply(bytes, std::max(call.sendcount, call.recvcount));
    return bytes;
}

void distribute(const AlltoallCall& call, const TargetList& targets, std::int64_t elem_bytes,
                std::int64_t* received, MPI_Comm comm) {
    Migration d(comm, targets);
    *received = d.received();
    if (call.in_place()) return d.move_in_place(call.recvbuf, elem_bytes, call.recvcount);
    const ElementColumn column{call.sendbuf, elem_bytes, elem_bytes};
    const ElementBuffer result{
        static_cast<std::byte*>(call.recvbuf), call.recvcount * elem_bytes, {}};
    d.move({&column, 1}, {&result, 1});
}

/// Runs the operation with the targets that `targets_of` makes of the element size.
template <class TargetsOf>
int run_alltoall(const AlltoallCall& call, std::int64_t* received, MPI_Comm comm,
                 TargetsOf&& targets_of) noexcept {
    return guarded([&] {
        std::int64_t elem_bytes = 0;
        TargetList targets;
        mpi::collectively(*mpi::ProcessGroup::of(comm), [&] {
            given(received, "received");
            elem_bytes = checked_elem_bytes(call);
            targets = targets_of(elem_bytes);
            targets.elems = call.sendcount;
        });
        distribute(call, targets, elem_bytes, received, comm);
    });
}

}  // namespace
}  // namespace datamover::capi

int datamover_alltoall_specific_c(void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                                  void* recvbuf, int64_t recvcount, MPI_Datatype recvtype,
                                  int64_t tproc_pos, int64_t* received, MPI_Comm comm) {
    const datamover::capi::AlltoallCall call{sendbuf, sendcount, sendtype,
                                             recvbuf, recvcount, recvtype};
    return run_alltoall(call, received, comm, [&](std::int64_t elem_bytes) {
        if (tproc_pos < 0 || tproc_pos > elem_bytes - static_cast<std::int64_t>(sizeof(int)))
            throw datamover::make_error(datamover::ErrorCode::out_of_range, "the target at byte ",
                                        tproc_pos, " is not inside an element of ", elem_bytes,
                                        " bytes");
        datamover::TargetList targets;
        targets.data = call.elements() ? call.elements() + tproc_pos : nullptr;
        targets.stride_bytes = elem_bytes;
        return targets;
    });
}

int datamover_alltoall_specific(void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                int recvcount, MPI_Datatype recvtype, int tproc_pos, int* received,
                                MPI_Comm comm) {
    int64_t arrived = 0;
    const int code =
        datamover_alltoall_specific_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                      tproc_pos, received ? &arrived : nullptr, comm);
    if (received) {
        constexpr int64_t most = std::numeric_limits<int>::max();
        *received = static_cast<int>(arrived < most ? arrived : most);
    }
    return code;
}

int datamover_alltoall_specific_function(void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                                         void* recvbuf, int64_t recvcount, MPI_Datatype recvtype,
                                         datamover_target_function target, void* context,
                                         int64_t* received, MPI_Comm comm) {
    const datamover::capi::AlltoallCall call{sendbuf, sendcount, sendtype,
                                             recvbuf, recvcount, recvtype};
    return run_alltoall(call, received, comm, [&](std::int64_t elem_bytes) {
        using datamover::Error, datamover::ErrorCode;
        if (!target) throw Error(ErrorCode::invalid_argument, "the target function is NULL");
        datamover::TargetList targets;
        targets.evaluate = [&call, target, context, elem_bytes](
                               std::int64_t first, std::int64_t count, std::int64_t* ranks) {
            for (std::int64_t i = 0; i < count; ++i)
                ranks[i] = target(call.elements() + (first + i) * elem_bytes, context);
        };
        return targets;
    });
}
