// SPDX-License-Identifier: BSD-3-Clause
// Explanation of a plan: its traffic in sum, its pairs of processes, and the traffic matrix.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "datamover/explain.hpp"
#include "datamover/memory_layout.hpp"
#include "geometry/make_error.hpp"
#include "layout/bounds.hpp"
#include "plan/axis_overlap.hpp"
#include "plan/compile.hpp"
#include "plan/process_parts.hpp"

namespace datamover {
namespace {

using plan::GridOverlap;
using std::int64_t;

constexpr int64_t max_node_pairs = 300'000'000;  // about ten seconds

std::size_t to_index(int64_t i) {
    return static_cast<std::size_t>(i);
}

int64_t resolved_node_size(int64_t node_size, int64_t nprocs) {
    if (node_size < 0)
        throw make_error(ErrorCode::invalid_argument, "node_size is ", node_size,
                         "; it is the number of processes per node, or 0 for all on one node");
    return node_size == 0 ? std::max<int64_t>(nprocs, 1) : node_size;
}

TrafficSummary empty_summary(int64_t nprocs) {
    const std::vector<int64_t> zeros(to_index(nprocs), 0);
    TrafficSummary s;
    s.sent_elems = s.received_elems = s.kept_elems = zeros;
    s.sent_messages = s.received_messages = zeros;
    return s;
}

void set_sizes(TrafficSummary& s, const std::map<int64_t, int64_t>& sizes) {
    for (const auto& [elems, messages] : sizes)
        if (messages > 0) s.sizes.push_back({elems, messages});
    if (s.sizes.empty()) return;
    s.smallest_elems = s.sizes.front().elems;
    s.largest_elems = s.sizes.back().elems;
}

/// The grid coordinates of a rank that has a grid position.
std::optional<Point> position_of(int64_t rank, const BlockCyclic& layout) {
    const int64_t block = layout.block_of(rank);
    return block < 0 ? std::nullopt : std::optional(layout.grid_coordinates(block));
}

/// Calls visit(source rank, destination rank, elements) for the pairs of ranks in [begin, end)
/// between which something goes.
template <class Visit>
void for_each_pair(const GridOverlap& overlap, int64_t begin, int64_t end, Visit&& visit) {
    std::vector<std::optional<Point>> places;
    for (int64_t r = begin; r < end; ++r)
        places.push_back(position_of(r, overlap.layout(Side::destination)));
    for (int64_t r = begin; r < end; ++r) {
        const auto from = position_of(r, overlap.layout(Side::source));
        if (!from || overlap.elems(Side::source, *from) == 0) continue;
        overlap.for_each_destination(*from, places, [&](std::size_t i, int64_t n) {
            visit(r, begin + static_cast<int64_t>(i), n);
        });
    }
}

/// Counts what stays within a node, pair by pair: only pairs of one node are looked at.
void split_by_node(TrafficSummary& s, const GridOverlap& overlap, int64_t nprocs, int64_t node_size,
                   int64_t messages, int64_t elems) {
    if (node_size >= nprocs) {
        s.shared_messages = messages;
        s.shared_elems = elems;
        return;
    }
    if (node_size > max_node_pairs / nprocs) {
        s.nodes_known = false;
        return;
    }
    for (int64_t begin = 0; begin < nprocs; begin += node_size)
        for_each_pair(overlap, begin, std::min(begin + node_size, nprocs),
                      [&](int64_t from, int64_t to, int64_t n) {
                          if (from == to) return;
                          ++s.shared_messages;
                          s.shared_elems += n;
                      });
    s.p2p_messages = messages - s.shared_messages;
    s.p2p_elems = elems - s.shared_elems;
}

TrafficSummary summarize_grids(const GridOverlap& overlap, int64_t nprocs, int64_t node_size) {
    TrafficSummary s = empty_summary(nprocs);
    std::map<int64_t, int64_t> sizes = overlap.sizes();
    const bool sizes_known = !sizes.empty();
    int64_t messages = 0, elems = 0;
    for (int64_t r = 0; r < nprocs; ++r) {
        const auto from = position_of(r, overlap.layout(Side::source));
        const auto to = position_of(r, overlap.layout(Side::destination));
        const int64_t kept = from && to ? overlap.elems(*from, *to) : 0;
        const int64_t self = kept > 0 ? 1 : 0;
        if (self > 0 && sizes_known) --sizes[kept];
        s.kept_elems[to_index(r)] = kept;
        if (from) {
            s.sent_elems[to_index(r)] = overlap.elems(Side::source, *from) - kept;
            s.sent_messages[to_index(r)] = overlap.peers(Side::source, *from) - self;
        }
        if (to) {
            s.received_elems[to_index(r)] = overlap.elems(Side::destination, *to) - kept;
            s.received_messages[to_index(r)] = overlap.peers(Side::destination, *to) - self;
        }
        messages += s.sent_messages[to_index(r)];
        elems += s.sent_elems[to_index(r)];
    }
    set_sizes(s, sizes);
    if (!sizes_known && messages > 0)
        std::tie(s.smallest_elems, s.largest_elems) = overlap.size_bounds();
    split_by_node(s, overlap, nprocs, node_size, messages, elems);
    return s;
}

TrafficSummary summarize_parts(const MotionPlan& plan, int64_t node_size) {
    TrafficSummary s = empty_summary(plan.nprocs());
    std::map<int64_t, int64_t> sizes;
    for (int64_t r = 0; r < plan.nprocs(); ++r)
        for (const PeerPart& peer : plan.outgoing(r)) {
            const int64_t n = peer.part.size();
            if (peer.rank == r) {
                s.kept_elems[to_index(r)] += n;
                continue;
            }
            ++sizes[n];
            ++s.sent_messages[to_index(r)];
            ++s.received_messages[to_index(peer.rank)];
            s.sent_elems[to_index(r)] += n;
            s.received_elems[to_index(peer.rank)] += n;
            const bool near = peer.rank / node_size == r / node_size;
            (near ? s.shared_messages : s.p2p_messages) += 1;
            (near ? s.shared_elems : s.p2p_elems) += n;
        }
    set_sizes(s, sizes);
    return s;
}

}  // namespace

TrafficSummary summarize_traffic(const MotionPlan& plan, int64_t node_size) {
    const int64_t per_node = resolved_node_size(node_size, plan.nprocs());
    const auto overlap = GridOverlap::of(plan);
    return overlap ? summarize_grids(*overlap, plan.nprocs(), per_node)
                   : summarize_parts(plan, per_node);
}

// Explanation of the pairs of a plan and the encodings of their relations.

namespace {

/// How far a plan's sections reach outside the blocks of one side.
struct Ghosts {
    Point lower, upper;

    explicit Ghosts(const Layout& layout)
        : lower(Point::filled(layout.has_products() ? layout.dims() : 1, 0)), upper(lower) {}
    void widen(const Point& to_lower, const Point& to_upper) {
        for (int d = 0; d < lower.dims(); ++d) {
            lower[d] = std::max(lower[d], to_lower[d]);
            upper[d] = std::max(upper[d], to_upper[d]);
        }
    }
    void widen(const FloorPlan& floorplan, int64_t block, const Region& section) {
        if (section.empty()) return;
        const Region held = floorplan.region(block);
        widen(held.lo() - section.lo(), section.hi() - held.hi());
    }
};

/// Makes pairs of one plan into rows of a table.
class PairLister {
public:
    PairLister(const MotionPlan& plan, int64_t elem_bytes)
        : plan_(plan),
          elem_bytes_(elem_bytes),
          ghosts_{Ghosts(plan.source()), Ghosts(plan.destination())} {
        if (elem_bytes < 1)
            throw make_error(ErrorCode::invalid_argument, "elem_bytes is ", elem_bytes,
                             "; it must be at least 1");
        for (int64_t i = 0; i < plan.size(); ++i)
            std::visit([this](const auto& term) { take_ghosts(term); }, plan[i]);
    }

    /// The pairs of a rank that is on this side.
    void list(Side side, int64_t rank, PairTable& table) const {
        PerSide<MemoryLayout> memory;
        PerSide<int64_t> ranks;
        memory[side] = memory_of(side, rank);
        ranks[side] = rank;
        for (const PeerPart& peer : plan::parts_of(plan_, rank, side, {})) {
            memory[other(side)] = memory_of(other(side), peer.rank);
            ranks[other(side)] = peer.rank;
            add(table, ranks, memory, peer.part);
        }
    }

private:
    void take_ghosts(const Redistribution&) {}
    void take_ghosts(const HaloExchange& halo) {
        for (const Side side : both_sides) ghosts_[side].widen(halo.lower, halo.upper);
    }
    void take_ghosts(const SectionCopy& section) {
        if (const FloorPlan* f = plan_.source().boxes())
            ghosts_.source.widen(*f, section.source_block, section.source_region);
        if (const FloorPlan* f = plan_.destination().boxes())
            ghosts_.destination.widen(*f, section.destination_block, section.destination_region);
    }
    MemoryLayout memory_of(Side side, int64_t rank) const {
        return dense_memory(plan_.layout(side), rank, elem_bytes_, ElementOrder::row_major,
                            ghosts_[side].lower, ghosts_[side].upper);
    }
    void add(PairTable& table, const PerSide<int64_t>& ranks, const PerSide<MemoryLayout>& memory,
             const PairPart& part) const {
        const auto side = [&](Side of) {
            return plan::RelationSide{&plan_.layout(of), &memory[of], elem_bytes_, ranks[of]};
        };
        const AddressRelation relation =
            plan::compile(part, side(Side::source), side(Side::destination));
        if (relation.empty()) return;
        table.source.push_back(ranks.source);
        table.destination.push_back(ranks.destination);
        table.elems.push_back(relation.size());
        table.encoding.push_back(relation.encoding());
        table.relation_bytes.push_back(relation.nbytes());
    }

    const MotionPlan& plan_;
    int64_t elem_bytes_;
    PerSide<Ghosts> ghosts_;
};

}  // namespace

PairTable explain_pairs(const MotionPlan& plan, int64_t elem_bytes) {
    const PairLister lister(plan, elem_bytes);
    PairTable table;
    for (int64_t rank = 0; rank < plan.nprocs(); ++rank) lister.list(Side::source, rank, table);
    return table;
}

RankExplanation explain_rank(const MotionPlan& plan, int64_t rank, int64_t elem_bytes) {
    layout::check_number("rank", rank, plan.nprocs());
    const PairLister lister(plan, elem_bytes);
    RankExplanation explanation;
    lister.list(Side::source, rank, explanation.outgoing);
    lister.list(Side::destination, rank, explanation.incoming);
    return explanation;
}

// Traffic matrix between groups of processes.

namespace {

/// At most max_groups ranges of nearly equal length.
std::vector<int64_t> group_bounds(int64_t nprocs, int64_t max_groups) {
    const int64_t groups = std::min(nprocs, max_groups);
    std::vector<int64_t> bounds;
    for (int64_t g = 0; g <= groups; ++g)
        bounds.push_back(nprocs / groups * g + std::min(g, nprocs % groups));
    return bounds;
}

void sum_over_grids(TrafficMatrix& m, const GridOverlap& overlap) {
    const std::size_t groups = m.bounds.size() - 1;
    if (m.bounds.back() == m.groups())  // single ranks, as relabeling needs it
        return for_each_pair(overlap, 0, m.groups(), [&](int64_t from, int64_t to, int64_t n) {
            m.elems[to_index(from * m.groups() + to)] = n;
        });
    PerSide<std::vector<std::vector<GridOverlap::Box>>> below;  // each bound but the first
    for (const Side side : both_sides)
        for (std::size_t g = 1; g <= groups; ++g)
            below[side].push_back(overlap.boxes_below(side, m.bounds[g]));
    // The elements between groups, from those between all groups below two bounds.
    std::vector<int64_t> row(groups, 0), row_below = row;
    const auto in_row = [&](std::size_t k) { return row[k] - row_below[k]; };
    for (std::size_t s = 0; s < groups; ++s) {
        for (std::size_t t = 0; t < groups; ++t) {
            row[t] = overlap.elems(below.source[s], below.destination[t]);
            m.elems[s * groups + t] = in_row(t) - (t > 0 ? in_row(t - 1) : 0);
        }
        row_below = row;
    }
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
    if (overlap && overlap->layout(Side::source).ranks().empty() &&
        overlap->layout(Side::destination).ranks().empty())
        sum_over_grids(m, *overlap);
    else
        sum_over_parts(m, plan);
    return m;
}

}  // namespace datamover
