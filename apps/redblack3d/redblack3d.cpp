// SPDX-License-Identifier: BSD-3-Clause
// Red-black Gauss-Seidel relaxation of the Poisson equation on n³ points, on any number of
// processes. Source: Redblack3D, the program of KeLP's papers.
// Arguments: versions (datamover, overlap, thread, by_hand; comma-separated), n, iterations, and
// optionally a JSON file.
#include <algorithm>
#include <optional>

#include "application.hpp"
#include "array_field.hpp"
#include "shown_field.hpp"
#include "version.hpp"

namespace {

using namespace redblack;

/// The whole grid, relaxed by process 0 alone, of which every version's result has to be a copy.
/// Its arrays are the library's, which say on all processes where memory does not suffice.
class SerialField {
public:
    SerialField(const Problem& problem, std::int64_t iterations)
        : n_(problem.n), u_(array_on_process_0(problem, 1)) {
        const datamover::Array right = array_on_process_0(problem, 0);
        if (!u_.holds(0)) return;
        const Field u = field_of(u_, 0), f = field_of(right, 0);
        fill(u, f, n_);
        for (std::int64_t i = 0; i < iterations; ++i)
            for (const int color : {0, 1}) sweep(u, f, whole(u), color);
    }

    /// How many points of the grid `u` does not have, or with other values, on all processes
    /// together. Collective.
    std::int64_t points_that_differ(const Field& u) const {
        const std::int64_t rows = u.extent[1];
        std::vector<double> plane(static_cast<std::size_t>(n_ * n_));
        std::int64_t equal = 0;
        for (std::int64_t i = 0; i < n_; ++i) {
            if (u_.holds(0)) copy_plane(i, plane.data());
            MPI_Bcast(plane.data(), static_cast<int>(n_ * n_), MPI_DOUBLE, 0, MPI_COMM_WORLD);
            if (i < u.lo[0] || i >= u.lo[0] + u.extent[0]) continue;
            for (std::int64_t j = 0; j < rows; ++j) {
                const double* const here = u.row(i - u.lo[0], j);
                const double* const right = plane.data() + (j + u.lo[1]) * n_ + u.lo[2];
                for (std::int64_t k = 0; k < u.extent[2]; ++k) equal += here[k] == right[k];
            }
        }
        MPI_Allreduce(MPI_IN_PLACE, &equal, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        return n_ * n_ * n_ - equal;
    }

private:
    static datamover::Array array_on_process_0(const Problem& problem, std::int64_t ghosts) {
        using namespace datamover;
        const Index& grid = problem.grid;
        const Region all = Region::from_shape(Point::filled(3, problem.n));
        const FloorPlan one_box({all}, {0}, grid[0] * grid[1] * grid[2]);
        const Point width = Point::filled(3, ghosts);
        return {
            MPI_COMM_WORLD, one_box, sizeof(double), {.ghost_lower = width, .ghost_upper = width}};
    }

    void copy_plane(std::int64_t i, double* plane) const {
        const Field u = field_of(u_, 0);
        for (std::int64_t j = 0; j < n_; ++j, plane += n_)
            std::copy(u.row(i, j), u.row(i, j) + n_, plane);
    }

    std::int64_t n_;
    datamover::Array u_;
};

/// A version's box of the whole grid, as the library's streams want it. Collective.
datamover::ArrayPart part_of(const Field& u) {
    using datamover::Point;
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<std::int64_t> lo(3 * static_cast<std::size_t>(size)), hi = lo, owners;
    Index upper{};
    for (std::size_t d = 0; d < 3; ++d) upper[d] = u.lo[d] + u.extent[d];
    MPI_Allgather(u.lo.data(), 3, MPI_INT64_T, lo.data(), 3, MPI_INT64_T, MPI_COMM_WORLD);
    MPI_Allgather(upper.data(), 3, MPI_INT64_T, hi.data(), 3, MPI_INT64_T, MPI_COMM_WORLD);
    for (std::int64_t owner = 0; owner < size; ++owner) owners.push_back(owner);
    constexpr std::int64_t bytes = sizeof(double);
    const datamover::UserBlock block{rank,
                                     reinterpret_cast<std::byte*>(u.origin),
                                     Point{u.stride_i * bytes, u.stride_j * bytes, bytes},
                                     {},
                                     {}};
    return datamover::user_part(datamover::FloorPlan(3, lo, hi, owners, size), {&block, 1}, bytes,
                                datamover::ScalarType::float64, false);
}

/// Relaxes, and says how long that took; one iteration before finds the memory. What is shown is
/// sent within that time.
apps::Times relax(Version& version, std::int64_t n, std::int64_t iterations,
                  apps::ShownField& shown) {
    const Field u = version.values();
    std::vector<double> right(static_cast<std::size_t>(u.extent[0] * u.extent[1] * u.extent[2]));
    const Field f{right.data(), u.extent[1] * u.extent[2], u.extent[2], u.lo, u.extent};
    fill(u, f, n);
    apps::Times times;
    version.iterate(f, times);
    fill(u, f, n);
    times = {};
    const datamover::ArrayPart field = shown.is_wanted() ? part_of(u) : datamover::ArrayPart{};
    shown.send(field, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    apps::timed(times.total, [&] {
        for (std::int64_t i = 0; i < iterations; ++i) {
            version.iterate(f, times);
            shown.send(field, i + 1);
        }
    });
    return times;
}

const apps::Makers<Version, Problem> makers{with_datamover, by_hand, incomplete, overlapped};

/// A version that takes its turns.
struct Contender {
    std::string name;
    std::unique_ptr<Version> version;
    bool with_thread;
    std::vector<apps::Times> runs;
    std::int64_t points_that_differ;
};

Problem problem_of(std::int64_t n) {
    int size = 1, dims[3] = {0, 0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 3, dims);  // the largest first
    if (n < dims[0])
        throw apps::BadInput(std::to_string(size) + " processes stand as " +
                             std::to_string(dims[0]) + " x " + std::to_string(dims[1]) + " x " +
                             std::to_string(dims[2]) + ", so a grid of " + std::to_string(n) +
                             " points along an edge is too small; use at least " +
                             std::to_string(dims[0]));
    return {n, {dims[0], dims[1], dims[2]}};
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.size() < 4 || arguments.size() > 5)
        throw apps::BadInput("usage: redblack3d VERSIONS SIZE ITERATIONS ROUNDS [JSON_FILE]");
    const auto chosen = makers.chosen(arguments[0]);
    // A plane is one message.
    const std::int64_t n = apps::number_of(arguments[1], "the size", 1, 10000);
    const std::int64_t iterations = apps::number_of(arguments[2], "iterations", 1, 1'000'000'000);
    const std::int64_t rounds = apps::number_of(arguments[3], "rounds", 1, 1000);
    const Problem problem = problem_of(n);
    const std::string edge = std::to_string(n), many = std::to_string(iterations);
    apps::Report report("redblack3d", "redblack3d-" + edge,
                        edge + " x " + edge + " x " + edge + " points, " + many + " iteration" +
                            (iterations == 1 ? "" : "s"),
                        arguments.size() > 4 ? arguments[4] : "");
    std::vector<Contender> contenders;
    for (const auto& choice : chosen)
        contenders.push_back({choice.contender, choice.make(problem), choice.with_thread, {}, 0});
    apps::ShownField shown;
    if (shown.is_wanted() && (contenders.size() > 1 || rounds > 1))
        throw apps::BadInput("one version is shown, once");
    std::optional<SerialField> serial;  // who looks does not wait for it
    if (!shown.is_wanted()) serial.emplace(problem, iterations);
    for (std::int64_t round = 0; round < rounds; ++round)
        for (Contender& c : contenders) {
            std::optional<datamover::ProgressThread> thread;
            if (c.with_thread) thread.emplace();
            c.runs.push_back(relax(*c.version, n, iterations, shown));
            shown.close();
            if (!serial) serial.emplace(problem, iterations);
            c.points_that_differ += serial->points_that_differ(c.version->values());
        }
    for (const Contender& c : contenders)
        report.add(c.name, c.runs, c.points_that_differ == 0,
                   c.points_that_differ == 0 ? "every point equals the serial result"
                                             : std::to_string(c.points_that_differ) +
                                                   " points differ from the serial result");
    return report.end();
}

}  // namespace

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, run);
}
