// SPDX-License-Identifier: BSD-3-Clause
// The parts that one process sends and receives under a plan.
#include <algorithm>
#include <utility>

#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "geometry/make_error.hpp"
#include "ghost_boxes.hpp"
#include "halo_colours.hpp"
#include "in_place.hpp"
#include "part_builder.hpp"
#include "redistribution.hpp"
#include "section_piece.hpp"
#include "term_index.hpp"

namespace datamover {
namespace {

/// Gathers the pieces of one process for one side of a plan, term by term. On the source side it is
/// the process that sends.
class PartCollector {
public:
    PartCollector(const MotionPlan& plan, std::int64_t rank, Side side, plan::Nodes nodes,
                  bool in_place = false)
        : source_(plan.source()),
          destination_(plan.destination()),
          rank_(rank),
          side_(side),
          nodes_(nodes),
          in_place_(in_place) {
        if (!nodes.empty() && static_cast<std::int64_t>(nodes.size()) != plan.nprocs())
            throw make_error(ErrorCode::mismatch, "the nodes of ", nodes.size(),
                             " ranks were given, the plan is for ", plan.nprocs());
        if (rank < 0 || rank >= plan.nprocs())
            throw make_error(ErrorCode::out_of_range, "rank ", rank, " is not in 0..",
                             plan.nprocs() - 1);
        for (const std::int64_t i : plan::TermIndex::terms_of(plan, rank, side)) {
            term_ = i;
            std::visit([this](const auto& term) { collect(term); }, plan[i]);
        }
    }

    std::vector<PeerPart> build() { return builder_.build(); }

private:
    void add(const BlockPair& blocks, const plan::PieceContent& content) {
        builder_.add(owner(other(side_), blocks), term_, blocks, content);
    }

    void collect(const SectionCopy& section) {
        const BlockPair blocks{section.source_block, section.destination_block};
        if (section.source_region.empty() || owner(side_, blocks) != rank_) return;
        plan::visit_section(source_, destination_, section,
                            [this](const BlockPair& b, const auto& content) { add(b, content); });
    }

    void collect(const Redistribution& r) {
        if (r.source_region.empty()) return;
        const plan::VisitPiece keep = [this](const BlockPair& blocks, const auto& content) {
            if (!in_place_ || !plan::is_identity(blocks, content)) add(blocks, content);
        };
        const plan::Layouts layouts{&source_, &destination_};
        for (const std::int64_t block : layouts[side_]->blocks_of(rank_))
            plan::visit_pieces(layouts, r, side_, block, nodes_, keep);
    }

    /// The side with the ghosts expands its own blocks, and so does the other one unless images
    /// overlap: then it expands the blocks whose ghosts may touch its interiors, and keeps what
    /// concerns it.
    void collect(const HaloExchange& halo) {
        const FloorPlan& fp = *source_.boxes();
        const auto own_blocks = fp.blocks_of(rank_);
        const bool own_ghosts = (side_ == Side::destination) != halo.reversed;
        plan::GhostBoxes ghosts(fp, halo);
        const auto owners = fp.owners();
        const auto visit = [&](const BlockPair& blocks, const plan::PieceContent& content) {
            if (halo.reversed)
                plan::visit_exchanged(blocks, content,
                                      [this](const auto& b, const auto& c) { add(b, c); });
            else
                add(blocks, content);
        };
        const auto keep = [&](const BlockPair& blocks, std::span<const PartAxis> box) {
            const BlockPair here = halo.reversed ? blocks.exchanged() : blocks;
            if (owners[static_cast<std::size_t>(here.block(side_))] != rank_) return;
            if (halo.colours > 1)
                plan::for_each_coloured_product(fp, halo, blocks, box, visit);
            else
                visit(blocks, {box});
        };
        if (own_ghosts) {
            for (const std::int64_t block : own_blocks) ghosts.into(block, keep);
        } else if (ghosts.images_are_disjoint()) {
            for (const std::int64_t block : own_blocks) ghosts.out_of(block, keep);
        } else {
            std::vector<std::int64_t> readers;
            for (const std::int64_t block : own_blocks) ghosts.add_readers_of(block, readers);
            std::ranges::sort(readers);
            readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
            for (const std::int64_t block : readers) ghosts.into(block, keep);
        }
    }

    std::int64_t owner(Side side, const BlockPair& blocks) const {
        return (side == Side::source ? source_ : destination_).owner(blocks.block(side));
    }

    const Layout& source_;
    const Layout& destination_;
    std::int64_t rank_;
    Side side_;
    plan::Nodes nodes_;
    bool in_place_;
    std::int64_t term_ = 0;
    plan::PartBuilder builder_;
};

}  // namespace

std::vector<PeerPart> MotionPlan::outgoing(std::int64_t rank,
                                           std::span<const std::int64_t> nodes) const {
    return PartCollector(*this, rank, Side::source, nodes).build();
}

std::vector<PeerPart> MotionPlan::incoming(std::int64_t rank,
                                           std::span<const std::int64_t> nodes) const {
    return PartCollector(*this, rank, Side::destination, nodes).build();
}

std::vector<PeerPart> plan::outgoing_in_place(const MotionPlan& plan, std::int64_t rank,
                                              Nodes nodes) {
    return PartCollector(plan, rank, Side::source, nodes, true).build();
}

std::vector<PeerPart> plan::incoming_in_place(const MotionPlan& plan, std::int64_t rank,
                                              Nodes nodes) {
    return PartCollector(plan, rank, Side::destination, nodes, true).build();
}

PairPart MotionPlan::part(std::int64_t source_rank, std::int64_t destination_rank) const {
    for (PeerPart& peer : outgoing(source_rank))
        if (peer.rank == destination_rank) return std::move(peer.part);
    destination_.blocks_of(destination_rank);
    return {};
}

}  // namespace datamover
