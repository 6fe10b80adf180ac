// SPDX-License-Identifier: BSD-3-Clause
// Explicit section copies of a plan, and composition of two plans.
#include <algorithm>
#include <map>
#include <utility>

#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "section_cursor.hpp"
#include "section_piece.hpp"

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

/// Counts what composing two plans looks at.
class PairLimit {
public:
    explicit PairLimit(std::int64_t most) : most_(most), left_(most) {}
    void take(std::size_t pairs) {
        if (pairs > static_cast<std::uint64_t>(std::max<std::int64_t>(left_, 0)))
            throw make_error(ErrorCode::out_of_range, "composing these plans looks at more than ",
                             most_, " pairs of sections; allow more, or move in two steps");
        left_ -= static_cast<std::int64_t>(pairs);
    }

private:
    std::int64_t most_, left_;
};

}  // namespace

void MotionPlan::for_each_section(const std::function<void(const SectionCopy&)>& visit,
                                  std::int64_t source_rank, std::int64_t destination_rank) const {
    plan::SectionCursor cursor(*this, source_rank, destination_rank);
    for (SectionCopy section; cursor.next(section);) visit(section);
}

MotionPlan MotionPlan::filter(const std::function<bool(const SectionCopy&)>& keep) const {
    MotionPlan result(source_, destination_);
    for (const PlanTerm& term : terms_) {
        MotionPlan alone(source_, destination_);
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
    if (!(destination_ == next.source_))
        throw Error(ErrorCode::mismatch,
                    "the first plan's destination layout is not the next plan's source layout");
    PairLimit limit(most_pairs);
    std::map<std::int64_t, std::vector<SectionCopy>> by_block;
    next.for_each_section([&](const SectionCopy& s) {
        limit.take(1);
        check_composable(s);
        by_block[s.source_block].push_back(s);
    });
    MotionPlan result(source_, next.destination_);
    for_each_section([&](const SectionCopy& first) {
        limit.take(1);
        check_composable(first);
        const auto found = by_block.find(first.destination_block);
        if (found == by_block.end()) return;
        limit.take(found->second.size());
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
