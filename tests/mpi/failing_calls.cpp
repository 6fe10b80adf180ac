// SPDX-License-Identifier: BSD-3-Clause
// Failure of one MPI call of a mover on one process.
#include "failing_mpi.hpp"

#include <string>
#include <vector>

#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "datamover/block_cyclic.hpp"
#include "datamover/mover.hpp"
#include "mpi/checked_call.hpp"

namespace datamover {
namespace {

constexpr double deadline_seconds = 50;

/// Movers of the same plan, in flight together: one for each way to use MPI, by messages also in
/// rounds through little memory, and one by what the library prefers.
struct Movement {
    struct Carried {
        std::vector<std::int64_t> received;
        Mover mover;
    };

    BlockCyclic rows, columns;
    std::vector<std::int64_t> sent;
    Array from, to;
    std::vector<Carried> all_carried;
    Mover preferred;

    explicit Movement(MPI_Comm comm)
        : rows({12, 12}, "(cyclic(2), *)", mpi_test::world_size()),
          columns({12, 12}, "(*, cyclic)", mpi_test::world_size()) {
        const int rank = mpi_test::world_rank(), size = mpi_test::world_size();
        sent.resize(static_cast<std::size_t>(rows.local_shape(rank).product()) + 1);
        from = Array(comm, rows, 8);
        to = Array(comm, columns, 8);
        const MotionPlan plan = redistribute(rows, columns);
        MoverOptions options;
        for (const char* transport : {"p2p", "p2p", "datatype", "collective", "get", "put"}) {
            options.transport = transport;
            options.max_bytes = all_carried.empty() ? 0 : 384 * size;
            Carried& carried = all_carried.emplace_back();
            carried.received.resize(static_cast<std::size_t>(columns.local_shape(rank).product()) +
                                    1);
            carried.mover = Mover(comm, plan, dense_part(rows, sent),
                                  dense_part(columns, carried.received), options);
        }
        preferred = Mover(comm, plan, from, to);
    }

    /// Makes the communicator of the neighbours, and the window.
    static void prepare(MPI_Comm comm) { static_cast<void>(Movement(comm)); }

    /// The user's own dense memory; every process has a part.
    static ArrayPart dense_part(const BlockCyclic& layout, std::vector<std::int64_t>& values) {
        const int rank = mpi_test::world_rank();
        std::vector<UserBlock> blocks;
        for (const BlockMemory& block : dense_memory(layout, rank, 8).blocks)
            blocks.push_back({block.block,
                              reinterpret_cast<std::byte*>(values.data()),
                              block.strides_bytes,
                              {},
                              {}});
        return user_part(layout, blocks, 8, ScalarType::int64);
    }

    std::int64_t* local(const Array& array) const {
        const auto blocks = array.layout().blocks_of(array.rank());
        return blocks.empty() ? nullptr
                              : reinterpret_cast<std::int64_t*>(array.origin(blocks.front()));
    }

    template <class Visit>
    static void visit(const BlockCyclic& layout, Visit&& visit) {
        const Point shape = layout.local_shape(mpi_test::world_rank());
        for (std::int64_t i = 0, k = 0; i < shape[0]; ++i)
            for (std::int64_t j = 0; j < shape[1]; ++j, ++k) {
                const Point global = layout.global_index(mpi_test::world_rank(), Point{i, j});
                visit(static_cast<std::size_t>(k), global[0] * 12 + global[1]);
            }
    }

    void run(int round) {
        fill(round);
        start();
        wait();
        check(round);
    }
    void fill(int round) {
        visit(rows, [&](std::size_t k, std::int64_t at) {
            sent[k] = 1000 * round + at;
            local(from)[k] = -1000 * round - at;
        });
    }
    void start() {
        for (Carried& carried : all_carried) carried.mover.start();
        preferred.start();
    }
    void wait() {
        // All end, whatever the first one throws.
        std::optional<Error> first;
        const auto end = [&](Mover& mover) {
            try {
                mover.wait(deadline_seconds);
            } catch (const Error& e) {
                if (!first) first = e;
            }
        };
        for (Carried& carried : all_carried) end(carried.mover);
        end(preferred);
        if (first) throw *first;
    }
    void check(int round) const {
        visit(columns, [&](std::size_t k, std::int64_t at) {
            for (const Carried& carried : all_carried)
                EXPECT_EQ(carried.received[k], 1000 * round + at);
            EXPECT_EQ(local(to)[k], -1000 * round - at);
        });
    }
};

TEST(FailingCall, IsToldInMpisOwnWords) {
    char words[MPI_MAX_ERROR_STRING];
    int length = 0;
    ASSERT_EQ(MPI_Error_string(MPI_ERR_COUNT, words, &length), MPI_SUCCESS);
    try {
        mpi::check(MPI_ERR_COUNT, "MPI_Send");
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.what(),
                  "MPI_Send failed: " + std::string(words, static_cast<std::size_t>(length)));
    }
}

class FailingCalls : public ::testing::TestWithParam<Failure> {};

TEST_P(FailingCalls, AreToldToAllAndNothingHangsOrLeaks) {
    // With more processes, which are slow on few cores, every third or ninth in `make test`.
    const int size = mpi_test::world_size();
    const bool all = size <= 2 || mpi_test::case_factor() > 1;
    run_all_cases<Movement>(GetParam(), all ? 1 : size <= 4 ? 3 : 9);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingCalls,
                         ::testing::Values(Failure::instead, Failure::afterwards),
                         [](const auto& kind) {
                             return kind.param == Failure::instead ? "Instead" : "Afterwards";
                         });

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
