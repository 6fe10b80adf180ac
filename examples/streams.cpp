// SPDX-License-Identifier: BSD-3-Clause
// Stream from a C++ simulation to a C++ analysis while both run. They can be separate programs on
// different numbers of processes; here one program contains both.
// Run: mpiexec -n 4 ./streams
#include <mpi.h>

#include <cstdio>
#include <datamover/datamover.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checked.hpp"

namespace {

using datamover::Array;
using datamover::BlockCyclic;
using datamover::Stream;
using datamover::StreamSource;

constexpr std::int64_t edge = 24, steps = 5;

double value_at(std::int64_t i, std::int64_t j, std::int64_t step) {
    return static_cast<double>((step * edge + i) * edge + j);
}

BlockCyclic square(const char* distribution, MPI_Comm comm) {
    int nprocs = 0;
    MPI_Comm_size(comm, &nprocs);
    return {{edge, edge}, distribution, nprocs};
}

/// Calls visit(i, j, element) for the elements of a part, in global indices.
template <class Visit>
void for_each_element(const Array& array, Visit visit) {
    const BlockCyclic& layout = *array.layout().block_cyclic();
    const auto grid = array.grid<double>(layout.block_of(array.rank()));
    for (std::int64_t i = 0; i < grid.extent(0); ++i)
        for (std::int64_t j = 0; j < grid.extent(1); ++j) {
            const datamover::Point at = layout.global_index(array.rank(), {i, j});
            visit(at[0], at[1], grid(i, j));
        }
}

datamover::StreamOptions one_consumer() {
    datamover::StreamOptions options;
    options.consumers = 1;     // the first step waits for this number of consumers
    options.policy = "block";  // and every step for slow consumers
    return options;
}

/// A simulation: its field is distributed by rows, with ghosts.
class Simulation {
public:
    /// If several streams share a machine, a manager limits how many of them hold buffers.
    explicit Simulation(MPI_Comm comm)
        : manager_(comm, datamover::StreamManagerOptions{.active = 2}),
          out_(manager_.open("simulation", "tcp://127.0.0.1:0", one_consumer())),
          u_(comm, square("(block, *)", comm), sizeof(double),
             {.type = datamover::ScalarType::float64,
              .ghost_lower = {1, 1},
              .ghost_upper = {1, 1}}) {}

    const std::string& address() const { return out_.address(); }
    void compute(std::int64_t step) {
        for_each_element(u_, [&](std::int64_t i, std::int64_t j, double& element) {
            element = value_at(i, j, step);
        });
        out_.send("u", u_, step);  // u may be written again at once
        out_.end_step();
    }
    void end() {
        out_.close(60);
        const datamover::StreamCounters counters = out_.counters();
        expect(counters.steps_dropped == 0, "nobody was too slow for \"block\"");
    }

private:
    datamover::StreamManager manager_;
    Stream out_;
    Array u_;
};

/// An analysis: it receives columns.
class Analysis {
public:
    Analysis(MPI_Comm comm, const std::string& address)
        : in_(comm, address, datamover::StreamSourceOptions{.timeout_seconds = 60, .ahead = 1}),
          v_(comm, square("(*, block)", comm), sizeof(double),
             {.type = datamover::ScalarType::float64}) {
        in_.subscribe({{"u", v_.part()}});
    }
    /// The arrays that the stream has sent so far.
    void look() {
        const std::vector<datamover::StreamArray> arrays = in_.arrays(60);
        expect(arrays[0].name == "u" && arrays[0].dtype == "\"<f8\"", "a field of doubles");
        expect(arrays[0].layout.domain().shape() == datamover::Point{edge, edge}, "of this shape");
    }
    void take(std::int64_t expected) {
        const std::optional<datamover::StreamStep> step = in_.next(60);
        expect(step && step->number == expected && step->names[0] == "u", "the next step");
        for_each_element(v_, [&](std::int64_t i, std::int64_t j, double element) {
            expect(element == value_at(i, j, expected), "what was sent");
        });
    }
    void end() {
        expect(!in_.next(60), "the stream has ended");
        const datamover::StreamSourceCounters counters = in_.counters();
        expect(counters.checksum_errors == 0 && counters.steps_dropped == 0, "whole");
        in_.close();
    }

private:
    StreamSource in_;
    Array v_;
};

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    {
        Simulation simulation(MPI_COMM_WORLD);
        Analysis analysis(MPI_COMM_WORLD, simulation.address());
        for (std::int64_t step = 0; step < steps; ++step) {
            simulation.compute(step);
            if (step == 1) analysis.look();
            analysis.take(step);
        }
        simulation.end();
        analysis.end();
    }
    if (rank == 0) std::puts("streams: as said");
    MPI_Finalize();
    return 0;
}
