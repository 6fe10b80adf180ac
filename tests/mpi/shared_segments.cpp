// SPDX-License-Identifier: BSD-3-Clause
// Shared segments: zero, aligned for large pages, and the same memory on all processes of a node.
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/large_pages.hpp"
#include "memory/shared_segment.hpp"
#include "mpi_test.hpp"

using namespace datamover::memory;

namespace {

bool begins_at_large_page(const SharedSegment& segment) {
    return reinterpret_cast<std::uintptr_t>(segment.data()) % large_page_bytes == 0;
}

/// A name as numbers, from one process to all.
SegmentName broadcast(SegmentName name, int root) {
    std::array<std::int64_t, 6> words{name.pid,   name.fd,           name.device,
                                      name.inode, name.offset_bytes, name.bytes};
    MPI_Bcast(words.data(), 6, MPI_INT64_T, root, MPI_COMM_WORLD);
    return {words[0], words[1], words[2], words[3], words[4], words[5]};
}

/// Where to look at: both ends, both sides of every large page's end, and some places between.
std::vector<std::int64_t> places(std::int64_t bytes, mpi_test::Draws& draws) {
    std::vector<std::int64_t> places{0, bytes - 1};
    for (std::int64_t end = large_page_bytes; end < bytes; end += large_page_bytes)
        places.insert(places.end(), {end - 1, end});
    for (int i = 0; i < 100; ++i) places.push_back(draws.from(0, static_cast<int>(bytes) - 1));
    return places;
}

std::byte value_at(std::int64_t place, int root) {
    return static_cast<std::byte>(1 + (place / 4096 + place + root) % 255);
}

TEST(SharedSegments, AreTheSameMemoryOnAllProcesses) {
    mpi_test::Draws draws(1);
    mpi_test::Comparisons comparisons;
    for (int i = 0; i < 6 * mpi_test::case_factor(); ++i) {
        const int root = draws.from(0, mpi_test::world_size() - 1);
        const std::int64_t bytes = draws.one_in(3) ? draws.from(1, 100'000)
                                   : draws.one_in(2)
                                       ? draws.from(1, 20) * large_page_bytes
                                       : draws.from(1, 40 * static_cast<int>(large_page_bytes));
        const bool owns = mpi_test::world_rank() == root;
        std::shared_ptr<SharedSegment> segment;
        if (owns) segment = SharedSegment::create(bytes);
        const SegmentName name = broadcast(owns ? segment->name() : SegmentName{}, root);
        if (!owns) segment = SharedSegment::open(name);
        if (bytes >= large_page_bytes)
            comparisons.note(begins_at_large_page(*segment), "where a segment begins");
        const auto looked_at = places(bytes, draws);
        for (const std::int64_t place : looked_at)
            comparisons.note(segment->data()[place] == std::byte{0}, "a new segment is not zero");
        MPI_Barrier(MPI_COMM_WORLD);
        if (owns)
            for (const std::int64_t place : looked_at)
                segment->data()[place] = value_at(place, root);
        MPI_Barrier(MPI_COMM_WORLD);
        for (const std::int64_t place : looked_at)
            comparisons.note(segment->data()[place] == value_at(place, root),
                             "what the owner wrote");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    comparisons.expect_all();
}

}  // namespace

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
