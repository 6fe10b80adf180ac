// SPDX-License-Identifier: BSD-3-Clause
// Cost of moving elements to another process of the node, for each of the ways that
// transport="auto" chooses from. It runs with two processes and prints JSON objects, one per line:
// the rates, and per case the measured and the predicted time. With the argument "keep", the rates
// are stored.
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "datamover/advanced/transport_rates.hpp"
#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "datamover/floor_plan.hpp"
#include "datamover/motion_plan.hpp"
#include "datamover/mover.hpp"
#include "process_contest.hpp"

namespace {

using datamover::Array;
using datamover::FloorPlan;
using datamover::Mover;
using datamover::MoverOptions;
using datamover::Op;
using datamover::Point;
using datamover::Region;
using datamover::TransportRates;

const MPI_Comm world = MPI_COMM_WORLD;
constexpr int processes = 2;
constexpr std::int64_t line_bytes = 64;
constexpr int turns = 21;
constexpr double turn_seconds = 2e-3;
constexpr double nanoseconds = 1e9;

using Work = std::function<void()>;

double slowest(double seconds) {
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, world);
    return seconds;
}

/// Seconds of one call, of the slower process.
double seconds_of(const Work& work, std::int64_t calls) {
    MPI_Barrier(world);
    const double start = MPI_Wtime();
    for (std::int64_t i = 0; i < calls; ++i) work();
    return slowest(MPI_Wtime() - start) / static_cast<double>(calls);
}

/// Contenders take turns. The lower quartile: other programs of the machine make turns longer.
std::vector<double> quartiles_ns(const std::vector<Work>& contenders) {
    std::vector<std::int64_t> calls;
    for (const Work& work : contenders) {
        seconds_of(work, 3);
        const double once = seconds_of(work, 10);
        calls.push_back(std::max<std::int64_t>(10, static_cast<std::int64_t>(turn_seconds / once)));
    }
    std::vector<std::vector<double>> samples(contenders.size());
    for (int turn = 0; turn < turns; ++turn)
        for (std::size_t c = 0; c < contenders.size(); ++c)
            samples[c].push_back(seconds_of(contenders[c], calls[c]) * nanoseconds);
    std::vector<double> quartiles;
    for (auto& s : samples) {
        std::nth_element(s.begin(), s.begin() + turns / 4, s.end());
        quartiles.push_back(s[turns / 4]);
    }
    return quartiles;
}

/// The line through points that has the least squares, in parts of the ordinate, so that short
/// messages count like long ones.
struct StraightLine {
    double constant = 0, slope = 0;

    StraightLine(const std::vector<double>& x, const std::vector<double>& y) {
        double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double weight = 1 / (y[i] * y[i]);
            w += weight;
            wx += weight * x[i];
            wy += weight * y[i];
            wxx += weight * x[i] * x[i];
            wxy += weight * x[i] * y[i];
        }
        slope = std::max(0.0, (w * wxy - wx * wy) / (w * wxx - wx * wx));
        constant = std::max(0.0, (wy - slope * wx) / w);
    }
};

/// Two ways, measured in some cases.
struct Measured {
    std::vector<double> x, first_ns, second_ns;
};

/// Two processes exchange a face of a block both ways, read what came and write their own anew.
/// What an exchange costs is what a step costs more than the same use of faces that stay here.
class Face {
public:
    /// `rows` rows of `columns` doubles, as in a block with a ghost at each of their ends.
    Face(std::int64_t rows, std::int64_t columns)
        : rows_(rows),
          columns_(columns),
          blocks_(FloorPlan::uniform(Region::from_shape({2 * planes, rows, columns}), {2, 1, 1},
                                     processes)) {
        datamover::ArrayOptions options;
        options.ghost_lower = options.ghost_upper = Point::filled(3, 1);
        array_ = Array(world, blocks_, sizeof(double), options);
        int rank = 0;
        MPI_Comm_rank(world, &rank);
        const std::int64_t plane = (rows + 2) * (columns + 2);
        auto* first = reinterpret_cast<double*>(array_.origin(rank));
        own_ = rank == 0 ? first + (planes - 1) * plane : first;
        ghost_ = rank == 0 ? own_ + plane : own_ - plane;
        for (double* face : {own_, ghost_}) for_each_of(face, [](double& x) { x = 1; });
    }

    Work step(const std::string& transport) {
        const auto plan = datamover::halo(blocks_, Point{1, 0, 0}, Point{1, 0, 0},
                                          blocks_.bounding_box(), {}, false);
        MoverOptions options;
        options.transport = transport;
        Mover mover(world, plan, array_, array_, options);
        return [this, mover]() mutable {
            mover();
            use();
        };
    }
    void use() {
        double sum = 0;
        for_each_of(ghost_, [&](double& x) { sum += x; });
        for_each_of(own_, [&](double& x) { x = x * 0.5 + sum * 1e-9; });
    }

private:
    template <class Visit>
    void for_each_of(double* face, Visit&& visit) {
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < columns_; ++c) visit(face[r * (columns_ + 2) + c]);
    }

    static constexpr std::int64_t planes = 4;
    std::int64_t rows_, columns_;
    FloorPlan blocks_;
    Array array_;
    double *own_ = nullptr, *ghost_ = nullptr;
};

constexpr std::int64_t face_columns = 16;

Measured ghosts() {
    Measured all;
    for (const std::int64_t bytes : {2048, 4096, 8192, 16384, 32768, 49152}) {
        Face face(bytes / 8 / face_columns, face_columns);
        const auto ns =
            quartiles_ns({face.step("shared"), face.step("staged"), [&] { face.use(); }});
        all.x.push_back(static_cast<double>(bytes / line_bytes));
        all.first_ns.push_back(std::max(1.0, ns[0] - ns[2]));
        all.second_ns.push_back(std::max(1.0, ns[1] - ns[2]));
    }
    return all;
}

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

/// As NumPy has them: in huge pages where the system gives any.
Memory zeros(std::int64_t bytes) {
    constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
    const std::size_t whole =
        (static_cast<std::size_t>(bytes) / huge_page_bytes + 1) * huge_page_bytes;
    Memory memory(static_cast<std::byte*>(std::aligned_alloc(huge_page_bytes, whole)), &std::free);
    if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(memory.get(), whole, MADV_HUGEPAGE);
#endif
    std::memset(memory.get(), 0, whole);
    return memory;
}

/// Two processes swap matrices in memory of their own, whose rows are so long.
class Swap {
public:
    Swap(std::int64_t run_bytes, std::int64_t bytes)
        : run_bytes_(run_bytes), rows_(bytes / run_bytes) {
        MPI_Comm_rank(world, &rank_);
        for (auto& memory : memory_) memory = zeros(2 * bytes);
    }

    Work by(const std::string& transport) {
        const Region whole = Region::from_shape({2 * rows_, run_bytes_ / 8});
        const FloorPlan from = FloorPlan::uniform(whole, {2, 1}, processes);
        const FloorPlan to = from.with_owners({1, 0});
        MoverOptions options;
        options.transport = transport;
        Mover mover(world, datamover::redistribute(from, to), part(from, rank_, 0),
                    part(to, 1 - rank_, 1), options);
        return [mover]() mutable { mover(); };
    }

private:
    datamover::ArrayPart part(const FloorPlan& blocks, std::int64_t block, std::size_t which) {
        const std::int64_t apart = 2 * run_bytes_;
        const datamover::UserBlock own{block, memory_[which].get(), Point{apart, 8}, {}, {}};
        return datamover::user_part(blocks, {&own, 1}, 8);
    }

    std::int64_t run_bytes_, rows_;
    int rank_ = 0;
    Memory memory_[2] = {{nullptr, &std::free}, {nullptr, &std::free}};
};

constexpr std::int64_t swapped_bytes = std::int64_t{1} << 22;

/// Over how many runs the bytes lie; read by the system, and through slots.
Measured swaps() {
    Measured all;
    for (const std::int64_t run : {2048, 4096, 8192, 16384, 65536}) {
        Swap swap(run, swapped_bytes);
        const auto ns = quartiles_ns({swap.by("read"), swap.by("staged")});
        all.x.push_back(static_cast<double>(swapped_bytes / run));
        all.first_ns.push_back(ns[0]);
        all.second_ns.push_back(ns[1]);
    }
    return all;
}

void print_case(const std::string& name, const char* way, double measured_ns, double predicted_ns) {
    bench::Line()
        .text("transport_case", name)
        .text("way", way)
        .number("measured_us", measured_ns / 1e3)
        .number("predicted_us", predicted_ns / 1e3)
        .print();
}

void print_ghosts(const Measured& all, const TransportRates& rates) {
    for (std::size_t i = 0; i < all.x.size(); ++i) {
        const auto bytes = static_cast<std::int64_t>(all.x[i]) * line_bytes;
        const std::string name = "ghosts-" + std::to_string(bytes);
        print_case(name, "shared", all.first_ns[i], rates.shared_ns(bytes));
        print_case(name, "staged", all.second_ns[i], rates.staged_ns(bytes));
    }
}

void print_swaps(const Measured& all, const TransportRates& rates) {
    for (std::size_t i = 0; i < all.x.size(); ++i) {
        const std::int64_t run = swapped_bytes / static_cast<std::int64_t>(all.x[i]);
        const std::string name = "runs-" + std::to_string(run);
        print_case(name, "read", all.first_ns[i], rates.read_ns(swapped_bytes, run));
        print_case(name, "staged", all.second_ns[i], rates.slots_ns(swapped_bytes, run));
    }
}

/// Nothing where the system does not let processes read each other's memory.
std::unique_ptr<Measured> swaps_where_possible() {
    try {
        return std::make_unique<Measured>(swaps());
    } catch (const datamover::Error& e) {
        if (e.code() != datamover::ErrorCode::unsupported) throw;
        return nullptr;
    }
}

void measure(bool keeps) {
    int rank = 0, size = 1;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    if (size != processes) throw std::runtime_error("runs with two processes");
    TransportRates rates;
    const Measured rewritten = ghosts();
    const StraightLine straight(rewritten.x, rewritten.first_ns);
    const StraightLine around(rewritten.x, rewritten.second_ns);
    rates.shared_message = straight.constant;
    rates.shared_line = straight.slope;
    rates.staged_message = around.constant;
    rates.staged_line = around.slope;
    const auto swapped = swaps_where_possible();
    if (swapped) {
        const StraightLine by_runs(swapped->x, swapped->first_ns);
        rates.read_run = by_runs.slope;
        rates.read_byte = by_runs.constant / static_cast<double>(swapped_bytes);
        const StraightLine through_slots(swapped->x, swapped->second_ns);
        rates.slot_run = through_slots.slope;
        rates.slot_byte = through_slots.constant / static_cast<double>(swapped_bytes);
    }
    if (rank != 0) return;
    std::printf(
        "{\"transport_rates\": {\"shared_message\": %.4g, \"shared_line\": %.4g, "
        "\"staged_message\": %.4g, \"staged_line\": %.4g",
        rates.shared_message, rates.shared_line, rates.staged_message, rates.staged_line);
    if (swapped)
        std::printf(
            ", \"read_run\": %.4g, \"read_byte\": %.4g, \"slot_run\": %.4g, "
            "\"slot_byte\": %.4g",
            rates.read_run, rates.read_byte, rates.slot_run, rates.slot_byte);
    std::printf("}}\n");
    if (keeps) datamover::keep_transport_rates(rates);
    print_ghosts(rewritten, rates);
    if (swapped) print_swaps(*swapped, rates);
}

}  // namespace

int main(int argc, char** argv) {
    const bool keeps = argc > 1 && argv[1] == std::string("keep");
    return bench::run_program(argc, argv, "rates", [=] { measure(keeps); });
}
