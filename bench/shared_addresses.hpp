// SPDX-License-Identifier: BSD-3-Clause
// Addresses of the shared memory of other processes, for hand-written loops.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datamover/array.hpp"
#include "memory/segment_pool.hpp"

namespace bench {

/// The addresses, here, of every process's part of a library array; empty where they cannot be
/// reached. The hand-written loops run on the same memory as the movers.
inline std::vector<std::byte*> reach_all(MPI_Comm comm, const datamover::Array& array,
                                         std::vector<std::shared_ptr<void>>& keep) {
    int size = 1, rank = 0;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    constexpr std::size_t words = 8;
    std::vector<std::int64_t> mine;
    datamover::memory::put_offer(mine, array.part().allocation.get());
    mine.resize(words);
    std::vector<std::int64_t> all(static_cast<std::size_t>(size) * words);
    MPI_Allgather(mine.data(), words, MPI_INT64_T, all.data(), words, MPI_INT64_T, comm);
    std::vector<std::byte*> addresses;
    for (int p = 0; p < size; ++p) {
        datamover::memory::OfferReader offer{
            std::span{all}.subspan(static_cast<std::size_t>(p) * words, words)};
        const auto place = offer.shared_place();
        if (!place) return {};
        if (p == rank) {
            addresses.push_back(array.part().base);
            continue;
        }
        auto segment = datamover::memory::SegmentMap::of_process().open(place->name);
        addresses.push_back(segment->data() + place->offset_bytes);
        keep.push_back(segment);
    }
    return addresses;
}

}  // namespace bench
