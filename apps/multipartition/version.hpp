// SPDX-License-Identifier: BSD-3-Clause
// Versions of BT and SP, and the interface that each of them implements.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "problem.hpp"
#include "report.hpp"

namespace multipartition {

/// A cell's part of the arrays: the solution, with two ghosts; the right-hand side, and the
/// coefficients of the equations that a sweep solves, with as many as it needs.
struct Cell {
    apps::Values u, rhs, lhs;
};

/// Memory for one process's cells, and what comes to their ghosts. Made on all processes together.
class Version {
public:
    virtual ~Version() = default;
    /// One for each stage of a sweep along z.
    virtual const std::vector<Cell>& cells() const = 0;
    /// Fills the ghosts of u. Collective. Source: `copy_faces`.
    virtual void faces(apps::Times& times) = 0;
    /// Calls compute(cell) for this process's cells in the order of dimension d, backwards if so.
    /// Before it, the ghosts of the cell on the side where the sweep comes from are filled, with
    /// what was computed there: of rhs, and forward those of lhs too. Collective. Source:
    /// `x_solve`.
    virtual void sweep(std::size_t d, bool backwards,
                       const std::function<void(const Cell&)>& compute, apps::Times& times) = 0;
};

std::unique_ptr<Version> with_datamover(const Problem& problem);
/// With some sections left out of a plan: its verification has to fail.
std::unique_ptr<Version> incomplete(const Problem& problem);
/// Packed by hand.
std::unique_ptr<Version> by_hand(const Problem& problem);
/// Packed by MPI.
std::unique_ptr<Version> by_datatypes(const Problem& problem);
/// Packed as in NPB.
std::unique_ptr<Version> as_original(const Problem& problem);

}  // namespace multipartition
