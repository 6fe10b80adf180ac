// SPDX-License-Identifier: BSD-3-Clause
// MPI windows: the communicators that share one, and the limit on their number.
#include "mpi/window.hpp"

#include <mpi.h>

#include <string>

#include "mpi_test.hpp"

namespace datamover::mpi {
namespace {

constexpr int made_at_once = 30;

/// The processes of the world from `first` on, the last one first.
class Reversed {
public:
    explicit Reversed(int first) {
        const int rank = mpi_test::world_rank();
        MPI_Comm_split(MPI_COMM_WORLD, rank < first, -rank, &comm_);
    }
    ~Reversed() { MPI_Comm_free(&comm_); }
    Reversed(const Reversed&) = delete;
    Reversed& operator=(const Reversed&) = delete;
    operator MPI_Comm() const { return comm_; }

private:
    MPI_Comm comm_ = MPI_COMM_NULL;
};

TEST(Windows, ServeCommunicatorsOfSomeOfTheirProcesses) {
    const int size = mpi_test::world_size();
    if (size == 1) return;
    const auto world = ProcessGroup::of(MPI_COMM_WORLD);
    const GroupWindow& all = window_of(*world);
    for (int first = 0; first < size; ++first) {
        const Reversed comm(first);
        const auto group = ProcessGroup::of(comm);
        const GroupWindow& some = window_of(*group);
        EXPECT_EQ(some.window, all.window);
        ASSERT_EQ(static_cast<int>(some.ranks.size()), group->size());
        for (int rank = 0; rank < group->size(); ++rank) {
            const int place = group->size() - 1 - rank;
            EXPECT_EQ(some.ranks[static_cast<std::size_t>(rank)],
                      mpi_test::world_rank() < first ? place : first + place);
        }
    }
}

/// Communicators without a common process may have the same number in MPI.
TEST(Windows, AreMadeByTwoCommunicatorsAtOnce) {
    const int rank = mpi_test::world_rank();
    if (mpi_test::world_size() < 4) return;
    for (int i = 0; i < made_at_once; ++i) {
        MPI_Comm half = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        {
            const auto group = ProcessGroup::of(half);
            MPI_Barrier(MPI_COMM_WORLD);
            const auto window = window_of(*group).window;
            window->spoil();  // the next one is new
        }
        MPI_Comm_free(&half);
    }
}

TEST(Windows, AreNotMadeWithoutEnd) {
    if (mpi_test::world_size() == 1) return;
    constexpr int most = 1000;
    int made = mpi_test::world_size() < 4 ? 0 : made_at_once;
    std::string refusal;
    while (made < most && refusal.empty()) {
        const mpi_test::OwnComm comm;
        try {
            window_of(*ProcessGroup::of(comm)).window->spoil();
            ++made;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::unsupported);
            refusal = e.what();
        }
    }
    EXPECT_EQ(made, 512);  // the first of them made by the first test
    EXPECT_NE(refusal.find("512 windows"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace datamover::mpi

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
