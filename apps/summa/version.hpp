// SPDX-License-Identifier: BSD-3-Clause
// Versions of SUMMA, and the interface that each of them implements.
#pragma once

#include <memory>

#include "matrices.hpp"
#include "report.hpp"

namespace summa {

/// Memory for one process's parts of the matrices, and their product. Made on all processes
/// together.
class Version {
public:
    virtual ~Version() = default;
    virtual const Part& a() const = 0;
    virtual const Part& b() const = 0;
    virtual const Part& c() const = 0;
    /// C += A B. Collective.
    virtual void multiply(apps::Times& times) = 0;
};

std::unique_ptr<Version> with_datamover(const Problem& problem);
/// The next panels travel while two are multiplied.
std::unique_ptr<Version> overlapped(const Problem& problem);
/// With some sections left out of the plans: its verification has to fail.
std::unique_ptr<Version> incomplete(const Problem& problem);
/// By MPI_Bcast.
std::unique_ptr<Version> by_hand(const Problem& problem);
/// Panels pass from process to process, and the next ones while two are multiplied.
std::unique_ptr<Version> by_hand_in_a_ring(const Problem& problem);

}  // namespace summa
