// SPDX-License-Identifier: BSD-3-Clause
// Summary of a plan's traffic: per process, by message size, within and between nodes.
#include <algorithm>
#include <map>

#include "datamover/explain.hpp"
#include "geometry/make_error.hpp"
#include "plan/grid_overlap.hpp"

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

/// Grid coordinates by rank, for the ranks that have a grid position.
class PositionOf {
public:
    explicit PositionOf(const BlockCyclic& layout) : layout_(layout) {}
    bool find(int64_t rank, Point& coordinates) const {
        const int64_t block = layout_.block_of(rank);
        if (block < 0) return false;
        coordinates = layout_.grid_coordinates(block);
        return true;
    }

private:
    const BlockCyclic& layout_;
};

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
    const PositionOf source_of(overlap.source()), destination_of(overlap.destination());
    std::vector<int64_t> receivers;
    std::vector<Point> places;
    for (int64_t begin = 0; begin < nprocs; begin += node_size) {
        const int64_t end = std::min(begin + node_size, nprocs);
        receivers.clear();
        places.clear();
        Point at;
        for (int64_t r = begin; r < end; ++r)
            if (destination_of.find(r, at) && overlap.destination_elems(at) > 0) {
                receivers.push_back(r);
                places.push_back(at);
            }
        for (int64_t r = begin; r < end; ++r) {
            if (!source_of.find(r, at) || overlap.source_elems(at) == 0) continue;
            overlap.for_each_destination(at, places, [&](std::size_t i, int64_t n) {
                if (receivers[i] == r) return;
                ++s.shared_messages;
                s.shared_elems += n;
            });
        }
    }
    s.p2p_messages = messages - s.shared_messages;
    s.p2p_elems = elems - s.shared_elems;
}

TrafficSummary summarize_grids(const GridOverlap& overlap, int64_t nprocs, int64_t node_size) {
    TrafficSummary s = empty_summary(nprocs);
    std::map<int64_t, int64_t> sizes = overlap.sizes();
    const bool sizes_known = !sizes.empty();
    const PositionOf source_of(overlap.source()), destination_of(overlap.destination());
    int64_t messages = 0, elems = 0;
    for (int64_t r = 0; r < nprocs; ++r) {
        Point from, to;
        const bool sends = source_of.find(r, from), receives = destination_of.find(r, to);
        const int64_t kept = sends && receives ? overlap.elems(from, to) : 0;
        const int64_t self = kept > 0 ? 1 : 0;
        if (self > 0 && sizes_known) --sizes[kept];
        s.kept_elems[to_index(r)] = kept;
        if (sends) {
            s.sent_elems[to_index(r)] = overlap.source_elems(from) - kept;
            s.sent_messages[to_index(r)] = overlap.source_peers(from) - self;
        }
        if (receives) {
            s.received_elems[to_index(r)] = overlap.destination_elems(to) - kept;
            s.received_messages[to_index(r)] = overlap.destination_peers(to) - self;
        }
        messages += s.sent_messages[to_index(r)];
        elems += s.sent_elems[to_index(r)];
    }
    set_sizes(s, sizes);
    if (!sizes_known && messages > 0) {
        s.smallest_elems = overlap.smallest();
        s.largest_elems = overlap.largest();
    }
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

}  // namespace datamover
