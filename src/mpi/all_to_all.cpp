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

void all_to_all(const std::byte* send, const Blocks& sent, std::byte* receive,
                const Blocks& received, std::int64_t elem_bytes, MPI_Comm comm) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(to_int(elem_bytes, "element size"), MPI_BYTE, &type),
          "MPI_Type_contiguous");
    check(MPI_Type_commit(&type), "MPI_Type_commit");
#if MPI_VERSION >= 4
    const auto send_counts = converted<MPI_Count>(sent.counts);
    const auto receive_counts = converted<MPI_Count>(received.counts);
    const auto send_starts = converted<MPI_Aint>(sent.starts);
    const auto receive_starts = converted<MPI_Aint>(received.starts);
    const int code = MPI_Alltoallv_c(send, send_counts.data(), send_starts.data(), type, receive,
                                     receive_counts.data(), receive_starts.data(), type, comm);
#else
    const auto send_counts = converted<int>(sent.counts);
    const auto receive_counts = converted<int>(received.counts);
    const auto send_starts = converted<int>(sent.starts);
    const auto receive_starts = converted<int>(received.starts);
    const int code = MPI_Alltoallv(send, send_counts.data(), send_starts.data(), type, receive,
                                   receive_counts.data(), receive_starts.data(), type, comm);
#endif
    MPI_Type_free(&type);
    check(code, "MPI_Alltoallv");
}

std::vector<std::int64_t> all_to_all_numbers(const std::vector<std::int64_t>& to_each,
                                             MPI_Comm comm) {
    std::vector<std::int64_t> from_each(to_each.size());
    check(MPI_Alltoall(to_each.data(), 1, MPI_INT64_T, from_each.data(), 1, MPI_INT64_T, comm),
          "MPI_Alltoall");
    return from_each;
}

}  // namespace datamover::mpi
