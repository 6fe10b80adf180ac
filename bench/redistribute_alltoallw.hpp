// SPDX-License-Identifier: BSD-3-Clause
// Block-cyclic redistribution by derived datatypes and one MPI_Alltoallw.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "redistribute_case.hpp"

namespace bench {

/// Datatypes for what goes to and comes from every process; one call moves all.
class Alltoallw {
public:
    Alltoallw(MPI_Comm comm, const Case& c);
    ~Alltoallw();
    Alltoallw(const Alltoallw&) = delete;
    Alltoallw& operator=(const Alltoallw&) = delete;

    void operator()(const double* source, double* destination) const;

private:
    MPI_Comm comm_;
    std::vector<int> send_counts_, receive_counts_, offsets_;
    std::vector<MPI_Datatype> send_types_, receive_types_;
};

}  // namespace bench
