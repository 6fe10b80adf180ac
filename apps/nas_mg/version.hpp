// SPDX-License-Identifier: BSD-3-Clause
// Versions of NAS MG, and the interface that each of them implements.
#pragma once

#include <functional>
#include <memory>

#include "problem.hpp"
#include "report.hpp"

namespace mg {

/// The solution, and what is left of the equation. There is one of each per level.
enum class Variable : std::size_t { solution, residual };

/// What computes the values of a box from arrays with ghosts.
using Work = std::function<void(const Box&)>;

/// Memory for one process's boxes of all levels, and the exchange of their ghosts. Made on all
/// processes together.
class Version {
public:
    virtual ~Version() = default;
    /// This process's box of a level, in memory that lives as long as the version.
    virtual Field field(Variable variable, int level) const = 0;
    /// Has all points of a box computed, in any parts, and brings them to the ghosts of others.
    /// Collective.
    virtual void update(Variable variable, int level, const Work& compute, apps::Times& times) = 0;
};

std::unique_ptr<Version> with_datamover(const Problem& problem);
/// Inner points are computed while outer ones travel.
std::unique_ptr<Version> overlapped(const Problem& problem);
/// With some sections left out of the plans: its verification has to fail.
std::unique_ptr<Version> incomplete(const Problem& problem);
std::unique_ptr<Version> by_hand(const Problem& problem);
/// Packed by MPI.
std::unique_ptr<Version> by_datatypes(const Problem& problem);
/// As in NPB, which sets buffers to 0 in vain; and without that.
std::unique_ptr<Version> as_original(const Problem& problem);
std::unique_ptr<Version> as_original_without_zeroing(const Problem& problem);

}  // namespace mg
