// SPDX-License-Identifier: BSD-3-Clause
// Iteration over the explicit section copies of a plan.
#include "section_cursor.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "datamover/error.hpp"
#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"
#include "redistribution.hpp"
#include "section_piece.hpp"

namespace datamover::plan {
namespace {

/// How many local positions from this one on hold neighbouring global indices.
std::int64_t neighbours_from(const AxisSet& set, std::int64_t local) {
    return set.period == set.length ? std::numeric_limits<std::int64_t>::max()
                                    : set.length - local % set.length;
}

}  // namespace

std::int64_t BoxWalk::Axis::length() const {
    // Neighbours in both local arrays may stand apart in the index space.
    std::int64_t length = cursor.left_in_block();
    for (const Side side : both_sides)
        length = std::min(length, neighbours_from(sets[side], cursor.position(side)));
    return length;
}

bool BoxWalk::Axis::next() {
    cursor.take(length(), 1);
    if (!cursor.done()) return true;
    cursor = TableCursor(*piece.table);
    return false;
}

BoxWalk::BoxWalk(const MotionPlan& plan, const Redistribution& term, const ProductPiece& product)
    : term_(&term), blocks_(product), done_(false) {
    const auto from = plan.source().axis_sets(product.source_block);
    const auto to = plan.destination().axis_sets(product.destination_block);
    for (PieceAxis axis : product.axes) {
        done_ = done_ || axis.table->empty();
        PerSide<AxisSet> sets{from[static_cast<std::size_t>(axis.source_dim)],
                              to[static_cast<std::size_t>(axis.destination_dim)]};
        PerSide<std::int64_t> shift;  // turns positions with a changed sign into mirrored ones
        for (const Side side : both_sides)
            if (axis.sign(side) < 0) {
                sets[side] = sets[side].mirrored();
                shift[side] = sets[side].local(sets[side].end - 1);
            }
        axis.table =
            std::make_shared<const AxisTable>(axis.table->shifted(shift.source, shift.destination));
        axes_.push_back({axis, sets, TableCursor(*axis.table)});
    }
}

bool BoxWalk::next(SectionCopy& section) {
    if (done_) return false;
    const int dims = static_cast<int>(axes_.size());
    PerSide<Point> lo{Point::filled(dims, 0), Point::filled(dims, 0)}, hi = lo;
    for (const Axis& a : axes_) {
        const std::int64_t length = a.length();
        for (const Side side : both_sides) {
            const std::int64_t first = a.sets[side].global(a.cursor.position(side));
            const int d = a.piece.dim(side);
            lo[side][d] = a.piece.sign(side) < 0 ? -(first + length) : first;
            hi[side][d] = lo[side][d] + length;
        }
    }
    section = {blocks_.source_block, Region(lo.source, hi.source), blocks_.destination_block,
               Region(lo.destination, hi.destination), term_->axes};
    section.flip = flips_in(term_->flip, section.destination_region.shape());
    std::size_t k = axes_.size();
    while (k > 0 && !axes_[k - 1].next()) --k;
    done_ = k == 0;
    return true;
}

SectionCursor::SectionCursor(const MotionPlan& plan, std::int64_t source_rank,
                             std::int64_t destination_rank)
    : plan_(plan), ranks_{source_rank, destination_rank} {
    for (const Side side : both_sides)
        if (ranks_[side] != any_rank) plan.layout(side).blocks_of(ranks_[side]);
}

bool SectionCursor::next(SectionCopy& section) {
    for (;;) {
        if (boxes_.next(section)) return true;
        if (!sections_.empty()) {
            section = std::move(sections_.front());
            sections_.pop_front();
            return true;
        }
        if (!pieces_.empty()) {
            boxes_ = BoxWalk(plan_, std::get<Redistribution>(plan_[term_]), pieces_.front());
            pieces_.pop_front();
        } else if (next_block_ < num_blocks_) {
            expand_next_block();
        } else if (term_ + 1 < plan_.size()) {
            ++term_;
            enter_term();
        } else {
            return false;
        }
    }
}

void SectionCursor::enter_term() {
    next_block_ = num_blocks_ = 0;
    const PlanTerm& term = plan_[term_];
    if (const auto* section = std::get_if<SectionCopy>(&term)) {
        if (!section->source_region.empty() &&
            wanted({section->source_block, section->destination_block}))
            sections_.push_back(*section);
        return;
    }
    const auto* halo = std::get_if<HaloExchange>(&term);
    if (!halo && (!plan_.source().has_products() || !plan_.destination().has_products()))
        throw Error(ErrorCode::unsupported,
                    "a plan with index lists or flat ranges has no sections");

    // A halo is expanded from the blocks with the ghosts, a redistribution from either side.
    const bool by_source =
        halo ? halo->reversed : ranks_.source != any_rank || ranks_.destination == any_rank;
    own_ = by_source ? Side::source : Side::destination;
    const Layout& layout = plan_.layout(own_);
    const std::int64_t rank = ranks_[own_], other_rank = ranks_[other(own_)];
    every_block_ = rank == any_rank && (!halo || other_rank == any_rank);
    if (rank != any_rank)
        blocks_ = layout.blocks_of(rank);
    else if (!every_block_)
        blocks_ = GhostBoxes(*layout.boxes(), *halo).readers_of(layout.blocks_of(other_rank));
    num_blocks_ = every_block_ ? layout.num_blocks() : static_cast<std::int64_t>(blocks_.size());
}

void SectionCursor::expand_next_block() {
    const std::int64_t block =
        every_block_ ? next_block_ : blocks_[static_cast<std::size_t>(next_block_)];
    ++next_block_;
    if (const auto* term = std::get_if<Redistribution>(&plan_[term_])) {
        if (!term->source_region.empty())
            pieces_of({plan_, *term, own_, block, {}}, [this](BlockPiece&& piece) {
                // Layouts with index lists, or ranges of the flattened array, have been refused.
                const auto* box = std::get_if<BoxPiece>(&piece);
                keep(box ? product_of(*box, box->shape) : std::get<ProductPiece>(std::move(piece)));
            });
        return;
    }
    const auto& halo = std::get<HaloExchange>(plan_[term_]);
    const FloorPlan& boxes = *plan_.source().boxes();
    GhostBoxes(boxes, halo).into(block, [&](const BlockPair& filled, const BoxShape& box) {
        for_each_section(boxes, halo, filled, box, [&](const SectionCopy& section) {
            if (wanted({section.source_block, section.destination_block}))
                sections_.push_back(section);
        });
    });
}

void SectionCursor::keep(ProductPiece&& piece) {
    if (wanted(piece)) pieces_.push_back(std::move(piece));
}

bool SectionCursor::wanted(const BlockPair& blocks) const {
    return std::ranges::all_of(both_sides, [&](Side side) {
        return ranks_[side] == any_rank ||
               plan_.layout(side).owner(blocks.block(side)) == ranks_[side];
    });
}

}  // namespace datamover::plan

// Explicit section copies of a plan, and composition of two plans.

namespace datamover {
namespace {

/// The sub-box of `outer_image` (the image of `outer` under axes and flip) that corresponds to
/// `part` of `outer`; dimension k of the image is dimension axes[k] of outer.
Region image_of(const Region& part, const Region& outer, const Region& outer_image,
                const std::vector<int>& axes, const std::vector<bool>& flip) {
    Point lo = outer_image.lo(), hi = lo;
    for (int k = 0; k < lo.dims(); ++k) {
        const auto i = static_cast<std::size_t>(k);
        const int d = axes.empty() ? k : axes[i];
        const bool flips = !flip.empty() && flip[i];
        lo[k] += flips ? outer.hi()[d] - part.hi()[d] : part.lo()[d] - outer.lo()[d];
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

std::vector<bool> composed_flip(const SectionCopy& first, const SectionCopy& next) {
    std::vector<bool> flip = plan::permuted(first.flip, next.axes);
    if (flip.empty()) return next.flip;
    for (std::size_t k = 0; k < next.flip.size(); ++k) flip[k] = flip[k] != next.flip[k];
    return flip;
}

void check_composable(const SectionCopy& s) {
    if (plan::has_steps(s))
        throw make_error(ErrorCode::unsupported,
                         "a section with steps cannot be composed: ", s.source_region, " to ",
                         s.destination_region);
    if (s.axes.empty() && !(s.source_region.shape() == s.destination_region.shape()))
        throw make_error(ErrorCode::unsupported,
                         "a section that changes its shape cannot be composed: ", s.source_region,
                         " to ", s.destination_region);
}

}  // namespace

void MotionPlan::for_each_section(const std::function<void(const SectionCopy&)>& visit,
                                  std::int64_t source_rank, std::int64_t destination_rank) const {
    plan::SectionCursor cursor(*this, source_rank, destination_rank);
    for (SectionCopy section; cursor.next(section);) visit(section);
}

MotionPlan MotionPlan::filter(const std::function<bool(const SectionCopy&)>& keep) const {
    MotionPlan result(source(), destination());
    for (const PlanTerm& term : terms_) {
        MotionPlan alone(source(), destination());
        alone.terms_.push_back(term);
        std::vector<PlanTerm> kept;
        bool all = true;
        alone.for_each_section([&](const SectionCopy& section) {
            if (keep(section))
                kept.push_back(section);
            else
                all = false;
        });
        if (all) kept.assign(1, term);
        result.terms_.insert(result.terms_.end(), kept.begin(), kept.end());
    }
    return result;
}

MotionPlan MotionPlan::composed(const MotionPlan& next, std::int64_t most_pairs) const {
    if (!(destination() == next.source()))
        throw Error(ErrorCode::mismatch,
                    "the first plan's destination layout is not the next plan's source layout");
    std::int64_t left = most_pairs;
    const auto look_at = [&](std::size_t pairs) {
        if (pairs > static_cast<std::uint64_t>(std::max<std::int64_t>(left, 0)))
            throw make_error(ErrorCode::out_of_range, "composing these plans looks at more than ",
                             most_pairs, " pairs of sections; allow more, or move in two steps");
        left -= static_cast<std::int64_t>(pairs);
    };
    std::map<std::int64_t, std::vector<SectionCopy>> by_block;
    next.for_each_section([&](const SectionCopy& s) {
        look_at(1);
        check_composable(s);
        by_block[s.source_block].push_back(s);
    });
    MotionPlan result(source(), next.destination());
    for_each_section([&](const SectionCopy& first) {
        look_at(1);
        check_composable(first);
        const auto found = by_block.find(first.destination_block);
        if (found == by_block.end()) return;
        look_at(found->second.size());
        for (const SectionCopy& second : found->second) {
            const Region middle = first.destination_region.intersected(second.source_region);
            if (middle.empty()) continue;
            const std::vector<int> back = plan::inverse_axes(first.axes);
            const Region from = image_of(middle, first.destination_region, first.source_region,
                                         back, plan::permuted(first.flip, back));
            const Region to = image_of(middle, second.source_region, second.destination_region,
                                       second.axes, second.flip);
            result.add_section(first.source_block, from, second.destination_block, to,
                               composed_axes(first.axes, second.axes), {}, {},
                               composed_flip(first, second));
        }
    });
    return result;
}

}  // namespace datamover
