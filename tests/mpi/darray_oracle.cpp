// SPDX-License-Identifier: BSD-3-Clause
// MPI_Type_create_darray as an oracle: MPI assigns elements to processes as the library's layouts
// and movers do.
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "datamover/array_part.hpp"
#include "datamover/mover.hpp"
#include "mpi_test.hpp"

namespace datamover {
namespace {

using mpi_test::Draws;
using Elements = std::vector<std::int32_t>;

/// A distribution in MPI's words and in ours.
struct Distribution {
    std::vector<int> shape, kinds, blocks, grid;
    std::string words;
    std::vector<std::int64_t> ranks;  ///< rank of each grid position

    int grid_size() const {
        return std::accumulate(grid.begin(), grid.end(), 1, std::multiplies<>());
    }
    BlockCyclic layout(int nprocs) const {
        BlockCyclicOptions options;
        options.grid = std::vector<std::int64_t>(grid.begin(), grid.end());
        options.ranks = ranks;
        const std::vector<std::int64_t> extents(shape.begin(), shape.end());
        return {Point{std::span<const std::int64_t>(extents)}, words, nprocs, options};
    }
};

Distribution random_distribution(Draws& draws, const std::vector<int>& shape, int nprocs) {
    Distribution d{shape, {}, {}, {}, "", {}};
    int left = nprocs;
    for (const int extent : shape) {
        const int kind = draws.from(0, 4);
        const int p = kind == 0 ? 1 : draws.from(1, left);
        const int even = (extent + p - 1) / p, k = draws.from(1, extent + 1),
                  b = draws.from(even, even + 2);
        left /= p;
        d.grid.push_back(p);
        d.kinds.push_back(kind == 0  ? MPI_DISTRIBUTE_NONE
                          : kind < 3 ? MPI_DISTRIBUTE_BLOCK
                                     : MPI_DISTRIBUTE_CYCLIC);
        d.blocks.push_back(kind == 2 ? b : kind == 4 ? k : MPI_DISTRIBUTE_DFLT_DARG);
        const std::string words[] = {"*", "block", "block(" + std::to_string(b) + ")", "cyclic",
                                     "cyclic(" + std::to_string(k) + ")"};
        d.words += (d.words.empty() ? "" : ", ") + words[kind];
    }
    d.ranks = draws.ranks(nprocs, d.grid_size());
    return d;
}

/// What MPI's type picks of the whole array for one grid position.
Elements picked_by_mpi(const Distribution& d, int position, const Elements& whole) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_darray(d.grid_size(), position, static_cast<int>(d.shape.size()),
                           d.shape.data(), d.kinds.data(), d.blocks.data(), d.grid.data(),
                           MPI_ORDER_C, MPI_INT32_T, &type);
    MPI_Type_commit(&type);
    int bytes = 0;
    MPI_Type_size(type, &bytes);
    Elements picked(static_cast<std::size_t>(bytes) / sizeof(std::int32_t));
    MPI_Sendrecv(whole.data(), 1, type, 0, 0, picked.data(), static_cast<int>(picked.size()),
                 MPI_INT32_T, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    return picked;
}

/// This process's dense row-major part.
ArrayPart dense_part(const BlockCyclic& layout, int rank, Elements& elements) {
    std::vector<UserBlock> blocks;
    const std::int64_t block = layout.block_of(rank);
    if (block >= 0) {
        const MemoryLayout memory = dense_memory(layout, rank, sizeof(std::int32_t));
        blocks.push_back({block,
                          reinterpret_cast<std::byte*>(elements.data()),
                          memory.blocks.front().strides_bytes,
                          {},
                          {}});
    }
    return user_part(layout, blocks, sizeof(std::int32_t), ScalarType::int32);
}

/// What a process holds by MPI's word; nothing outside the grid.
Elements held_by_mpi(const Distribution& d, int rank, const Elements& whole) {
    for (std::size_t position = 0; position < d.ranks.size(); ++position)
        if (d.ranks[position] == rank) return picked_by_mpi(d, static_cast<int>(position), whole);
    return {};
}

TEST(DarrayOracle, RandomPairsOfLayouts) {
    Draws draws(1);
    const int rank = mpi_test::world_rank(), nprocs = mpi_test::world_size();
    mpi_test::Comparisons comparisons;
    for (int round = 0; round < mpi_test::oracle_cases(nprocs); ++round) {
        const int dims = draws.from(1, 4), longest = dims == 1 ? 200 : dims == 2 ? 30 : 9;
        std::vector<int> shape(static_cast<std::size_t>(dims));
        for (int& extent : shape) extent = draws.from(1, longest);
        Elements whole(
            std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()));
        std::iota(whole.begin(), whole.end(), 1);
        const Distribution from = random_distribution(draws, shape, nprocs);
        const Distribution to = random_distribution(draws, shape, nprocs);

        Elements source = held_by_mpi(from, rank, whole);
        const Elements expected = held_by_mpi(to, rank, whole);
        const BlockCyclic source_layout = from.layout(nprocs),
                          destination_layout = to.layout(nprocs);
        const std::string name =
            "case " + std::to_string(round) + ": " + from.words + " to " + to.words;
        const bool sizes_agree =
            source_layout.local_shape(rank).product() == static_cast<std::int64_t>(source.size()) &&
            destination_layout.local_shape(rank).product() ==
                static_cast<std::int64_t>(expected.size());
        ASSERT_TRUE(mpi_test::holds_everywhere(sizes_agree)) << name;
        // An element more, so that also an empty part has an address.
        source.push_back(-2);
        Elements received(expected.size() + 1, -1);
        Mover mover(MPI_COMM_WORLD, redistribute(source_layout, destination_layout),
                    dense_part(source_layout, rank, source),
                    dense_part(destination_layout, rank, received));
        mover();
        received.pop_back();
        comparisons.note(received == expected, name);
    }
    comparisons.expect_all();
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
