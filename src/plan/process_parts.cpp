// SPDX-License-Identifier: BSD-3-Clause
// The parts that one process sends and receives under a plan.
#include <algorithm>
#include <tuple>
#include <utility>

#include "datamover/advanced/pair_part.hpp"
#include "datamover/motion_plan.hpp"
#include "datamover/side.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"
#include "layout/bounds.hpp"
#include "part_builder.hpp"
#include "process_parts.hpp"
#include "redistribution.hpp"
#include "section_piece.hpp"
#include "worked_out.hpp"

namespace datamover {

std::int64_t BoxShape::size() const {
    std::int64_t n = 1;
    for (const BoxAxis& a : axes()) n = geometry::multiply(n, a.length);
    return n;
}

bool BoxShape::operator==(const BoxShape& other) const {
    return dims == other.dims && std::equal(axes().begin(), axes().end(), other.axes().begin());
}

std::int64_t ProductPiece::size() const {
    std::int64_t n = 1;
    for (const PieceAxis& axis : axes) n = geometry::multiply(n, axis.table->size());
    return n;
}

std::int64_t Piece::size() const {
    return std::visit([](const auto& c) { return c.size(); }, content);
}

std::int64_t PairPart::size() const {
    std::int64_t n = 0;
    for (const Piece& piece : pieces) n = geometry::add(n, piece.size());
    return n;
}

namespace {

/// Whether each position goes to itself.
bool stays(const BoxAxis& axis) {
    return axis.source_dim == axis.destination_dim && axis.source == axis.destination;
}
bool stays(const PieceAxis& axis) {
    return axis.source_dim == axis.destination_dim && axis.source_sign == axis.destination_sign &&
           axis.table->reversed() == *axis.table;
}

/// Gathers the pieces of one process for one side of a plan, term by term. On the source side it is
/// the process that sends.
class PartCollector {
public:
    PartCollector(const MotionPlan& plan, std::int64_t rank, Side side, plan::Nodes nodes,
                  bool in_place)
        : layouts_(plan), rank_(rank), side_(side), nodes_(nodes), in_place_(in_place) {
        if (!nodes.empty() && static_cast<std::int64_t>(nodes.size()) != plan.nprocs())
            throw make_error(ErrorCode::mismatch, "the nodes of ", nodes.size(),
                             " ranks were given, the plan is for ", plan.nprocs());
        layout::check_number("rank", rank, plan.nprocs());
        for (const std::int64_t i : plan::terms_of(plan, rank, side)) {
            term_ = i;
            std::visit([this](const auto& term) { collect(term); }, plan[i]);
        }
    }

    std::vector<PeerPart> build() { return builder_.build(); }

private:
    void take(plan::BoxPiece& piece) {
        if (!stays_in_place(piece, piece.shape.axes())) add(piece, piece.shape);
    }
    void take(ProductPiece& piece) {
        if (!stays_in_place(piece, piece.axes)) add(std::move(piece));
    }
    void take(IndexPiece& piece) {
        if (in_place_ && piece.source_block == piece.destination_block) drop_what_stays(piece);
        if (piece.size() > 0) add(std::move(piece));
    }
    void take(RangesPiece& piece) { add(std::move(piece)); }

    template <class Axes>
    bool stays_in_place(const BlockPair& blocks, const Axes& axes) const {
        return in_place_ && blocks.source_block == blocks.destination_block &&
               std::ranges::all_of(axes, [](const auto& axis) { return stays(axis); });
    }
    static void drop_what_stays(IndexPiece& piece) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < piece.source.size(); ++i) {
            if (piece.source[i] == piece.destination[i]) continue;
            piece.source[kept] = piece.source[i];
            piece.destination[kept++] = piece.destination[i];
        }
        piece.source.resize(kept);
        piece.destination.resize(kept);
    }

    void add(const BlockPair& blocks, const BoxShape& box) {
        builder_.add(peer_of(blocks), term_, blocks, box);
    }

    template <class Content>
    void add(Content&& content) {
        const BlockPair blocks = content;
        builder_.add(peer_of(blocks), term_, blocks, Piece{std::forward<Content>(content)});
    }

    void collect(const SectionCopy& section) {
        const BlockPair blocks{section.source_block, section.destination_block};
        if (section.source_region.empty() || owner(side_, blocks) != rank_) return;
        const plan::LocalSection local = plan::local_section(layouts_, section);
        if (plan::has_steps(section) || !section.flip.empty())
            add(local.product(section));
        else if (local.is_box(section))
            add(blocks, local.box(section));
        else
            add(ReshapePiece{blocks, local.source, local.destination});
    }

    void collect(const Redistribution& r) {
        if (r.source_region.empty()) return;
        // Ranges hold each element once. Their pieces are not looked at one by one.
        const bool all_stays = in_place_ && layouts_.source().flat_cyclic() &&
                               layouts_.source() == layouts_.destination() &&
                               r.source_region == r.destination_region && r.axes.empty() &&
                               r.flip.empty();
        if (all_stays) return;
        for (const std::int64_t block : layouts_.layout(side_).blocks_of(rank_))
            plan::pieces_of({layouts_, r, side_, block, nodes_}, [this](plan::BlockPiece&& piece) {
                std::visit([this](auto& content) { take(content); }, piece);
            });
    }

    /// The side with the ghosts expands its own blocks, and so does the other one unless images
    /// overlap: then it expands the blocks whose ghosts may touch its interiors, and keeps what
    /// concerns it.
    void collect(const HaloExchange& halo) {
        const FloorPlan& fp = *layouts_.source().boxes();
        const auto own_blocks = fp.blocks_of(rank_);
        const bool own_ghosts = (side_ == Side::destination) != halo.reversed;
        plan::GhostBoxes ghosts(fp, halo);
        const auto owners = fp.owners();
        const auto keep = [&](BlockPair blocks, const BoxShape& box) {
            const BlockPair filled = blocks;
            if (halo.reversed) std::swap(blocks.source_block, blocks.destination_block);
            const auto owner_on = [&](Side side) {
                return owners[static_cast<std::size_t>(blocks.block(side))];
            };
            if (owner_on(side_) != rank_) return;
            if (halo.colors > 1)
                plan::for_each_section(fp, halo, filled, box,
                                       [&](const SectionCopy& section) { collect(section); });
            else
                builder_.add(owner_on(other(side_)), term_, blocks,
                             halo.reversed ? plan::reversed(box) : box);
        };
        if (own_ghosts) {
            for (const std::int64_t block : own_blocks) ghosts.into(block, keep);
        } else if (ghosts.images_are_disjoint()) {
            for (const std::int64_t block : own_blocks) ghosts.out_of(block, keep);
        } else {
            for (const std::int64_t block : ghosts.readers_of(own_blocks)) ghosts.into(block, keep);
        }
    }

    std::int64_t owner(Side side, const BlockPair& blocks) const {
        return layouts_.layout(side).owner(blocks.block(side));
    }
    std::int64_t peer_of(const BlockPair& blocks) const { return owner(other(side_), blocks); }

    const PlanLayouts& layouts_;
    std::int64_t rank_;
    Side side_;
    plan::Nodes nodes_;
    bool in_place_;
    std::int64_t term_ = 0;
    plan::PartBuilder builder_;
};

}  // namespace

std::vector<PeerPart> plan::parts_of(const MotionPlan& plan, std::int64_t rank, Side side,
                                     Nodes nodes, bool in_place) {
    return PartCollector(plan, rank, side, nodes, in_place).build();
}

std::vector<PeerPart> MotionPlan::outgoing(std::int64_t rank,
                                           std::span<const std::int64_t> nodes) const {
    return plan::parts_of(*this, rank, Side::source, nodes);
}

std::vector<PeerPart> MotionPlan::incoming(std::int64_t rank,
                                           std::span<const std::int64_t> nodes) const {
    return plan::parts_of(*this, rank, Side::destination, nodes);
}

PairPart MotionPlan::part(std::int64_t source_rank, std::int64_t destination_rank) const {
    for (PeerPart& peer : outgoing(source_rank))
        if (peer.rank == destination_rank) return std::move(peer.part);
    destination().blocks_of(destination_rank);
    return {};
}

}  // namespace datamover

namespace datamover::plan {

// Choice of the replica that sends to a process.

std::int64_t nearest_replica(const BlockCyclic& layout, std::int64_t block, std::int64_t receiver,
                             Nodes nodes) {
    if (layout.replicas() == 1) return block;
    const std::int64_t grid_size = layout.num_blocks() / layout.replicas();
    const auto on_node_of_receiver = [&](std::int64_t rank) {
        return !nodes.empty() &&
               nodes[static_cast<std::size_t>(rank)] == nodes[static_cast<std::size_t>(receiver)];
    };
    const auto distance = [&](std::int64_t copy) {
        const std::int64_t rank = layout.owner(copy);
        return std::make_tuple(rank != receiver, !on_node_of_receiver(rank), rank);
    };
    std::int64_t nearest = block % grid_size;
    for (std::int64_t copy = nearest + grid_size; copy < layout.num_blocks(); copy += grid_size)
        if (distance(copy) < distance(nearest)) nearest = copy;
    return nearest;
}

}  // namespace datamover::plan
