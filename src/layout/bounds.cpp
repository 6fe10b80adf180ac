// SPDX-License-Identifier: BSD-3-Clause
// Range checks for numbers of processes, blocks and ranks of layouts.
#include "bounds.hpp"

#include <string>

#include "geometry/make_error.hpp"

namespace datamover::layout {

void check_nprocs(std::int64_t nprocs) {
    if (nprocs < 1 || nprocs > most_processes)
        throw make_error(ErrorCode::invalid_argument, "a layout for ", nprocs,
                         " processes; 1 to 2^31 - 1 are possible, as many as MPI can number");
}

void refuse_number(const char* what, std::int64_t number, std::int64_t end) {
    throw make_error(ErrorCode::out_of_range, what, " ", number,
                     end > 0 ? " is not in 0.." + std::to_string(end - 1) : " of none");
}

}  // namespace datamover::layout
