// SPDX-License-Identifier: BSD-3-Clause
// Versions of NAS LU, and the interface that each of them implements.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exchange/numbered.hpp"
#include "report.hpp"

namespace lu {

/// A class of the benchmark: n³ points with five values each, for rows x columns processes. Rows
/// divide x, columns divide y; rank = column * rows + row.
struct Problem {
    std::string name;
    std::int64_t n = 0;
    int rows = 1, columns = 1;
    std::int64_t iterations = 0;
};

/// Which way a sweep goes: from the lowest point of the grid, plane by plane of z, or back from
/// the highest.
enum class Sweep { up, down };

/// Memory for one process's boxes, and what comes to their ghosts. Made on all processes together.
class Version {
public:
    virtual ~Version() = default;
    virtual apps::Values u() const = 0;    ///< with two ghosts in x and y
    virtual apps::Values rsd() const = 0;  ///< with one ghost in x and y
    /// Fills the ghosts of u. Collective. Source: `exchange_3`.
    virtual void faces(apps::Times& times) = 0;
    /// Calls compute(z) for each plane of z in turn. Before it, the ghosts of the plane of rsd
    /// where the sweep comes from are filled, with what was computed there. Collective. Source:
    /// `exchange_1`.
    virtual void sweep(Sweep way, const std::function<void(std::int64_t)>& compute,
                       apps::Times& times) = 0;
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

}  // namespace lu
