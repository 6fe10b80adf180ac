// SPDX-License-Identifier: BSD-3-Clause
// Which explicit section copies does a plan stand for, and what do two plans do one after the other?
#include <map>
#include <utility>

#include "datamover/error.hpp"
#include "datamover/motion_plan.hpp"
#include "halo.hpp"
#include "redistribution.hpp"
#include "section_piece.hpp"

namespace datamover {
namespace {

using Visit = std::function<void(const SectionCopy&)>;

/// The global region that local positions [local, local + length) per dimension hold.
Region global_region(const std::vector<AxisSet>& sets, const Point& local, const Point& extent) {
    Point lo = local, hi = local;
    for (int d = 0; d < local.dims(); ++d) {
        lo[d] = sets[static_cast<std::size_t>(d)].global(local[d]);
        hi[d] = lo[d] + extent[d];
    }
    return {lo, hi};
}

/// Cuts a product piece of a redistribution into the boxes of its tables' blocks.
class ProductSections {
public:
    ProductSections(const Layout& source, const Layout& destination, const std::vector<int>& axes,
                    const Piece& piece, const Visit& visit)
        : piece_(piece), product_(std::get<ProductPiece>(piece.content)), axes_(axes), visit_(visit),
          source_sets_(source.axis_sets(piece.source_block)),
          destination_sets_(destination.axis_sets(piece.destination_block)),
          from_(Point::filled(source.dims(), 0)), to_(from_), source_extent_(from_),
          destination_extent_(from_) {
        descend(0);
    }

private:
    void descend(std::size_t k) {
        if (k == product_.axes.size()) {
            visit_({piece_.source_block, global_region(source_sets_, from_, source_extent_),
                    piece_.destination_block,
                    global_region(destination_sets_, to_, destination_extent_), axes_});
            return;
        }
        const PieceAxis& axis = product_.axes[k];
        axis.table->for_each_block([&](std::int64_t s, std::int64_t d, std::int64_t length) {
            from_[axis.source_dim] = s;
            to_[axis.destination_dim] = d;
            source_extent_[axis.source_dim] = destination_extent_[axis.destination_dim] = length;
            descend(k + 1);
        });
    }

    const Piece& piece_;
    const ProductPiece& product_;
    const std::vector<int>& axes_;
    const Visit& visit_;
    std::vector<AxisSet> source_sets_, destination_sets_;
    Point from_, to_, source_extent_, destination_extent_;
};

/// The sections of one term that begin in blocks of a source rank and end in those of a destination.
class SectionWalk {
public:
    SectionWalk(const MotionPlan& plan, std::int64_t source_rank, std::int64_t destination_rank,
                const Visit& visit)
        : source_(plan.source()), destination_(plan.destination()), source_rank_(source_rank),
          destination_rank_(destination_rank), visit_(visit) {}

    void operator()(const SectionCopy& s) const {
        if (wanted(source_rank_, source_.owner(s.source_block)) &&
            wanted(destination_rank_, destination_.owner(s.destination_block)) &&
            !s.source_region.empty())
            visit_(s);
    }

    void operator()(const Redistribution& r) const {
        if (source_.index_list() || destination_.index_list())
            throw Error(ErrorCode::unsupported, "a plan with index lists has no sections");
        const auto cut = [&](Piece&& piece, std::int64_t) {
            if (wanted(destination_rank_, destination_.owner(piece.destination_block)))
                ProductSections(source_, destination_, r.axes, piece, visit_);
        };
        for (const std::int64_t block : blocks(source_, source_rank_))
            plan::pieces_from_source(source_, destination_, r, block, cut);
    }

    void operator()(const HaloExchange& halo) const {
        const FloorPlan& fp = *source_.floor_plan();
        const std::int64_t ghost_rank = halo.reversed ? source_rank_ : destination_rank_;
        for (const std::int64_t block : blocks(source_, ghost_rank)) {
            plan::halo_sections_into(fp, halo, block, [&](const SectionCopy& s) {
                (*this)(halo.reversed ? SectionCopy{s.destination_block, s.destination_region,
                                                    s.source_block, s.source_region, {}}
                                      : s);
            });
        }
    }

private:
    static bool wanted(std::int64_t rank, std::int64_t owner) { return rank < 0 || rank == owner; }

    static std::vector<std::int64_t> blocks(const Layout& layout, std::int64_t rank) {
        if (rank >= 0) return layout.blocks_of(rank);
        std::vector<std::int64_t> all;
        for (std::int64_t b = 0; b < layout.num_blocks(); ++b) all.push_back(b);
        return all;
    }

    const Layout& source_;
    const Layout& destination_;
    std::int64_t source_rank_, destination_rank_;
    const Visit& visit_;
};

/// The sub-box of `outer_image` (the image of `outer` under axes) that corresponds to `part` of
/// `outer`; dimension k of the image is dimension axes[k] of outer.
Region image_of(const Region& part, const Region& outer, const Region& outer_image,
                const std::vector<int>& axes) {
    Point lo = outer_image.lo(), hi = lo;
    for (int k = 0; k < lo.dims(); ++k) {
        const int d = axes.empty() ? k : axes[static_cast<std::size_t>(k)];
        lo[k] = outer_image.lo()[k] + part.lo()[d] - outer.lo()[d];
        hi[k] = lo[k] + part.extent(d);
    }
    return {lo, hi};
}

std::vector<int> composed_axes(const std::vector<int>& first, const std::vector<int>& next) {
    if (first.empty()) return next;
    if (next.empty()) return first;
    std::vector<int> axes;
    for (const int k : next) axes.push_back(first[static_cast<std::size_t>(k)]);
    return axes;
}

void check_no_reshape(const SectionCopy& s) {
    if (s.axes.empty() && !(s.source_region.shape() == s.destination_region.shape()))
        throw Error(ErrorCode::unsupported, "a section that changes its shape cannot be composed: " +
                                                s.source_region.to_string() + " to " +
                                                s.destination_region.to_string());
}

}  // namespace

void MotionPlan::for_each_section(const Visit& visit, std::int64_t source_rank,
                                  std::int64_t destination_rank) const {
    const SectionWalk walk(*this, source_rank, destination_rank, visit);
    for (const PlanTerm& term : terms_) std::visit(walk, term);
}

MotionPlan MotionPlan::composed(const MotionPlan& next) const {
    if (!(destination_ == next.source_))
        throw Error(ErrorCode::mismatch,
                    "the first plan's destination layout is not the next plan's source layout");
    std::map<std::int64_t, std::vector<SectionCopy>> by_block;
    next.for_each_section([&](const SectionCopy& s) {
        check_no_reshape(s);
        by_block[s.source_block].push_back(s);
    });
    MotionPlan result(source_, next.destination_);
    for_each_section([&](const SectionCopy& first) {
        check_no_reshape(first);
        const auto found = by_block.find(first.destination_block);
        if (found == by_block.end()) return;
        for (const SectionCopy& second : found->second) {
            const Region middle = first.destination_region.intersected(second.source_region);
            if (middle.empty()) continue;
            const Region from = image_of(middle, first.destination_region, first.source_region,
                                         plan::inverse_axes(first.axes));
            const Region to =
                image_of(middle, second.source_region, second.destination_region, second.axes);
            result.copy(first.source_block, from, second.destination_block, to,
                        composed_axes(first.axes, second.axes));
        }
    });
    return result;
}

}  // namespace datamover
