// SPDX-License-Identifier: BSD-3-Clause
// What does one process send and receive under a plan?
#include <set>
#include <string>
#include <utility>

#include "datamover/error.hpp"
#include "datamover/motion_plan.hpp"
#include "halo.hpp"
#include "in_place.hpp"
#include "part_builder.hpp"
#include "redistribution.hpp"
#include "section_piece.hpp"

namespace datamover {
namespace {

enum class Side { sends, receives };

/// Gathers the pieces of one process for one side of a plan, term by term.
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
            throw Error(ErrorCode::mismatch, "the nodes of " + std::to_string(nodes.size()) +
                                                 " ranks were given, the plan is for " +
                                                 std::to_string(plan.nprocs()));
        if (rank < 0 || rank >= plan.nprocs())
            throw Error(ErrorCode::out_of_range, "rank " + std::to_string(rank) + " is not in 0.." +
                                                     std::to_string(plan.nprocs() - 1));
        for (std::int64_t i = 0; i < plan.size(); ++i) {
            term_ = i;
            std::visit([this](const auto& term) { collect(term); }, plan[i]);
        }
    }

    std::vector<PeerPart> build() { return builder_.build(); }

private:
    void collect(const SectionCopy& section) { collect_section(section, 0); }

    void collect(const Redistribution& r) {
        if (r.source_region.empty()) return;
        const bool sends = side_ == Side::sends;
        const auto visit = [&](Piece&& piece, std::int64_t sequence) {
            if (in_place_ && plan::is_identity(piece)) return;
            const std::int64_t peer = sends ? destination_.owner(piece.destination_block)
                                            : source_.owner(piece.source_block);
            builder_.add(peer, term_, sequence, std::move(piece));
        };
        for (const std::int64_t block : (sends ? source_ : destination_).blocks_of(rank_)) {
            if (sends)
                plan::pieces_from_source(source_, destination_, r, block, nodes_, visit);
            else
                plan::pieces_into_destination(source_, destination_, r, block, nodes_, visit);
        }
    }

    /// The side with the ghosts expands its own blocks; the other side expands the blocks whose
    /// ghosts may touch its interiors, and keeps what concerns it.
    void collect(const HaloExchange& halo) {
        const FloorPlan& fp = *source_.boxes();
        const bool own_ghosts = (side_ == Side::receives) != halo.reversed;
        std::set<std::int64_t> ghost_blocks;
        for (const std::int64_t block : fp.blocks_of(rank_)) {
            if (own_ghosts) {
                ghost_blocks.insert(block);
            } else {
                const auto readers = plan::halo_readers_of(fp, halo, block);
                ghost_blocks.insert(readers.begin(), readers.end());
            }
        }
        for (const std::int64_t block : ghost_blocks) {
            std::int64_t sequence = 0;
            plan::halo_sections_into(fp, halo, block, [&](const SectionCopy& s) {
                collect_section(halo.reversed ? SectionCopy{s.destination_block,
                                                            s.destination_region,
                                                            s.source_block,
                                                            s.source_region,
                                                            {}}
                                              : s,
                                sequence++);
            });
        }
    }

    void collect_section(const SectionCopy& section, std::int64_t sequence) {
        const std::int64_t from = source_.owner(section.source_block);
        const std::int64_t to = destination_.owner(section.destination_block);
        if (section.source_region.empty() || (side_ == Side::sends ? from : to) != rank_) return;
        builder_.add(side_ == Side::sends ? to : from, term_, sequence,
                     plan::section_piece(source_, destination_, section));
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
    return PartCollector(*this, rank, Side::sends, nodes).build();
}

std::vector<PeerPart> MotionPlan::incoming(std::int64_t rank,
                                           std::span<const std::int64_t> nodes) const {
    return PartCollector(*this, rank, Side::receives, nodes).build();
}

std::vector<PeerPart> plan::outgoing_in_place(const MotionPlan& plan, std::int64_t rank,
                                              Nodes nodes) {
    return PartCollector(plan, rank, Side::sends, nodes, true).build();
}

std::vector<PeerPart> plan::incoming_in_place(const MotionPlan& plan, std::int64_t rank,
                                              Nodes nodes) {
    return PartCollector(plan, rank, Side::receives, nodes, true).build();
}

PairPart MotionPlan::part(std::int64_t source_rank, std::int64_t destination_rank) const {
    for (PeerPart& peer : outgoing(source_rank))
        if (peer.rank == destination_rank) return std::move(peer.part);
    destination_.blocks_of(destination_rank);
    return {};
}

}  // namespace datamover
