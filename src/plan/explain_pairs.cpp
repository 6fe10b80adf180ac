// SPDX-License-Identifier: BSD-3-Clause
// Explanation of the pairs of a plan and the encodings of their relations.
#include <algorithm>

#include "datamover/explain.hpp"
#include "datamover/memory_layout.hpp"
#include "geometry/make_error.hpp"
#include "plan/compile.hpp"

namespace datamover {
namespace {

using std::int64_t;

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
          source_ghosts_(plan.source()),
          destination_ghosts_(plan.destination()) {
        if (elem_bytes < 1)
            throw make_error(ErrorCode::invalid_argument, "elem_bytes is ", elem_bytes,
                             "; it must be at least 1");
        for (int64_t i = 0; i < plan.size(); ++i)
            std::visit([this](const auto& term) { take_ghosts(term); }, plan[i]);
    }

    void list_outgoing(int64_t rank, PairTable& table) const {
        const MemoryLayout memory = source_memory(rank);
        for (const PeerPart& peer : plan_.outgoing(rank))
            add(table, rank, memory, peer.rank, destination_memory(peer.rank), peer.part);
    }
    void list_incoming(int64_t rank, PairTable& table) const {
        const MemoryLayout memory = destination_memory(rank);
        for (const PeerPart& peer : plan_.incoming(rank))
            add(table, peer.rank, source_memory(peer.rank), rank, memory, peer.part);
    }

private:
    void take_ghosts(const Redistribution&) {}
    void take_ghosts(const HaloExchange& halo) {
        source_ghosts_.widen(halo.lower, halo.upper);
        destination_ghosts_.widen(halo.lower, halo.upper);
    }
    void take_ghosts(const SectionCopy& section) {
        if (const FloorPlan* f = plan_.source().boxes())
            source_ghosts_.widen(*f, section.source_block, section.source_region);
        if (const FloorPlan* f = plan_.destination().boxes())
            destination_ghosts_.widen(*f, section.destination_block, section.destination_region);
    }
    MemoryLayout source_memory(int64_t rank) const {
        return dense_memory(plan_.source(), rank, elem_bytes_, ElementOrder::row_major,
                            source_ghosts_.lower, source_ghosts_.upper);
    }
    MemoryLayout destination_memory(int64_t rank) const {
        return dense_memory(plan_.destination(), rank, elem_bytes_, ElementOrder::row_major,
                            destination_ghosts_.lower, destination_ghosts_.upper);
    }
    void add(PairTable& table, int64_t from, const MemoryLayout& from_memory, int64_t to,
             const MemoryLayout& to_memory, const PairPart& part) const {
        const AddressRelation relation =
            plan::compile(part, {&plan_.source(), &from_memory, elem_bytes_, from},
                          {&plan_.destination(), &to_memory, elem_bytes_, to});
        if (relation.empty()) return;
        table.source.push_back(from);
        table.destination.push_back(to);
        table.elems.push_back(relation.size());
        table.encoding.push_back(relation.encoding());
        table.relation_bytes.push_back(relation.nbytes());
    }

    const MotionPlan& plan_;
    int64_t elem_bytes_;
    Ghosts source_ghosts_, destination_ghosts_;
};

}  // namespace

PairTable explain_pairs(const MotionPlan& plan, int64_t elem_bytes) {
    const PairLister lister(plan, elem_bytes);
    PairTable table;
    for (int64_t rank = 0; rank < plan.nprocs(); ++rank) lister.list_outgoing(rank, table);
    return table;
}

RankExplanation explain_rank(const MotionPlan& plan, int64_t rank, int64_t elem_bytes) {
    if (rank < 0 || rank >= plan.nprocs())
        throw make_error(ErrorCode::out_of_range, "rank ", rank, " is not in 0 .. ",
                         plan.nprocs() - 1);
    const PairLister lister(plan, elem_bytes);
    RankExplanation explanation;
    lister.list_outgoing(rank, explanation.outgoing);
    lister.list_incoming(rank, explanation.incoming);
    return explanation;
}

}  // namespace datamover
