// SPDX-License-Identifier: BSD-3-Clause
// Count and checksum of the elements that this process has to receive.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "distribute_case.hpp"

namespace bench {

/// What has to arrive: a sum over all bytes of the elements, kept per target process.
class Oracle {
public:
    Oracle(MPI_Comm comm, const Elements& elements) : elements_(elements) {
        int nprocs = 1, rank = 0;
        MPI_Comm_size(comm, &nprocs);
        MPI_Comm_rank(comm, &rank);
        std::vector<unsigned long long> sums(static_cast<std::size_t>(2 * nprocs), 0);
        for (std::int64_t i = 0; i < elements.count(); ++i) {
            const std::byte* e = elements.bytes.data() + i * elements.elem_bytes;
            std::int32_t target;
            std::memcpy(&target, e + elements.target_offset_bytes, 4);
            sums[static_cast<std::size_t>(2 * target)] += digest(e);
            ++sums[static_cast<std::size_t>(2 * target + 1)];
        }
        MPI_Allreduce(MPI_IN_PLACE, sums.data(), 2 * nprocs, MPI_UNSIGNED_LONG_LONG, MPI_SUM, comm);
        sum_ = sums[static_cast<std::size_t>(2 * rank)];
        count_ = static_cast<std::int64_t>(sums[static_cast<std::size_t>(2 * rank + 1)]);
    }

    bool right(const std::byte* data, std::int64_t count) const {
        unsigned long long sum = 0;
        for (std::int64_t i = 0; i < count; ++i) sum += digest(data + i * elements_.elem_bytes);
        return count == count_ && sum == sum_;
    }

private:
    unsigned long long digest(const std::byte* e) const {
        unsigned long long value = 1469598103934665603ull;
        for (std::int64_t b = 0; b + 4 <= elements_.elem_bytes; b += 4) {
            std::uint32_t word;
            std::memcpy(&word, e + b, 4);
            value = (value ^ word) * 1099511628211ull;
        }
        return value;
    }

    const Elements& elements_;
    unsigned long long sum_ = 0;
    std::int64_t count_ = 0;
};

}  // namespace bench
