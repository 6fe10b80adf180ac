// SPDX-License-Identifier: BSD-3-Clause
// How do blocks of 64-bit sizes go from all processes to all others in one call?
#include "all_to_all.hpp"

#include <limits>
#include <utility>

#include "checked_call.hpp"

namespace datamover::mpi {
namespace {

template <class T>
std::vector<T> converted(const std::vector<std::int64_t>& values) {
    std::vector<T> result;
    for (const std::int64_t value : values)
        if constexpr (sizeof(T) < sizeof(value))
            result.push_back(to_int(value, "number of elements"));
        else
            result.push_back(static_cast<T>(value));
    return result;
}

}  // namespace

Blocks Blocks::behind(std::vector<std::int64_t> counts) {
    Blocks blocks;
    std::int64_t start = 0;
    for (const std::int64_t count : counts) {
        blocks.starts.push_back(start);
        start += count;
    }
    blocks.counts = std::move(counts);
    return blocks;
}

std::int64_t Blocks::total() const {
    return counts.empty() ? 0 : starts.back() + counts.back();
}

bool all_to_all_reaches(std::int64_t elems) {
    return MPI_VERSION >= 4 || elems <= std::numeric_limits<int>::max();
}

void all_to_all(std::shared_ptr<const void> memory, const std::byte* send, const Blocks& sent,
                std::byte* receive, const Blocks& received, std::int64_t elem_bytes,
                const ProcessGroup& group) {
#if MPI_VERSION >= 4
    using Count = MPI_Count;
    using Start = MPI_Aint;
    const auto begin = MPI_Ialltoallv_c;
#else
    using Count = int;
    using Start = int;
    const auto begin = MPI_Ialltoallv;
#endif
    /// What MPI may look at until the operation is complete.
    struct Arguments {
        std::shared_ptr<const void> memory;
        std::vector<Count> send_counts, receive_counts;
        std::vector<Start> send_starts, receive_starts;
    };
    const auto a = std::make_shared<Arguments>(Arguments{
        std::move(memory), converted<Count>(sent.counts), converted<Count>(received.counts),
        converted<Start>(sent.starts), converted<Start>(received.starts)});
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(to_int(elem_bytes, "element size"), MPI_BYTE, &type),
          "MPI_Type_contiguous");
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Type_commit(&type);
    if (code == MPI_SUCCESS)
        code = begin(send, a->send_counts.data(), a->send_starts.data(), type, receive,
                     a->receive_counts.data(), a->receive_starts.data(), type, group.comm(),
                     &request);
    // The operation keeps it until it is complete.
    MPI_Type_free(&type);
    try {
        check(code, "MPI_Ialltoallv");
        group.complete(request, "MPI_Ialltoallv");
    } catch (...) {
        if (request != MPI_REQUEST_NULL) group.abandon(a);
        throw;
    }
}

}  // namespace datamover::mpi
