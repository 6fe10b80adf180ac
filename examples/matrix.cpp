// SPDX-License-Identifier: BSD-3-Clause
// Matrices in C++: moves a program's own matrix to the tiles of ScaLAPACK, transposes it,
// broadcasts its panels, and writes it to a file.
// Run: mpiexec -n 4 ./matrix
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <datamover/datamover.hpp>
#include <memory>
#include <vector>

#include "checked.hpp"

namespace {

using datamover::Array;
using datamover::ArrayPart;
using datamover::BlockCyclic;
using datamover::MotionPlan;
using datamover::Mover;
using datamover::Point;
using datamover::Region;
using datamover::ScalarType;

constexpr std::int64_t rows = 40, columns = 60, tile = 8;

double value_at(std::int64_t i, std::int64_t j) {
    return static_cast<double>(i * columns + j);
}

/// The program's own rows of the matrix, each followed by a word that is not part of the matrix.
struct Rows {
    static constexpr std::int64_t width = columns + 1;

    Rows(int rank, int nprocs) : layout({rows, columns}, "(block, *)", nprocs) {
        const std::int64_t count = layout.local_shape(rank)[0];
        elements.resize(static_cast<std::size_t>(count * width));
        for (std::int64_t i = 0; i < count; ++i)
            for (std::int64_t j = 0; j < columns; ++j)
                at(i, j) = value_at(layout.global_index(rank, {i, 0})[0], j);
        block = {rank,
                 reinterpret_cast<std::byte*>(elements.data()),
                 {width * std::int64_t{sizeof(double)}, sizeof(double)},
                 {},
                 {}};
    }
    double& at(std::int64_t i, std::int64_t j) {
        return elements[static_cast<std::size_t>(i * width + j)];
    }
    ArrayPart part() const {
        return user_part(layout, {&block, 1}, sizeof(double), ScalarType::float64);
    }

    BlockCyclic layout;
    std::vector<double> elements;
    datamover::UserBlock block;
};

/// A matrix of ScaLAPACK: tiles on a grid of processes, column-major on each of them.
struct Tiles {
    Tiles(int rank, int nprocs) : Tiles(rank, nprocs, {rows, columns}) {}
    Tiles(int rank, int nprocs, const Point& shape)
        : layout(shape, "(cyclic(8), cyclic(8))", nprocs),
          descriptor(datamover::ScalapackDescriptor::of(layout, rank)),
          elements(static_cast<std::size_t>(layout.local_shape(rank).product())) {
        part.base = reinterpret_cast<std::byte*>(elements.data());
        part.memory = descriptor.memory(layout, rank, sizeof(double));
        part.layout = layout;
        part.elem_bytes = sizeof(double);
        part.type = ScalarType::float64;
    }
    datamover::ProcessGrid grid() const {
        return {layout.grid()[0], layout.grid()[1], false, layout.ranks()};
    }
    /// Calls visit(i, j, element) with global indices.
    template <class Visit>
    void for_each(int rank, Visit visit) const {
        const Point local = layout.local_shape(rank);
        for (std::int64_t j = 0; j < local[1]; ++j)
            for (std::int64_t i = 0; i < local[0]; ++i) {
                const Point at = layout.global_index(rank, {i, j});
                visit(at[0], at[1], elements[static_cast<std::size_t>(j * descriptor.lld + i)]);
            }
    }

    BlockCyclic layout;
    datamover::ScalapackDescriptor descriptor;
    std::vector<double> elements;
    ArrayPart part;
};

/// Moves the rows to tiles, and twice their transpose to other tiles, with plans that are reused.
void rows_to_tiles(MPI_Comm comm, int rank, int nprocs) {
    const Rows mine(rank, nprocs);
    const Tiles a(rank, nprocs), b(rank, nprocs), turned(rank, nprocs, {columns, rows});
    Mover mover(comm, redistribute(mine.layout, a.layout), mine.part(), a.part);
    mover();
    mover.rebind(mine.part(), b.part);  // without planning again
    mover();
    for (const Tiles* tiles : {&a, &b})
        tiles->for_each(rank, [](std::int64_t i, std::int64_t j, double element) {
            expect(element == value_at(i, j), "by tiles");
        });
    const MotionPlan transpose = redistribute(mine.layout, turned.layout, {1, 0});
    Mover(comm, transpose, mine.part(), turned.part, {.alpha = 2})();
    turned.for_each(rank, [](std::int64_t i, std::int64_t j, double element) {
        expect(element == 2 * value_at(j, i), "twice the transpose");
    });

    // The fastest transport here.
    mover.tune(0.05);
    for (const datamover::MoverTrial& trial : mover.trials())
        if (rank == 0 && trial.chosen)
            std::printf("rows to tiles: %s, %.0f µs\n", trial.transport.c_str(),
                        1e6 * trial.seconds);
    for (const datamover::MoverPair& pair : mover.pairs())
        expect(pair.peer >= 0 && pair.bytes == 8 * pair.elems, "how each pair is carried");
    expect(mover.counters().rounds >= 2 && mover.extra_bytes() >= 0, "what it did and takes");
}

/// Like pdgemr2d: copies a section of one ScaLAPACK matrix to a section of another.
void a_section(MPI_Comm comm, int rank, int nprocs) {
    const Rows mine(rank, nprocs);
    Tiles a(rank, nprocs), b(rank, nprocs);
    Mover(comm, redistribute(mine.layout, a.layout), mine.part(), a.part)();
    const auto matrix = [](Tiles& tiles, std::int64_t row, std::int64_t column) {
        return datamover::ScalapackMatrix{reinterpret_cast<std::byte*>(tiles.elements.data()),
                                          tiles.descriptor.to_entries(0), tiles.grid(), row,
                                          column};
    };
    // 10 x 20 elements beginning at A(3, 5) are copied to B(11, 1).
    copy_matrix(comm, 10, 20, matrix(a, 3, 5), matrix(b, 11, 1), sizeof(double));
    b.for_each(rank, [](std::int64_t i, std::int64_t j, double element) {
        const bool is_copied = i >= 10 && i < 20 && j < 20;
        expect(element == (is_copied ? value_at(i - 8, j + 4) : 0), "the section alone");
    });
    const auto entries = a.descriptor.to_entries(0);
    const auto again = datamover::ScalapackDescriptor::from_entries(entries);
    expect(again.layout(a.grid(), nprocs) == a.layout, "what a descriptor says is a layout");
}

/// Steps of a matrix product: a panel of columns is sent to all processes of each grid row, while
/// the program multiplies with the previous panel.
void panels(MPI_Comm comm, int rank, int nprocs) {
    const Rows mine(rank, nprocs);
    const Tiles a(rank, nprocs);
    Mover(comm, redistribute(mine.layout, a.layout), mine.part(), a.part)();
    datamover::set_default_timeout(60);      // for all waits from now on
    const datamover::ProgressThread thread;  // moves data within the node
    const MotionPlan first = panel_broadcast(a.layout, Region({0, 0}, {rows, tile}), 1);
    const Array panel(comm, first.destination(), sizeof(double), {.type = ScalarType::float64});
    for (std::int64_t j = 0; j + tile <= columns; j += tile) {
        Mover mover(comm, panel_broadcast(a.layout, Region({0, j}, {rows, j + tile}), 1), a.part,
                    panel.part());
        mover.start();
        // Here the last panel is multiplied.
        mover.wait();
        const auto grid = panel.grid<double>(panel.layout().blocks_of(rank)[0]);
        const std::int64_t i = a.layout.global_index(rank, {0, 0})[0];
        for (std::int64_t k = 0; k < tile; ++k)
            expect(grid(0, k) == value_at(i, j + k), "the first row of it");
    }
}

/// Saves the matrix to a file that NumPy reads, and loads it in another layout.
void to_a_file(MPI_Comm comm, int rank, int nprocs) {
    const Rows mine(rank, nprocs);
    const Tiles tiles(rank, nprocs);
    datamover::FileOptions options;
    options.overwrite = true;
    options.format = datamover::FileFormat::npy;  // as the extension of the name
    options.ranks = {0};                          // process 0 alone writes
    save(comm, "matrix.npy", mine.part(), options);
    load(comm, "matrix.npy", tiles.part);
    tiles.for_each(rank, [](std::int64_t i, std::int64_t j, double element) {
        expect(element == value_at(i, j), "what was saved");
    });
    MPI_Barrier(comm);
    if (rank == 0) std::remove("matrix.npy");
}

/// If the program's memory is in a shared window, other processes of the node copy from it
/// directly.
void in_a_window(MPI_Comm comm, int rank, int nprocs) {
    Rows mine(rank, nprocs);
    const Tiles tiles(rank, nprocs);
    const auto bytes = static_cast<MPI_Aint>(mine.elements.size() * sizeof(double));
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    void* memory = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Win_allocate_shared(bytes, sizeof(double), MPI_INFO_NULL, node, &memory, &window);
    std::copy(mine.elements.begin(), mine.elements.end(), static_cast<double*>(memory));
    mine.block.origin = static_cast<std::byte*>(memory);
    {
        const std::shared_ptr<const void> known = datamover::in_window(window, memory, bytes);
        Mover(comm, redistribute(mine.layout, tiles.layout), mine.part(), tiles.part)();
        tiles.for_each(rank, [](std::int64_t i, std::int64_t j, double element) {
            expect(element == value_at(i, j), "from the window");
        });
        MPI_Barrier(node);  // no process reads this memory any more
    }
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
}

}  // namespace

int main(int argc, char** argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    int rank = 0, nprocs = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
    rows_to_tiles(MPI_COMM_WORLD, rank, nprocs);
    a_section(MPI_COMM_WORLD, rank, nprocs);
    panels(MPI_COMM_WORLD, rank, nprocs);
    to_a_file(MPI_COMM_WORLD, rank, nprocs);
    in_a_window(MPI_COMM_WORLD, rank, nprocs);
    if (rank == 0) std::puts("matrix: as said");
    MPI_Finalize();
    return 0;
}
