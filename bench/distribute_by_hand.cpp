// SPDX-License-Identifier: BSD-3-Clause
// Hand-written distribution: a counting sort, then MPI_Alltoallv.
#include "distribute_by_hand.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace bench {
namespace {

template <std::int64_t bytes>
void scatter(const std::byte* elements, std::int64_t count, std::int64_t target_offset_bytes,
             std::byte* sorted, std::vector<int>& next) {
    for (std::int64_t i = 0; i < count; ++i) {
        std::int32_t target;
        std::memcpy(&target, elements + i * bytes + target_offset_bytes, 4);
        std::memcpy(sorted + std::int64_t{next[static_cast<std::size_t>(target)]++} * bytes,
                    elements + i * bytes, bytes);
    }
}

}  // namespace

CountingSort::CountingSort(MPI_Comm comm, std::int64_t elem_bytes)
    : comm_(comm), elem_bytes_(elem_bytes) {
    int nprocs = 1;
    MPI_Comm_size(comm, &nprocs);
    for (auto* table : {&send_counts_, &send_starts_, &recv_counts_, &recv_starts_})
        table->resize(static_cast<std::size_t>(nprocs));
    MPI_Type_contiguous(static_cast<int>(elem_bytes), MPI_BYTE, &type_);
    MPI_Type_commit(&type_);
}

CountingSort::~CountingSort() {
    MPI_Type_free(&type_);
}

void CountingSort::sort(const std::byte* elements, std::int64_t count,
                        std::int64_t target_offset_bytes) {
    std::fill(send_counts_.begin(), send_counts_.end(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
        std::int32_t target;
        std::memcpy(&target, elements + i * elem_bytes_ + target_offset_bytes, 4);
        ++send_counts_[static_cast<std::size_t>(target)];
    }
    std::exclusive_scan(send_counts_.begin(), send_counts_.end(), send_starts_.begin(), 0);
    if (sorted_.size() < static_cast<std::size_t>(count * elem_bytes_))
        sorted_.resize(static_cast<std::size_t>(count * elem_bytes_));
    std::vector<int> next = send_starts_;
    const auto loop = elem_bytes_ == 4 ? scatter<4> : scatter<64>;
    loop(elements, count, target_offset_bytes, sorted_.data(), next);
}

std::int64_t CountingSort::run(const std::byte* elements, std::int64_t count,
                               std::int64_t target_offset_bytes, std::vector<std::byte>& result) {
    sort(elements, count, target_offset_bytes);
    MPI_Alltoall(send_counts_.data(), 1, MPI_INT, recv_counts_.data(), 1, MPI_INT, comm_);
    std::exclusive_scan(recv_counts_.begin(), recv_counts_.end(), recv_starts_.begin(), 0);
    const std::int64_t received = recv_starts_.back() + recv_counts_.back();
    if (result.size() < static_cast<std::size_t>(received * elem_bytes_))
        result.resize(static_cast<std::size_t>(received * elem_bytes_));
    MPI_Alltoallv(sorted_.data(), send_counts_.data(), send_starts_.data(), type_, result.data(),
                  recv_counts_.data(), recv_starts_.data(), type_, comm_);
    return received;
}

}  // namespace bench
