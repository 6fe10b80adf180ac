// SPDX-License-Identifier: BSD-3-Clause
// Traffic matrix between groups of processes.
#include <algorithm>

#include "datamover/explain.hpp"
#include "geometry/make_error.hpp"
#include "plan/grid_overlap.hpp"

namespace datamover {
namespace {

using plan::GridOverlap;
using std::int64_t;

/// At most max_groups ranges of nearly equal length.
std::vector<int64_t> group_bounds(int64_t nprocs, int64_t max_groups) {
    const int64_t groups = std::min(nprocs, max_groups);
    std::vector<int64_t> bounds;
    for (int64_t g = 0; g <= groups; ++g)
        bounds.push_back(nprocs / groups * g + std::min(g, nprocs % groups));
    return bounds;
}

void sum_over_grids(TrafficMatrix& m, const GridOverlap& overlap) {
    std::size_t i = 0;
    for (std::size_t s = 0; s + 1 < m.bounds.size(); ++s)
        for (std::size_t t = 0; t + 1 < m.bounds.size(); ++t)
            m.elems[i++] =
                overlap.elems(m.bounds[s], m.bounds[s + 1], m.bounds[t], m.bounds[t + 1]);
}

void sum_over_parts(TrafficMatrix& m, const MotionPlan& plan) {
    const auto group_of = [&](int64_t rank) {
        return std::upper_bound(m.bounds.begin(), m.bounds.end(), rank) - m.bounds.begin() - 1;
    };
    for (int64_t r = 0; r < plan.nprocs(); ++r)
        for (const PeerPart& peer : plan.outgoing(r))
            m.elems[static_cast<std::size_t>(group_of(r) * m.groups() + group_of(peer.rank))] +=
                peer.part.size();
}

}  // namespace

TrafficMatrix traffic_matrix(const MotionPlan& plan, int64_t max_groups) {
    if (max_groups < 1)
        throw make_error(ErrorCode::invalid_argument, "max_groups is ", max_groups,
                         "; it must be at least 1");
    TrafficMatrix m;
    m.bounds = group_bounds(plan.nprocs(), max_groups);
    m.elems.assign(static_cast<std::size_t>(m.groups() * m.groups()), 0);
    const auto overlap = GridOverlap::of(plan);
    // Groups are ranges of ranks: with ranks of the user's choice they are no ranges of the grid.
    if (overlap && overlap->source().ranks().empty() && overlap->destination().ranks().empty())
        sum_over_grids(m, *overlap);
    else
        sum_over_parts(m, plan);
    return m;
}

}  // namespace datamover
