// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of filling all ghosts of cubic blocks, compared with loops in shared memory and
// hand-written messages.
// Arguments: seconds per case, then per case a name, the points along an edge, the width of the
// ghosts, and the blocks of a process along each dimension.
#include <mpi.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "datamover/mover.hpp"
#include "halo_loops.hpp"
#include "halo_values.hpp"
#include "latency_messages.hpp"
#include "latency_plan.hpp"
#include "process_contest.hpp"
#include "shared_addresses.hpp"

namespace {

using bench::BlockGrid;
using bench::Exchange;
using bench::ExchangeCounters;
using bench::Faces;
using bench::LocalBlocks;
using bench::ProcessContest;
using datamover::Array;
using datamover::ArrayPart;
using datamover::FloorPlan;
using datamover::Mover;
using datamover::Point;
using datamover::Region;

/// The blocks of hand-written code, as they are brought to the library.
ArrayPart part_of(LocalBlocks& blocks, const BlockGrid& grid, const FloorPlan& plan, int rank) {
    const Point ghosts = Point::filled(3, grid.width);
    ArrayPart part;
    part.base = reinterpret_cast<std::byte*>(blocks.data.data());
    part.layout = plan;
    part.elem_bytes = sizeof(double);
    part.memory = datamover::dense_memory(plan, rank, part.elem_bytes,
                                          datamover::ElementOrder::row_major, ghosts, ghosts);
    // Its blocks begin at multiples of 64 bytes; these follow each other.
    for (datamover::BlockMemory& m : part.memory.blocks)
        m.offset_bytes =
            (blocks.block(m.block) - blocks.data.data() + grid.origin_elems()) * part.elem_bytes;
    part.memory.end_bytes = static_cast<std::int64_t>(blocks.data.size()) * part.elem_bytes;
    return part;
}

/// One case with all its arrays and contenders.
class Field {
public:
    Field(MPI_Comm comm, const std::string& name, const BlockGrid& grid, double seconds)
        : comm_(comm),
          grid_(grid),
          contest_(comm, name, "exchange", bench::ghost_bytes(grid), seconds),
          rank_(number_of(comm, MPI_Comm_rank)),
          size_(number_of(comm, MPI_Comm_size)),
          plan_(bench::floor_plan_of(grid, size_)),
          local_(grid, rank_) {
        const Point ghosts = Point::filled(3, grid.width);
        datamover::ArrayOptions options;
        options.ghost_lower = options.ghost_upper = ghosts;
        library_ = Array(comm, plan_, sizeof(double), options);
        contest_.warm_turns();
    }

    void run() {
        add_mover("datamover:auto:library", library_.part(), check_of([this](std::int64_t b) {
                      return reinterpret_cast<double*>(library_.origin(b)) - grid_.origin_elems();
                  }));
        add_mover("datamover:auto:user", part_of(local_, grid_, plan_, rank_), check_of_local());
        add_loops();
        add_messages();
        contest_.run();
    }

private:
    /// Of a process, in one exchange; a hundred thousand take MPICH seconds.
    static constexpr std::size_t most_messages = 10'000;

    static int number_of(MPI_Comm comm, int (*ask)(MPI_Comm, int*)) {
        int number = 0;
        ask(comm, &number);
        return number;
    }

    template <class BlockOf>
    ProcessContest::Check check_of(BlockOf block_of) const {
        return {[=, this] { bench::fill_blocks(grid_, rank_, block_of); },
                [=, this] { return bench::blocks_right(grid_, rank_, block_of); }};
    }
    ProcessContest::Check check_of_local() {
        return check_of([this](std::int64_t b) { return local_.block(b); });
    }

    void add_mover(const std::string& name, const ArrayPart& part,
                   const ProcessContest::Check& check) {
        double setup = 0;
        contest_.add_made(
            name,
            [&]() -> std::function<void()> {
                const double start = MPI_Wtime();
                const Point width = Point::filled(3, grid_.width);
                const auto plan = datamover::halo(plan_, width, width, plan_.bounding_box());
                Mover mover(comm_, plan, part, part);
                setup = MPI_Wtime() - start;
                return [mover]() mutable { mover(); };
            },
            check, [&] { return setup; });
    }

    /// The counters of all processes; empty where they share no memory.
    std::vector<ExchangeCounters*> counters() {
        const FloorPlan one_each = FloorPlan::uniform(Region::from_shape({size_}), {size_}, size_);
        counters_ = Array(comm_, one_each, sizeof(ExchangeCounters));
        new (counters_.part().base) ExchangeCounters;
        std::vector<ExchangeCounters*> all;
        for (std::byte* p : bench::reach_all(comm_, counters_, keep_))
            all.push_back(reinterpret_cast<ExchangeCounters*>(p));
        return all;
    }

    std::set<int> peers() const {
        std::set<int> peers;
        for (const bench::Face& f : grid_.faces()) {
            if (f.source_rank == rank_) peers.insert(f.destination_rank);
            if (f.destination_rank == rank_) peers.insert(f.source_rank);
        }
        peers.erase(rank_);
        return peers;
    }

    void add_loops() {
        const auto bases = bench::reach_all(comm_, library_, keep_);
        const auto all = counters();
        int reached = !bases.empty() && !all.empty();
        MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MIN, comm_);
        if (!reached) return contest_.leave_out("loop", "there is no shared memory");
        const Point ghosts = Point::filled(3, grid_.width);
        bench::SharedBlocks blocks{grid_, rank_, {}};
        blocks.stored.resize(static_cast<std::size_t>(grid_.num_blocks()));
        for (int p = 0; p < size_; ++p)
            for (const auto& m :
                 datamover::dense_memory(plan_, p, sizeof(double),
                                         datamover::ElementOrder::row_major, ghosts, ghosts)
                     .blocks)
                blocks.stored[static_cast<std::size_t>(m.block)] =
                    reinterpret_cast<double*>(bases[static_cast<std::size_t>(p)] + m.offset_bytes) -
                    grid_.origin_elems();
        meeting_ = std::make_unique<bench::Meeting>(all, rank_, peers());
        const auto check = check_of([blocks](std::int64_t b) { return blocks.at(b); });
        for (auto& [name, loop] : bench::halo_loops(blocks, *meeting_))
            contest_.add(name, loop, check);
    }

    void add_messages() {
        const Faces faces = grid_.faces();
        using Make = Exchange (*)(MPI_Comm, const Faces&, LocalBlocks&);
        const auto add = [&](const std::string& name, Make make) {
            add_exchange(name, [&] { return make(comm_, faces, local_); });
        };
        const std::pair<const char*, Make> message_per_face[] = {
            {"persistent:faces", bench::persistent_faces},
            {"persistent:datatypes", bench::persistent_datatypes}};
        for (const auto& [name, make] : message_per_face)
            if (faces.size() <= most_messages * static_cast<std::size_t>(size_))
                add(name, make);
            else
                contest_.leave_out(name, "too many messages: one for each side of each block");
        add("persistent:merged", bench::persistent_merged);
        add("persistent:merged_datatypes", bench::persistent_merged_datatypes);
        add_exchange("phases", [&] { return phases(); });
    }

    template <class Make>
    void add_exchange(const std::string& name, Make&& make) {
        const double start = MPI_Wtime();
        const Exchange exchange = make();
        const double setup = MPI_Wtime() - start;
        contest_.add(name, exchange, check_of_local(), [=] { return setup; });
    }

    /// Along one dimension after the other, to two neighbours each time: corners travel along.
    Exchange phases() {
        std::vector<Exchange> along;
        for (const int dim : {2, 1, 0})
            along.push_back(bench::persistent_merged(comm_, grid_.faces_along(dim), local_));
        return [along] {
            for (const Exchange& exchange : along) exchange();
        };
    }

    MPI_Comm comm_;
    BlockGrid grid_;
    ProcessContest contest_;
    int rank_, size_;
    FloorPlan plan_;
    LocalBlocks local_;
    Array library_, counters_;
    std::unique_ptr<bench::Meeting> meeting_;
    std::vector<std::shared_ptr<void>> keep_;
};

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(argc, argv, "halo", [&] {
        const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
        for (int a = 2; a + 3 < argc; a += 4)
            Field(MPI_COMM_WORLD, argv[a], bench::halo_grid(MPI_COMM_WORLD, argv + a + 1), seconds)
                .run();
    });
}
