// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of planning: the time and memory that a process needs to plan its part of a
// redistribution. It runs on one process, without MPI.
// Argument: seconds per case. The contender "walk" iterates over the process's blocks along each
// dimension and assigns them to peers, as codes without periods do.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "plan/compile.hpp"
#include "plan/redistribution.hpp"
#include "row_output.hpp"

namespace {

using datamover::AxisSet;
using datamover::BlockCyclic;
using datamover::Layout;
using datamover::MotionPlan;
using datamover::PeerPart;
using datamover::Point;

double seconds_now() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// A square array of `extent` rows; `processes` is a square number.
struct Case {
    std::string layouts;
    std::int64_t extent;
    std::int64_t processes;
    BlockCyclic source, destination;

    std::string name() const {
        return layouts + "-" + std::to_string(extent) + "-" + std::to_string(processes);
    }
    std::int64_t rank() const { return processes * 123 / 1000; }
};

Case case_of(const std::string& layouts, std::int64_t extent, std::int64_t root) {
    const std::int64_t processes = root * root;
    const auto squares = [&](std::int64_t block) {
        datamover::BlockCyclicOptions options;
        options.grid = {root, root};
        const std::string word = "cyclic(" + std::to_string(block) + ")";
        return BlockCyclic({extent, extent}, "(" + word + ", " + word + ")", processes, options);
    };
    const auto transposed_grid = [&](std::int64_t block) {
        datamover::BlockCyclicOptions options;
        options.grid = {root, root};
        options.column_major_grid = true;
        const std::string word = "cyclic(" + std::to_string(block) + ")";
        return BlockCyclic({extent, extent}, "(" + word + ", " + word + ")", processes, options);
    };
    if (layouts == "rows-64")
        return {layouts, extent, processes, BlockCyclic({extent, extent}, "(block, *)", processes),
                squares(64)};
    if (layouts == "64-64") return {layouts, extent, processes, squares(64), transposed_grid(64)};
    if (layouts == "32-128") return {layouts, extent, processes, squares(32), transposed_grid(128)};
    return {layouts, extent, processes, squares(3), transposed_grid(7)};
}

/// What planning yields for one process.
struct Planned {
    std::vector<PeerPart> outgoing, incoming;

    std::int64_t peers() const {
        return static_cast<std::int64_t>(outgoing.size() + incoming.size());
    }
    /// Bytes of the tables, each counted once, and of the lists that refer to them.
    std::int64_t nbytes() const {
        std::set<const datamover::AxisTable*> tables;
        std::int64_t bytes = 0;
        for (const auto* parts : {&outgoing, &incoming})
            for (const PeerPart& p : *parts) {
                bytes += static_cast<std::int64_t>(sizeof(PeerPart));
                for (const datamover::Piece& piece : p.part.pieces) {
                    bytes += static_cast<std::int64_t>(sizeof piece);
                    if (const auto* list = std::get_if<datamover::BoxList>(&piece.content))
                        bytes += static_cast<std::int64_t>(
                            list->boxes.size() * sizeof(datamover::PlacedBox) +
                            list->shapes.size() * sizeof(datamover::BoxShape));
                    const auto* product = std::get_if<datamover::ProductPiece>(&piece.content);
                    if (!product) continue;
                    for (const datamover::PieceAxis& axis : product->axes) {
                        bytes += static_cast<std::int64_t>(sizeof axis);
                        if (tables.insert(axis.table.get()).second) bytes += axis.table->nbytes();
                    }
                }
            }
        return bytes;
    }
};

Planned plan(const Case& c) {
    const MotionPlan plan = datamover::redistribute(c.source, c.destination);
    return {plan.outgoing(c.rank()), plan.incoming(c.rank())};
}

/// The halves of every outgoing peer's relation, as binding a mover makes them.
std::int64_t compile(const Case& c, const Planned& planned, const datamover::MemoryLayout& memory) {
    const Layout source(c.source);
    std::int64_t bytes = 0;
    for (const PeerPart& p : planned.outgoing)
        bytes += datamover::plan::compile(p.part, {&source, &memory, 8, c.rank()},
                                          {nullptr, nullptr, 8, c.rank()})
                     .nbytes();
    return bytes;
}

/// Walks one dimension's blocks of this process; returns bytes of the lists of runs by peer.
std::int64_t walk(const BlockCyclic& from, const BlockCyclic& to, std::int64_t rank, int d) {
    struct Run {
        std::int64_t here, there, length;
    };
    const AxisSet mine = from.axis_set(d, from.grid_coordinates(from.block_of(rank))[d]);
    std::vector<std::vector<Run>> by_peer(static_cast<std::size_t>(to.grid()[d]));
    const std::int64_t block = to.block()[d];
    for (std::int64_t first = mine.first; first < mine.end; first += mine.period) {
        const std::int64_t end = std::min(first + mine.length, mine.end);
        for (std::int64_t i = first; i < end;) {
            const std::int64_t n = std::min(end - i, block - i % block);
            by_peer[static_cast<std::size_t>(i / block % to.grid()[d])].push_back(
                {mine.local(i), i / block / to.grid()[d] * block + i % block, n});
            i += n;
        }
    }
    std::int64_t bytes = 0;
    for (const auto& runs : by_peer) bytes += static_cast<std::int64_t>(runs.size() * sizeof(Run));
    return bytes;
}

std::int64_t walk(const Case& c) {
    std::int64_t bytes = 0;
    for (int d = 0; d < 2; ++d)
        bytes +=
            walk(c.source, c.destination, c.rank(), d) + walk(c.destination, c.source, c.rank(), d);
    return bytes;
}

/// One dimension's tables towards all coordinates of the other side; returns their bytes.
std::int64_t tables(const BlockCyclic& from, const BlockCyclic& to, std::int64_t rank, int d) {
    const AxisSet mine = from.axis_set(d, from.grid_coordinates(from.block_of(rank))[d]);
    const std::int64_t extent = from.shape()[d];
    std::int64_t bytes = 0;
    for (const std::int64_t c : datamover::plan::peer_coordinates(mine, 0, to, d, 0, extent))
        bytes += datamover::intersect(mine, 0, to.axis_set(d, c), 0, extent).nbytes();
    return bytes;
}

/// All that a plan computes but what it lists peer by peer.
std::int64_t tables(const Case& c) {
    std::int64_t bytes = 0;
    for (int d = 0; d < 2; ++d)
        bytes += tables(c.source, c.destination, c.rank(), d) +
                 tables(c.destination, c.source, c.rank(), d);
    return bytes;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Measures and reports; returns the median. `beyond_seconds` is that of what a plan takes whatever
/// its peers, where the time of each is asked for.
double measure(const Case& c, const char* phase, const char* contender, double seconds,
               std::int64_t peers, const std::function<std::int64_t()>& work,
               std::optional<double> beyond_seconds = {}) {
    std::int64_t nbytes = work();
    std::vector<double> samples;
    const double begin = seconds_now();
    while (samples.size() < 3 || (seconds_now() - begin < seconds && samples.size() < 1000)) {
        const double start = seconds_now();
        nbytes = work();
        samples.push_back(seconds_now() - start);
    }
    const double middle = median(samples);
    bench::Line line;
    if (beyond_seconds && peers > 0)
        line.number("seconds_per_peer",
                    std::max(0.0, middle - *beyond_seconds) / static_cast<double>(peers));
    line.text("case", c.name())
        .text("phase", phase)
        .text("contender", contender)
        .integer("processes", 1)
        .integer("planned_processes", c.processes)
        .integer("bytes", 0)
        .integer("peers", peers)
        .integer("nbytes", nbytes)
        .numbers("samples", samples)
        .print();
    return middle;
}

void run_case(const Case& c, double seconds) {
    const Planned planned = plan(c);
    const Layout source(c.source);
    const datamover::MemoryLayout memory = datamover::dense_memory(source, c.rank(), 8);
    const std::int64_t nbytes = planned.nbytes();
    const auto outgoing = static_cast<std::int64_t>(planned.outgoing.size());
    const double table_seconds =
        measure(c, "tables", "datamover", seconds, planned.peers(), [&] { return tables(c); });
    measure(
        c, "plan", "datamover", seconds, planned.peers(),
        [&] {
            plan(c);
            return nbytes;
        },
        table_seconds);
    measure(c, "plan", "walk", seconds, planned.peers(), [&] { return walk(c); });
    measure(c, "compile", "datamover", seconds, outgoing,
            [&] { return compile(c, planned, memory); });
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = (argc > 1 ? std::atof(argv[1]) : 1) / 4;
    for (const char* layouts : {"rows-64", "64-64", "32-128", "3-7"})
        for (const std::int64_t root : {2, 32, 1000})
            for (const std::int64_t extent : {10'000, 100'000, 1'000'000})
                run_case(case_of(layouts, extent, root), seconds);
    return 0;
}
