// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of PETSc's VecScatter and VecGhostUpdate on the single elements of `bench doors`. It is
// linked against PETSc and the MPI that PETSc was built for, not against datamover; the harness
// compiles it if they are installed.
// Arguments: seconds, then per case its name, depth of ghosts and extents (0: all elements,
// shuffled).
#include <petscvec.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "process_contest.hpp"

namespace {

using Indices = std::vector<PetscInt>;

void check(PetscErrorCode code) {
    if (code != 0)
        throw std::runtime_error("PETSc fails with " + std::to_string(static_cast<int>(code)));
}

/// The numbers from `first` to `end` - 1 by their hashes (splitmix64), as `doors.py` orders them.
Indices shuffled(std::int64_t first, std::int64_t end) {
    const auto hash = [](PetscInt number) {
        std::uint64_t z = (static_cast<std::uint64_t>(number) + 1) * 0x9E3779B97F4A7C15U;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        return z ^ (z >> 31);
    };
    Indices order(static_cast<std::size_t>(end - first));
    std::iota(order.begin(), order.end(), static_cast<PetscInt>(first));
    std::ranges::sort(order, [&](PetscInt a, PetscInt b) { return hash(a) < hash(b); });
    return order;
}

/// The part of `total` things in a row that a process has.
struct Share {
    Share(std::int64_t total, int rank, int size)
        : first(total * rank / size), end(total * (rank + 1) / size) {}
    std::int64_t elems() const { return end - first; }
    std::int64_t first, end;
};

PetscInt number(std::int64_t v) {
    return static_cast<PetscInt>(v);
}

/// A vector of which each element holds its index.
Vec numbered(MPI_Comm comm, const Share& own) {
    Vec x = nullptr;
    check(VecCreateMPI(comm, number(own.elems()), PETSC_DETERMINE, &x));
    PetscScalar* values = nullptr;
    check(VecGetArray(x, &values));
    for (std::int64_t i = 0; i < own.elems(); ++i) values[i] = static_cast<double>(own.first + i);
    check(VecRestoreArray(x, &values));
    return x;
}

/// How one call is checked: the local vector that it fills from `first` on, and what it fills it
/// with.
bench::ProcessContest::Check check_of(Vec local, std::size_t first, const Indices& wanted) {
    const auto with = [=](auto use) {
        PetscScalar* values = nullptr;
        check(VecGetArray(local, &values));
        const bool right = use(values + first);
        check(VecRestoreArray(local, &values));
        return right;
    };
    return {[=] { with([&](PetscScalar* v) { return std::fill_n(v, wanted.size(), -1.0) != v; }); },
            [=] {
                return with([&](PetscScalar* v) {
                    return std::equal(wanted.begin(), wanted.end(), v, [](PetscInt w, double got) {
                        return static_cast<double>(w) == got;
                    });
                });
            }};
}

/// Each process gets its share of all elements in a shuffled order.
void shuffle_all(const std::string& name, std::int64_t elems, int rank, int size, double seconds) {
    bench::ProcessContest contest(MPI_COMM_WORLD, name, "move", 8 * elems, seconds);
    const Share own(elems, rank, size);
    const Indices all = shuffled(0, elems);
    const Indices wanted(all.begin() + own.first, all.begin() + own.end);
    Vec x = numbered(MPI_COMM_WORLD, own), y = nullptr;
    const double start = MPI_Wtime();
    check(VecDuplicate(x, &y));
    IS from = nullptr, to = nullptr;
    VecScatter scatter = nullptr;
    check(ISCreateGeneral(MPI_COMM_WORLD, number(own.elems()), wanted.data(), PETSC_COPY_VALUES,
                          &from));
    check(ISCreateStride(MPI_COMM_WORLD, number(own.elems()), number(own.first), 1, &to));
    check(VecScatterCreate(x, from, y, to, &scatter));
    const double setup = MPI_Wtime() - start;
    contest.add(
        "petsc",
        [=] {
            check(VecScatterBegin(scatter, x, y, INSERT_VALUES, SCATTER_FORWARD));
            check(VecScatterEnd(scatter, x, y, INSERT_VALUES, SCATTER_FORWARD));
        },
        check_of(y, 0, wanted), [=] { return setup; });
    contest.run();
    check(VecScatterDestroy(&scatter));
    check(ISDestroy(&from));
    check(ISDestroy(&to));
    check(VecDestroy(&y));
    check(VecDestroy(&x));
}

/// Slabs of planes along the first dimension; the nodes of each are numbered in a shuffled order.
/// Each process gets the nodes of `depth` planes on both sides, in the order of their numbers.
void mesh(const std::string& name, std::int64_t depth, std::int64_t planes,
          std::int64_t plane_elems, int rank, int size, double seconds) {
    const std::int64_t moved = 2 * depth * (size - 1) * plane_elems;
    bench::ProcessContest contest(MPI_COMM_WORLD, name, "move", 8 * moved, seconds);
    const Share own(planes, rank, size);
    Indices ghosts;
    for (int r = 0; r < size; ++r) {
        if (r == rank) continue;
        const Share slab(planes, r, size);
        const Indices order = shuffled(slab.first * plane_elems, slab.end * plane_elems);
        for (std::size_t i = 0; i < order.size(); ++i) {
            const std::int64_t plane = order[i] / plane_elems;
            if (plane >= own.first - depth && plane < own.end + depth)
                ghosts.push_back(number(slab.first * plane_elems + static_cast<std::int64_t>(i)));
        }
    }
    const std::int64_t own_elems = own.elems() * plane_elems;
    const double start = MPI_Wtime();
    Vec x = nullptr, local = nullptr;
    check(VecCreateGhost(MPI_COMM_WORLD, number(own_elems), PETSC_DETERMINE,
                         number(static_cast<std::int64_t>(ghosts.size())), ghosts.data(), &x));
    const double setup = MPI_Wtime() - start;
    check(VecGhostGetLocalForm(x, &local));
    PetscScalar* values = nullptr;
    check(VecGetArray(local, &values));
    for (std::int64_t i = 0; i < own_elems; ++i)
        values[i] = static_cast<double>(own.first * plane_elems + i);
    check(VecRestoreArray(local, &values));
    contest.add(
        "petsc",
        [=] {
            check(VecGhostUpdateBegin(x, INSERT_VALUES, SCATTER_FORWARD));
            check(VecGhostUpdateEnd(x, INSERT_VALUES, SCATTER_FORWARD));
        },
        check_of(local, static_cast<std::size_t>(own_elems), ghosts), [=] { return setup; });
    contest.run();
    check(VecGhostRestoreLocalForm(x, &local));
    check(VecDestroy(&x));
}

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(argc, argv, "petsc", [&] {
        check(PetscInitializeNoArguments());
        int rank = 0, size = 1;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
        for (int a = 2; a + 3 < argc; a += 4) {
            const std::int64_t depth = std::atoll(argv[a + 1]), elems = std::atoll(argv[a + 3]);
            if (depth > 0)
                mesh(argv[a], depth, std::atoll(argv[a + 2]), elems, rank, size, seconds);
            else
                shuffle_all(argv[a], elems, rank, size, seconds);
        }
        check(PetscFinalize());
    });
}
