// SPDX-License-Identifier: BSD-3-Clause
// Which communicator stands for a BLACS context, also for one that is made again?
#include "context_communicator.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

#include "datamover/datamover_scalapack.h"
#include "last_call.hpp"
#include "mpi/checked_call.hpp"

namespace datamover {
namespace {

std::mutex only_one;

/// One communicator for every ordered set of processes that this process has met, none of them ever
/// dropped: so the members of a new context all know a congruent one, or none does.
std::vector<MPI_Comm>& kept_communicators() {
    static std::vector<MPI_Comm> kept;
    return kept;
}

/// An attribute of the context's communicator: the number of the kept one. It has nothing to free.
int attribute_key() {
    static int key = [] {
        int made = MPI_KEYVAL_INVALID;
        mpi::check(
            MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made, nullptr),
            "MPI_Comm_create_keyval");
        return made;
    }();
    return key;
}

std::size_t number_of_congruent(MPI_Comm comm) {
    auto& kept = kept_communicators();
    for (std::size_t i = 0; i < kept.size(); ++i) {
        int result = MPI_UNEQUAL;
        mpi::check(MPI_Comm_compare(comm, kept[i], &result), "MPI_Comm_compare");
        if (result == MPI_CONGRUENT) return i;
    }
    MPI_Comm copy = MPI_COMM_NULL;
    mpi::check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
    kept.push_back(copy);
    return kept.size() - 1;
}

}  // namespace

int drop_all_caches() {
    const std::lock_guard lock(only_one);
    for (const MPI_Comm comm : kept_communicators())
        if (const int code = datamover_matrix_cache_drop(comm)) return code;
    return DATAMOVER_SUCCESS;
}

MPI_Comm context_communicator(MPI_Comm of_context) {
    const std::lock_guard lock(only_one);
    void* found = nullptr;
    int present = 0;
    mpi::check(MPI_Comm_get_attr(of_context, attribute_key(), static_cast<void*>(&found), &present),
               "MPI_Comm_get_attr");
    if (!present) {
        const std::size_t number = number_of_congruent(of_context);
        found = reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
        mpi::check(MPI_Comm_set_attr(of_context, attribute_key(), found), "MPI_Comm_set_attr");
    }
    return kept_communicators()[static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(found))];
}

}  // namespace datamover

int datamover_scalapack_cache_drop(void) {
    return datamover::remembered(datamover::drop_all_caches);
}
