// SPDX-License-Identifier: BSD-3-Clause
// The communicator of a BLACS context, also if the context is created again.
#include "context_communicator.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "datamover/datamover_scalapack.h"
#include "last_call.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/communicators.hpp"

namespace datamover {
namespace {

std::mutex only_one;

/// One communicator for every ordered set of processes that this process has met, none of them ever
/// dropped: so the members of a new context all know a congruent one, or none does.
std::vector<MPI_Comm>& kept_communicators() {
    static std::vector<MPI_Comm> kept;
    return kept;
}

/// What a context's communicator holds: which of the kept ones it is.
struct Kept {
    std::size_t number;
};

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
    using OfContext = mpi::Attribute<Kept>;
    const Kept* found = OfContext::find(of_context);
    if (found == nullptr)
        found =
            &OfContext::keep(of_context, std::make_unique<Kept>(number_of_congruent(of_context)));
    return kept_communicators()[found->number];
}

}  // namespace datamover

int datamover_scalapack_cache_drop(void) {
    return datamover::remembered(datamover::drop_all_caches);
}
