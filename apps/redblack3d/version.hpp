// SPDX-License-Identifier: BSD-3-Clause
// Versions of the red-black solver, and the interface that each of them implements.
#pragma once

#include <memory>

#include "report.hpp"
#include "stencil.hpp"

namespace redblack {

/// A grid of n³ points, cut evenly into one box per process.
struct Problem {
    std::int64_t n = 0;
    Index grid{1, 1, 1};  ///< processes per dimension; rank = row-major position
};

/// Memory for one process's box, and an iteration on it. Made on all processes together.
class Version {
public:
    virtual ~Version() = default;
    /// This process's box, in memory that lives as long as the version.
    virtual Field values() const = 0;
    /// Red points, then black ones. Collective.
    virtual void iterate(const Field& f, apps::Times& times) = 0;
};

std::unique_ptr<Version> with_datamover(const Problem& problem);
/// The inner points are computed while the faces travel.
std::unique_ptr<Version> overlapped(const Problem& problem);
/// With one face left out of the plan: its verification has to fail on two or more processes.
std::unique_ptr<Version> incomplete(const Problem& problem);
std::unique_ptr<Version> by_hand(const Problem& problem);

}  // namespace redblack
