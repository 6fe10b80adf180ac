// SPDX-License-Identifier: BSD-3-Clause
// How are numbers of processes, blocks and ranks refused that a layout does not have?
#include "bounds.hpp"

#include <string>

#include "datamover/error.hpp"

namespace datamover::layout {

void check_nprocs(std::int64_t nprocs) {
    if (nprocs < 1 || nprocs > most_processes)
        throw Error(ErrorCode::invalid_argument,
                    "a layout for " + std::to_string(nprocs) +
                        " processes; 1 to 2^31 - 1 are possible, as many as MPI can number");
}

void refuse_number(const char* what, std::int64_t number, std::int64_t end) {
    throw Error(ErrorCode::out_of_range,
                std::string(what) + " " + std::to_string(number) +
                    (end > 0 ? " is not in 0.." + std::to_string(end - 1) : " of none"));
}

}  // namespace datamover::layout
