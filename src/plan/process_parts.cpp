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
class PartCollector final : public plan::PieceVisitor {
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

    void visit(const BlockPair& blocks, const BoxShape& box) override {
        if (!in_place_ || !plan::is_identity(blocks, box)) add(blocks, box);
    }
    void visit(ProductPiece&& piece) override {
        if (!in_place_ || !plan::is_identity(piece)) add(std::move(piece));
    }
    void visit(IndexPiece&& piece) override {
        if (in_place_) plan::drop_identities(piece);
        if (piece.size() > 0) add(std::move(piece));
    }
    /// Between ranges that lie alike there are no such pieces: each moves something.
    void visit(RangesPiece&& piece) override { add(std::move(piece)); }

private:
    void add(const BlockPair& blocks, const BoxShape& box) {
        builder_.add(peer_of(blocks), term_, blocks.source_block, blocks.destination_block, box);
    }

    template <class Content>
    void add(Content&& content) {
        const BlockPair blocks = content;
        builder_.add(peer_of(blocks), term_, blocks, Piece{std::forward<Content>(content)});
    }

    void collect(const SectionCopy& section) {
        const BlockPair blocks{section.source_block, section.destination_block};
        if (section.source_region.empty() || owner_here(blocks) != rank_) return;
        const plan::LocalSection local = plan::local_section(source_, destination_, section);
        if (plan::has_steps(section) || !section.flip.empty())
            add(local.product(section));
        else if (local.is_box(section))
            add(blocks, local.box(section));
        else
            add(ReshapePiece{blocks, local.source, local.destination});
    }

    void collect(const Redistribution& r) {
        if (r.source_region.empty()) return;
        const bool sends = side_ == Side::source;
        for (const std::int64_t block : (sends ? source_ : destination_).blocks_of(rank_)) {
            if (sends)
                plan::pieces_from_source(source_, destination_, r, block, nodes_, *this);
            else
                plan::pieces_into_destination(source_, destination_, r, block, nodes_, *this);
        }
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
        const auto keep = [&](std::int64_t from, std::int64_t to, const BoxShape& box) {
            if (halo.reversed) std::swap(from, to);
            const PerSide<std::int64_t> ranks{owners[static_cast<std::size_t>(from)],
                                              owners[static_cast<std::size_t>(to)]};
            if (ranks[side_] != rank_) return;
            const std::int64_t peer = ranks[other(side_)];
            if (halo.colours > 1)
                plan::for_each_coloured_product(
                    fp, halo, {from, to}, box, [&](ProductPiece&& piece) {
                        builder_.add(peer, term_, {from, to}, Piece{std::move(piece)});
                    });
            else
                builder_.add(peer, term_, from, to, halo.reversed ? exchanged(box) : box);
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

    static BoxShape exchanged(BoxShape box) {
        for (BoxAxis& axis : box.axis) {
            std::swap(axis.source, axis.destination);
            std::swap(axis.source_dim, axis.destination_dim);
        }
        return box;
    }

    std::int64_t owner(Side side, const BlockPair& blocks) const {
        return (side == Side::source ? source_ : destination_).owner(blocks.block(side));
    }
    std::int64_t owner_here(const BlockPair& blocks) const { return owner(side_, blocks); }
    std::int64_t peer_of(const BlockPair& blocks) const { return owner(other(side_), blocks); }

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
