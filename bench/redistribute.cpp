// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of block-cyclic redistributions of doubles, compared with hand-written loops and MPI.
// Arguments: the file of cases, seconds per case.
#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "datamover/mover.hpp"
#include "process_contest.hpp"
#include "redistribute_alltoallw.hpp"
#include "redistribute_case.hpp"
#include "redistribute_loops.hpp"
#include "redistribute_plan.hpp"
#include "shared_addresses.hpp"

namespace {

using bench::Case;
using bench::layout_of;
using bench::plan_of;
using bench::ProcessContest;
using datamover::Array;
using datamover::ArrayPart;
using datamover::ElementOrder;
using datamover::Layout;
using datamover::Mover;

/// An array as users bring it: private memory with the same layout as the library's.
struct UserArray {
    std::vector<double> data;
    ArrayPart part;

    UserArray(const Layout& layout, int rank, ElementOrder order) {
        part.memory = datamover::dense_memory(layout, rank, 8, order);
        data.resize(static_cast<std::size_t>(part.memory.end_bytes / 8) + 1);
        part.base = reinterpret_cast<std::byte*>(data.data());
        part.layout = layout;
        part.elem_bytes = 8;
    }
};

/// One case with all its arrays and contenders.
class Field {
public:
    Field(MPI_Comm comm, const Case& c, double seconds)
        : comm_(comm),
          case_(c),
          contest_(comm, c.name, "move", c.bytes(), seconds),
          order_(c.column_major ? ElementOrder::column_major : ElementOrder::row_major) {
        MPI_Comm_rank(comm, &rank_);
        MPI_Comm_size(comm, &size_);
        const Layout source = layout_of(c.source, size_),
                     destination = layout_of(c.destination, size_);
        source_ = Array(comm, source, 8, {datamover::ScalarType::opaque, order_, {}, {}});
        destination_ = Array(comm, destination, 8, {datamover::ScalarType::opaque, order_, {}, {}});
        user_source_ = std::make_unique<UserArray>(source, rank_, order_);
        user_destination_ = std::make_unique<UserArray>(destination, rank_, order_);
        bench::fill_source(c, rank_, doubles(source_.part()));
        bench::fill_source(c, rank_, user_source_->data.data());
    }

    void run() {
        for (const char* transport : {"shared", "p2p", "auto"})
            add_mover(transport, "library", source_.part(), destination_.part());
        for (const char* transport : {"read", "staged", "p2p", "auto"})
            add_mover(transport, "user", user_source_->part, user_destination_->part);
        add_mover("auto", "bounded", user_source_->part, user_destination_->part, 1 << 20);
        add_loops();
        add_alltoallw();
        add_memcpy();
        contest_.run();
    }

private:
    static double* doubles(const ArrayPart& part) { return reinterpret_cast<double*>(part.base); }

    ProcessContest::Check check_of(const ArrayPart& destination) const {
        double* data = doubles(destination);
        return {[this, data] { bench::clear_destination(case_, rank_, data); },
                [this, data] { return bench::destination_right(case_, rank_, data); }};
    }

    void add_mover(const std::string& transport, const char* memory, const ArrayPart& source,
                   const ArrayPart& destination, std::int64_t max_bytes = 0) {
        double setup = 0;
        contest_.add_made(
            "datamover:" + transport + ":" + memory,
            [&]() -> std::function<void()> {
                const double start = MPI_Wtime();
                const auto plan = plan_of(case_, size_);
                datamover::MoverOptions options;
                options.transport = transport;
                options.max_bytes = max_bytes;
                Mover mover(comm_, plan, source, destination, options);
                setup = MPI_Wtime() - start;
                return [mover]() mutable { mover(); };
            },
            check_of(destination), [&] { return setup; });
    }

    void add_loops() {
        const auto from = bench::reach_all(comm_, source_, keep_);
        const auto to = bench::reach_all(comm_, destination_, keep_);
        int reached = !from.empty() && !to.empty();
        MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MIN, comm_);
        if (!reached) return contest_.leave_out("loop", "there is no shared memory");
        bench::SharedArrays arrays;
        for (std::byte* p : from) arrays.source.push_back(reinterpret_cast<const double*>(p));
        for (std::byte* p : to) arrays.destination.push_back(reinterpret_cast<double*>(p));
        for (auto& [name, loop] : bench::hand_loops(case_, rank_, size_, arrays))
            contest_.add(name, loop, check_of(destination_.part()));
    }

    void add_alltoallw() {
        const double start = MPI_Wtime();
        auto exchange = std::make_shared<bench::Alltoallw>(comm_, case_);
        const double setup = MPI_Wtime() - start;
        const double* from = user_source_->data.data();
        double* to = user_destination_->data.data();
        contest_.add(
            "alltoallw", [=] { (*exchange)(from, to); }, check_of(user_destination_->part),
            [=] { return setup; });
    }

    /// The same bytes, dealt evenly to the processes, from and to private memory.
    void add_memcpy() {
        const auto share = static_cast<std::size_t>(case_.bytes() / 8 / size_);
        if (share_from_.size() < share) {
            share_from_.assign(share, 1.0);
            share_to_.assign(share, 0.0);
        }
        contest_.add(
            "memcpy",
            [this, share] { std::memcpy(share_to_.data(), share_from_.data(), share * 8); },
            {[] {}, [] { return true; }});
    }

    MPI_Comm comm_;
    const Case& case_;
    ProcessContest contest_;
    ElementOrder order_;
    int rank_ = 0, size_ = 1;
    Array source_, destination_;
    std::unique_ptr<UserArray> user_source_, user_destination_;
    std::vector<double> share_from_, share_to_;
    std::vector<std::shared_ptr<void>> keep_;
};

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        bench::print_header(MPI_COMM_WORLD);
        const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
        for (const Case& c : bench::read_cases(argc > 1 ? argv[1] : ""))
            Field(MPI_COMM_WORLD, c, seconds).run();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "redistribute: %s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
