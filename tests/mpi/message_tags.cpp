// SPDX-License-Identifier: BSD-3-Clause
// Message tags: no two movers of a communicator have the same, even if MPI has few.
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datamover/array_part.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/mover.hpp"
#include "mpi/message_tags.hpp"
#include "mpi_test.hpp"
#include "transport/transport.hpp"

namespace {

/// As many movers as may have tags at a time.
constexpr int most_movers = 6;
int largest_tag = 0;

}  // namespace

extern "C" int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* is_set) {
    const int code = PMPI_Comm_get_attr(comm, key, value, is_set);
    if (key == MPI_TAG_UB) *static_cast<int**>(value) = &largest_tag;
    return code;
}

namespace datamover {
namespace {

int tags_of_a_mover() {
    return transport::BindContext::tags_per_kind *
           static_cast<int>(transport::transport_kinds().size());
}

/// Every process sends an array to the next one, in many short messages.
class Shift {
public:
    Shift(MPI_Comm comm, std::int64_t elems)
        : sent_(static_cast<std::size_t>(elems)), received_(sent_.size()) {
        const std::int64_t size = mpi_test::world_size();
        const FloorPlan from =
            FloorPlan::uniform(Region::from_shape({elems * size}), Point{size}, size);
        Map next;
        for (std::int64_t i = 0; i < size; ++i) next.push_back((i + 1) % size);
        const FloorPlan to = from.with_owners(next);
        MoverOptions options;
        options.transport = "p2p:64";
        mover_ = std::make_unique<Mover>(comm, redistribute(from, to),
                                         part(from, mpi_test::world_rank(), sent_),
                                         part(to, last(), received_), options);
    }

    void start(std::int64_t step) {
        for (std::size_t i = 0; i < sent_.size(); ++i)
            sent_[i] = value(step, mpi_test::world_rank(), i);
        mover_->start();
    }
    bool is_right_after_wait(std::int64_t step) {
        mover_->wait(50.0);
        for (std::size_t i = 0; i < sent_.size(); ++i)
            if (received_[i] != value(step, last(), i)) return false;
        return true;
    }

private:
    static int last() {
        return (mpi_test::world_rank() + mpi_test::world_size() - 1) % mpi_test::world_size();
    }
    std::int64_t value(std::int64_t step, int rank, std::size_t i) const {
        const auto elems = static_cast<std::int64_t>(sent_.size());
        return ((step * 100 + rank) * 1000 + elems) * 1000 + static_cast<std::int64_t>(i);
    }
    static ArrayPart part(const FloorPlan& layout, std::int64_t block,
                          std::vector<std::int64_t>& memory) {
        const UserBlock own{block,
                            reinterpret_cast<std::byte*>(memory.data()),
                            Point{sizeof(std::int64_t)},
                            {},
                            {}};
        return user_part(layout, {&own, 1}, sizeof(std::int64_t));
    }

    std::vector<std::int64_t> sent_, received_;
    std::unique_ptr<Mover> mover_;
};

using Shifts = std::vector<std::unique_ptr<Shift>>;

/// Processes drop movers at different times, as a garbage collector does.
TEST(MessageTags, OfMoversInFlightDiffer) {
    largest_tag = mpi::first_mover_tag - 1 + most_movers * tags_of_a_mover() + 3;
    const mpi_test::OwnComm comm;
    mpi_test::Draws draws(1);
    mpi_test::Comparisons comparisons;
    Shifts used, dropped;
    for (int step = 0; step < 60 * mpi_test::case_factor(); ++step) {
        if (used.size() + dropped.size() < most_movers)
            used.push_back(std::make_unique<Shift>(comm, draws.from(20, 60)));
        for (const auto& shift : used) shift->start(step);
        for (const auto& shift : used)
            comparisons.note(shift->is_right_after_wait(step), "step " + std::to_string(step));
        for (auto& shift : dropped)
            if (draws.from(0, mpi_test::world_size()) == mpi_test::world_rank()) shift.reset();
        if (draws.one_in(3)) dropped.clear();
        const int number = draws.from(0, 2 * most_movers);
        if (number >= static_cast<int>(used.size())) continue;
        dropped.push_back(std::move(used[static_cast<std::size_t>(number)]));
        used.erase(used.begin() + number);
    }
    comparisons.expect_all();
}

/// The message of the error of one more mover; empty if it can be made.
std::string refusal(MPI_Comm comm, Shifts& shifts) {
    try {
        shifts.push_back(std::make_unique<Shift>(comm, 30));
        return {};
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::unsupported) << e.what();
        return e.what();
    }
}

TEST(MessageTags, AllInUseAreAnErrorOnAllProcesses) {
    largest_tag = mpi::first_mover_tag - 1 + most_movers * tags_of_a_mover();
    const mpi_test::OwnComm comm;
    Shifts shifts;
    for (int turn = 0; turn < 3; ++turn) {
        while (shifts.size() < most_movers) ASSERT_EQ(refusal(comm, shifts), "");
        EXPECT_NE(refusal(comm, shifts).find(std::to_string(most_movers * tags_of_a_mover())),
                  std::string::npos);
        // One process alone frees nothing for the others.
        const std::size_t freed = static_cast<std::size_t>(turn);
        if (mpi_test::world_rank() > 0) shifts[freed].reset();
        EXPECT_NE(refusal(comm, shifts), "");
        shifts[freed].reset();
        EXPECT_EQ(refusal(comm, shifts), "");
        EXPECT_NE(refusal(comm, shifts), "");
        std::erase(shifts, nullptr);
        for (const auto& shift : shifts) shift->start(turn);
        for (const auto& shift : shifts) EXPECT_TRUE(shift->is_right_after_wait(turn));
        shifts.erase(shifts.begin() + 1, shifts.end() - turn);
    }
}

}  // namespace
}  // namespace datamover

int main(int argc, char** argv) {
    return mpi_test::run(argc, argv);
}
