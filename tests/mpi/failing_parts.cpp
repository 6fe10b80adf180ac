// SPDX-License-Identifier: BSD-3-Clause
// Failure of one MPI call in collective operations of parts of the processes, including the calls
// before MPI creates the communicators of the parts, in a blocking call.
#include "failing_mpi.hpp"

#include <vector>

#include "datamover/array.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/mover.hpp"

namespace datamover {
namespace {

constexpr std::int64_t part_size = 3;
constexpr std::int64_t elems = 8192;  ///< of a message: shorter ones do not go in parts
constexpr double deadline_seconds = 50;

/// Three processes each are a part; in one mover the first of each part sends to the others, in one
/// all do.
struct Movement {
    struct Carried {
        std::int64_t senders;  ///< of a part
        Array from, to;
        Mover mover;
    };
    std::vector<Carried> all_carried;

    explicit Movement(MPI_Comm comm) {
        const std::int64_t size = mpi_test::world_size();
        const FloorPlan own = FloorPlan::uniform(Region::from_shape({size * elems}), {size}, size);
        const FloorPlan all =
            FloorPlan::uniform(Region::from_shape({size * part_size * elems}), {size}, size);
        MoverOptions options;
        options.transport = "collective";
        for (const std::int64_t senders : {std::int64_t{1}, part_size}) {
            Carried& carried = all_carried.emplace_back();
            carried.senders = senders;
            carried.from = Array(comm, own, sizeof(std::int64_t));
            carried.to = Array(comm, all, sizeof(std::int64_t));
            MotionPlan plan(own, all);
            for (std::int64_t s = 0; s < size; ++s)
                for (std::int64_t d = 0; d < size; ++d)
                    if (s != d && goes(s, d, senders))
                        plan.add_section(s, section(s), d, section(place(s, d)));
            carried.mover = Mover(comm, plan, carried.from, carried.to, options);
        }
    }

    /// Where MPI alone joins the processes, makes the communicators of the parts, which blocks.
    static void prepare(MPI_Comm comm) {
        if (std::ssize(mpi::ProcessGroup::of(comm)->node().ranks) < mpi_test::world_size())
            static_cast<void>(Movement(comm));
    }

    static bool goes(std::int64_t from, std::int64_t to, std::int64_t senders) {
        return from / part_size == to / part_size && from % part_size < senders;
    }
    /// Where a process has what another one sent.
    static std::int64_t place(std::int64_t from, std::int64_t at) {
        return at * part_size + from % part_size;
    }
    static Region section(std::int64_t number) {
        return Region(Point{number * elems}, Point{(number + 1) * elems});
    }
    static std::int64_t value(int round, std::int64_t from, std::int64_t i) {
        return (round * 100 + from) * elems + i;
    }
    static std::int64_t* local(const Array& array) {
        return reinterpret_cast<std::int64_t*>(array.origin(array.rank()));
    }

    void run(int round) {
        const std::int64_t me = mpi_test::world_rank();
        for (Carried& carried : all_carried) {
            std::int64_t* values = local(carried.from);
            for (std::int64_t i = 0; i < elems; ++i) values[i] = value(round, me, i);
        }
        for (Carried& carried : all_carried) carried.mover.start();
        wait();
        for (const Carried& carried : all_carried)
            for (std::int64_t from = 0; from < mpi_test::world_size(); ++from) {
                if (from == me || !goes(from, me, carried.senders)) continue;
                const std::int64_t* values = local(carried.to) + from % part_size * elems;
                for (std::int64_t i = 0; i < elems; ++i)
                    ASSERT_EQ(values[i], value(round, from, i));
            }
    }

    /// All end, whatever the first one throws.
    void wait() {
        std::optional<Error> first;
        for (Carried& carried : all_carried) {
            try {
                carried.mover.wait(deadline_seconds);
            } catch (const Error& e) {
                if (!first) first = e;
            }
        }
        if (first) throw *first;
    }
};

/// With so few processes there is one part, of all.
bool has_parts() {
    return mpi_test::world_size() > part_size;
}

class FailingParts : public ::testing::TestWithParam<Failure> {};

TEST_P(FailingParts, AreToldToAllAndNothingHangsOrLeaks) {
    if (!has_parts()) GTEST_SKIP() << "there is one part";
    constexpr int least = 8;  // two operations each of two movers, and the tests of these
    run_all_cases<Movement>(GetParam(), mpi_test::case_factor() > 1 ? 1 : 2, least);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingParts,
                         ::testing::Values(Failure::instead, Failure::afterwards),
                         [](const auto& kind) {
                             return kind.param == Failure::instead ? "Instead" : "Afterwards";
                         });

TEST(FailingSplit, IsTheSameErrorForAllAndCanBeTriedAgain) {
    if (!has_parts()) GTEST_SKIP() << "there is one part";
    for (int culprit = 0; culprit < mpi_test::world_size(); ++culprit) {
        MPI_Comm comm = MPI_COMM_NULL;
        PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
        mpi::ProcessGroup::of(comm);
        injector = {};
        injector.split_fails = mpi_test::world_rank() == culprit;
        std::optional<Movement> work;
        const Outcome outcome = outcome_of(comm, work);
        EXPECT_EQ(injector.failed, mpi_test::world_rank() == culprit);
        EXPECT_EQ(outcome.code, static_cast<int>(ErrorCode::mpi)) << outcome.text;
        EXPECT_EQ(code_of_another_try<Movement>(comm), 0);
        PMPI_Barrier(MPI_COMM_WORLD);
        if (injector.lost != MPI_COMM_NULL) PMPI_Comm_free(&injector.lost);
        PMPI_Comm_free(&comm);
    }
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
