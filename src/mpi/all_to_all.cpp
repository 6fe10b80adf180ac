// SPDX-License-Identifier: BSD-3-Clause
// All-to-all exchange with 64-bit sizes.
#include "all_to_all.hpp"

#include <limits>
#include <utility>

#include "byte_message.hpp"
#include "checked_call.hpp"

#if MPI_VERSION >= 4
// Compiled against a newer MPI than it is loaded beside, as in a wheel, this is null.
#pragma weak MPI_Ialltoallv_c
#endif

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

/// What MPI may look at until the operation is complete.
template <class Count, class Start>
struct Arguments {
    std::vector<std::shared_ptr<const void>> memory;
    std::vector<Count> send_counts, receive_counts;
    std::vector<Start> send_starts, receive_starts;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    ~Arguments() {
        if (type != MPI_DATATYPE_NULL && is_running()) MPI_Type_free(&type);
    }
};

/// MPI_Ialltoallv, or the call of MPI 4 with 64-bit counts.
template <class Count, class Start>
using Call = int (*)(const void*, const Count*, const Start*, MPI_Datatype, void*, const Count*,
                     const Start*, MPI_Datatype, MPI_Comm, MPI_Request*);

}  // namespace

bool has_large_counts() {
#if MPI_VERSION >= 4
    return &MPI_Ialltoallv_c != nullptr;
#else
    return false;
#endif
}

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
    return has_large_counts() || elems <= std::numeric_limits<int>::max();
}

void all_to_all(std::vector<std::shared_ptr<const void>> memory, const std::byte* send,
                const Blocks& sent, std::byte* receive, const Blocks& received,
                std::int64_t elem_bytes, const ProcessGroup& group) {
    const auto carry_out = [&]<class Count, class Start>(Call<Count, Start> begin) {
        const auto a = std::make_shared<Arguments<Count, Start>>();
        a->memory = std::move(memory);
        a->send_counts = converted<Count>(sent.counts);
        a->receive_counts = converted<Count>(received.counts);
        a->send_starts = converted<Start>(sent.starts);
        a->receive_starts = converted<Start>(received.starts);
        check(MPI_Type_contiguous(to_int(elem_bytes, "element size"), MPI_BYTE, &a->type),
              "MPI_Type_contiguous");
        check(MPI_Type_commit(&a->type), "MPI_Type_commit");
        const auto begin_it = [&](MPI_Request* request) {
            return begin(send, a->send_counts.data(), a->send_starts.data(), a->type, receive,
                         a->receive_counts.data(), a->receive_starts.data(), a->type, group.comm(),
                         request);
        };
        group.carry_out("MPI_Ialltoallv", a, begin_it, Load::data);
    };
#if MPI_VERSION >= 4
    if (has_large_counts()) return carry_out(&MPI_Ialltoallv_c);
#endif
    carry_out(&MPI_Ialltoallv);
}

}  // namespace datamover::mpi
