// SPDX-License-Identifier: BSD-3-Clause
// Queries to BLACS: grids, positions in them and communicators, also if a context is made again.
#include "blacs.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "datamover/datamover_scalapack.h"
#include "geometry/make_error.hpp"
#include "matrix_call.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/communicators.hpp"

// Of the BLACS that the program is linked with; it comes without a header.
extern "C" {
using datamover::BlacsInt;
void Cblacs_get(BlacsInt context, BlacsInt what, BlacsInt* value);
void Cblacs_gridinfo(BlacsInt context, BlacsInt* nprow, BlacsInt* npcol, BlacsInt* row,
                     BlacsInt* column);
MPI_Comm Cblacs2sys_handle(BlacsInt handle);
}

namespace datamover {
namespace {

constexpr int ask_for_communicator = 10;  // of a context, in Cblacs_get

// ---------------------------------------------------------------- communicators

std::mutex only_one;

/// One communicator for every ordered set of processes that this process has met, none of them ever
/// dropped: so the members of a new context all know a congruent one, or none does.
std::vector<MPI_Comm> kept_communicators;

/// What a context's communicator holds: one of the kept ones.
struct Kept {
    MPI_Comm comm;
};

MPI_Comm congruent(MPI_Comm comm) {
    for (const MPI_Comm kept : kept_communicators) {
        int result = MPI_UNEQUAL;
        mpi::check(MPI_Comm_compare(comm, kept, &result), "MPI_Comm_compare");
        if (result == MPI_CONGRUENT) return kept;
    }
    MPI_Comm copy = MPI_COMM_NULL;
    mpi::check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
    return kept_communicators.emplace_back(copy);
}

/// Drops the movers that are kept with these communicators. Local. Returns a code of the C face.
int drop_all_caches() {
    const std::lock_guard lock(only_one);
    for (const MPI_Comm comm : kept_communicators)
        if (const int code = datamover_matrix_cache_drop(comm)) return code;
    return DATAMOVER_SUCCESS;
}

/// The kept communicator of the same processes as a context's own.
MPI_Comm context_communicator(MPI_Comm of_context) {
    const std::lock_guard lock(only_one);
    using OfContext = mpi::Attribute<Kept>;
    if (const Kept* const found = OfContext::find(of_context)) return found->comm;
    return OfContext::keep(of_context, std::make_unique<Kept>(congruent(of_context))).comm;
}

// ---------------------------------------------------------------- layouts

/// The rank at each place of a context's grid, row by row. Collective over `comm`.
std::vector<std::int64_t> ranks_by_place(const Place& place, MPI_Comm comm) {
    int size = 0;
    mpi::check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    std::vector<int> places(static_cast<std::size_t>(size));
    const int mine = place.row * place.npcol + place.column;
    mpi::check(MPI_Allgather(&mine, 1, MPI_INT, places.data(), 1, MPI_INT, comm), "MPI_Allgather");
    std::vector<std::int64_t> ranks(places.size());
    for (std::size_t rank = 0; rank < places.size(); ++rank)
        ranks[static_cast<std::size_t>(places[rank])] = static_cast<std::int64_t>(rank);
    return ranks;
}

int layout_from_blacs(datamover_layout** layout, const int* descriptor, MPI_Comm* comm) {
    if (!descriptor) throw Error(ErrorCode::invalid_argument, "descriptor is NULL");
    const Place place(descriptor[1]);
    if (!place.in_grid())
        throw make_error(ErrorCode::invalid_argument, "this process is not in the BLACS context ",
                         descriptor[1]);
    const MPI_Comm found = communicator_of(descriptor[1]);
    const auto ranks = ranks_by_place(place, found);
    const datamover_process_grid grid{place.nprow, place.npcol, 0, ranks.data()};
    const int code = datamover_layout_from_descriptor(
        descriptor, &grid, static_cast<std::int64_t>(ranks.size()), layout);
    if (code == DATAMOVER_SUCCESS && comm) *comm = found;
    return code;
}

}  // namespace

Place::Place(int context) {
    if (context < 0) return;
    BlacsInt rows = -1, columns = -1, my_row = -1, my_column = -1;
    Cblacs_gridinfo(context, &rows, &columns, &my_row, &my_column);
    nprow = narrow(rows), npcol = narrow(columns);
    row = narrow(my_row), column = narrow(my_column);
    // Some BLACS give processes outside the grid a place beyond it.
    if (row >= nprow || column >= npcol) row = column = -1;
}

MPI_Comm communicator_of(int context) {
    BlacsInt handle = -1;
    Cblacs_get(context, ask_for_communicator, &handle);
    return context_communicator(Cblacs2sys_handle(handle));
}

datamover_matrix matrix_here(const void* data, int row, int column, const int* descriptor) {
    datamover_matrix matrix{};
    matrix.grid_row = matrix.grid_column = -1;
    if (!descriptor) return matrix;
    const Place place(descriptor[1]);
    if (!place.in_grid()) return matrix;
    matrix.data = const_cast<void*>(data);
    matrix.descriptor = descriptor;
    matrix.row = row, matrix.column = column;
    matrix.nprow = place.nprow, matrix.npcol = place.npcol;
    matrix.grid_row = place.row, matrix.grid_column = place.column;
    return matrix;
}

}  // namespace datamover

int datamover_layout_from_blacs(const int descriptor[9], MPI_Comm* comm,
                                datamover_layout** layout) {
    return datamover::remembered(
        [&] { return datamover::layout_from_blacs(layout, descriptor, comm); });
}

int datamover_scalapack_cache_drop(void) {
    return datamover::remembered(datamover::drop_all_caches);
}
