// SPDX-License-Identifier: BSD-3-Clause
// Motion plans: values that are built, read and edited.
#include "datamover/motion_plan.hpp"

#include <algorithm>
#include <utility>

#include "coverage.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"
#include "section_piece.hpp"
#include "worked_out.hpp"

namespace datamover::plan {
namespace {

PerSide<std::vector<WorkedOut::OwnedTerm>> terms_by_rank(const MotionPlan& plan) {
    PerSide<std::vector<WorkedOut::OwnedTerm>> terms;
    const auto rank_of = [&](const SectionCopy* section, Side side) {
        if (!section) return WorkedOut::any_rank;
        return plan.layout(side).owner(side == Side::source ? section->source_block
                                                            : section->destination_block);
    };
    for (const Side side : both_sides) {
        for (std::int64_t i = 0; i < plan.size(); ++i)
            terms[side].push_back({rank_of(std::get_if<SectionCopy>(&plan[i]), side), i});
        std::ranges::stable_sort(terms[side], {}, &WorkedOut::OwnedTerm::rank);
    }
    return terms;
}

}  // namespace

std::vector<std::int64_t> terms_of(const MotionPlan& plan, std::int64_t rank, Side side) {
    if (plan.size() == 1) return {0};  // sorting takes longer than to find that it is another's
    const auto& terms = WorkedOut::of(plan).terms.get([&] { return terms_by_rank(plan); })[side];
    std::vector<std::int64_t> found;
    for (const std::int64_t of : {WorkedOut::any_rank, rank}) {
        auto owned = std::ranges::lower_bound(terms, of, {}, &WorkedOut::OwnedTerm::rank);
        for (; owned != terms.end() && owned->rank == of; ++owned) found.push_back(owned->term);
    }
    std::ranges::sort(found);
    return found;
}

void WorkedOut::forget(MotionPlan& plan) {
    auto& known = plan.worked_out_;
    if (known.use_count() != 1 || known->terms.is_known() || known->digests.is_known())
        known = std::make_shared<WorkedOut>();
}

}  // namespace datamover::plan

namespace datamover {
namespace {

using plan::WorkedOut;

void check_same_dims(const PlanLayouts& layouts) {
    const int source = layouts.source().dims(), destination = layouts.destination().dims();
    if (source != destination)
        throw make_error(ErrorCode::mismatch, "the source layout has ", source,
                         " dimensions, the destination layout ", destination);
}

/// The elements of a list are looked up one by one, so that a region towards one may reach beyond
/// the domain: nothing is held there.
void check_region(const Region& region, const PlanLayouts& layouts, Side side) {
    const Layout& layout = layouts.layout(side);
    const bool may_reach_beyond =
        layouts.layout(other(side)).index_list() && region.dims() == layout.dims();
    if (!may_reach_beyond)
        return plan::check_region_inside(region, layout.domain(), side_name(side));
    region.size();  // flat coordinates in it have to fit 63 bits
}

void check(const PlanLayouts& layouts, const Redistribution& r) {
    check_same_dims(layouts);
    check_region(r.source_region, layouts, Side::source);
    check_region(r.destination_region, layouts, Side::destination);
    plan::check_axes(r.axes, r.source_region.dims());
    plan::check_flip(r.flip, r.source_region.dims());
    const Point shape = plan::permuted(r.source_region.shape(), r.axes);
    if (!(shape == r.destination_region.shape()))
        throw make_error(ErrorCode::mismatch, "source shape ", shape,
                         (r.axes.empty() ? "" : " (after axes)"),
                         " differs from destination shape ", r.destination_region.shape());
}

void reverse(SectionCopy& s) {
    std::swap(s.source_block, s.destination_block);
    std::swap(s.source_region, s.destination_region);
    std::swap(s.source_step, s.destination_step);
    s.axes = plan::inverse_axes(s.axes);
    s.flip = plan::permuted(s.flip, s.axes);
}
void reverse(Redistribution& r) {
    std::swap(r.source_region, r.destination_region);
    r.axes = plan::inverse_axes(r.axes);
    r.flip = plan::permuted(r.flip, r.axes);
    r.reversed = !r.reversed;
}
void reverse(HaloExchange& h) {
    h.reversed = !h.reversed;
}

PlanTerm reversed_term(PlanTerm term) {
    std::visit([](auto& of_kind) { reverse(of_kind); }, term);
    return term;
}

bool all_ones(const Point& step) {
    return step == Point::filled(step.dims(), 1);
}

/// The term without flags that say nothing between these layouts, so that equal plans are equal.
PlanTerm canonical(const PlanLayouts& layouts, PlanTerm term) {
    if (auto* s = std::get_if<SectionCopy>(&term)) {
        for (Point* step : {&s->source_step, &s->destination_step})
            if (all_ones(*step)) *step = {};
        if (!s->flip.empty())
            s->flip = plan::flips_in(
                s->flip, plan::strided_shape(s->destination_region, s->destination_step));
    }
    auto* r = std::get_if<Redistribution>(&term);
    if (r && !r->flip.empty()) r->flip = plan::flips_in(r->flip, r->destination_region.shape());
    if (r && std::ranges::is_sorted(r->axes)) r->axes.clear();
    // These hold every element of their domains; without replicas, once.
    const auto hold = [&](std::int64_t most_replicas) {
        return std::ranges::all_of(both_sides, [&](Side side) {
            const BlockCyclic* grid = layouts.layout(side).block_cyclic();
            return grid ? grid->replicas() <= most_replicas
                        : layouts.layout(side).flat_cyclic() != nullptr;
        });
    };
    if (!r || !hold(layouts.nprocs())) return term;
    r->reversed = false;
    if (hold(1)) r->adjoint = false;
    return term;
}

void check(const PlanLayouts& layouts, const SectionCopy& s) {
    plan::check_section(layouts, s);
}
void check(const PlanLayouts& layouts, const HaloExchange& h) {
    if (!(layouts.source() == layouts.destination()))
        throw Error(ErrorCode::mismatch,
                    "a halo exchange needs one layout as source and destination");
    plan::check_halo_exchange(plan::boxes_for_halo(layouts.source()).bounding_box(), h);
}

PlanTerm checked(const PlanLayouts& layouts, PlanTerm term) {
    std::visit([&](const auto& of_kind) { check(layouts, of_kind); }, term);
    return canonical(layouts, std::move(term));
}

}  // namespace

PlanLayouts::PlanLayouts(Layout source, Layout destination)
    : layouts_{std::move(source), std::move(destination)} {
    if (!layouts_.source.valid() || !layouts_.destination.valid())
        throw Error(ErrorCode::invalid_argument, "a plan needs a source and a destination layout");
    if (layouts_.source.nprocs() != layouts_.destination.nprocs())
        throw make_error(ErrorCode::mismatch, "the source layout is for ", layouts_.source.nprocs(),
                         " processes, the destination layout for ", layouts_.destination.nprocs());
}

bool PlanLayouts::operator==(const PlanLayouts& other) const {
    return source() == other.source() && destination() == other.destination();
}

MotionPlan::MotionPlan(Layout source, Layout destination)
    : PlanLayouts(std::move(source), std::move(destination)),
      worked_out_(std::make_shared<WorkedOut>()) {}

void MotionPlan::add_section(std::int64_t source_block, const Region& source_region,
                             std::int64_t destination_block, const Region& destination_region,
                             const std::vector<int>& axes, const Point& source_step,
                             const Point& destination_step, const std::vector<bool>& flip) {
    add(SectionCopy{source_block, source_region, destination_block, destination_region, axes,
                    source_step, destination_step, flip});
}

void MotionPlan::add(PlanTerm term) {
    terms_.push_back(checked(*this, std::move(term)));
    WorkedOut::forget(*this);
}

const PlanTerm& MotionPlan::operator[](std::int64_t i) const {
    if (i < 0 || i >= size())
        throw make_error(ErrorCode::out_of_range, "term ", i, " of a plan with ", size(), " terms");
    return terms_[static_cast<std::size_t>(i)];
}

void MotionPlan::erase(std::int64_t i) {
    (*this)[i];
    terms_.erase(terms_.begin() + i);
    WorkedOut::forget(*this);
}

void MotionPlan::replace(std::int64_t i, PlanTerm term) {
    (*this)[i];
    terms_[static_cast<std::size_t>(i)] = checked(*this, std::move(term));
    WorkedOut::forget(*this);
}

MotionPlan MotionPlan::merged(const MotionPlan& other) const {
    if (!PlanLayouts::operator==(other))
        throw Error(ErrorCode::mismatch, "plans between different layouts cannot be merged");
    MotionPlan result = *this;
    result.terms_.insert(result.terms_.end(), other.terms_.begin(), other.terms_.end());
    WorkedOut::forget(result);
    return result;
}

MotionPlan MotionPlan::reversed() const {
    MotionPlan result(destination(), source());
    for (const PlanTerm& term : terms_)
        result.terms_.push_back(canonical(result, reversed_term(term)));
    return result;
}

MotionPlan MotionPlan::adjoint() const {
    MotionPlan result = reversed();
    for (PlanTerm& term : result.terms_)
        if (auto* r = std::get_if<Redistribution>(&term)) {
            r->reversed = !r->reversed;
            r->adjoint = !r->adjoint;
            term = canonical(result, term);
        }
    return result;
}

bool MotionPlan::operator==(const MotionPlan& other) const {
    return PlanLayouts::operator==(other) && terms_ == other.terms_;
}

MotionPlan redistribute(const Layout& source, const Region& source_region,
                        const Layout& destination, const Region& destination_region,
                        const std::vector<int>& axes, bool partial, const std::vector<bool>& flip) {
    MotionPlan plan(source, destination);
    plan::check_axes(axes, source.dims());
    plan::check_region_inside(source_region, source.domain(), "source");
    plan::check_region_inside(destination_region, destination.domain(), "destination");
    plan.add(Redistribution{source_region, destination_region, axes, partial, false, false, flip});
    return plan;
}

MotionPlan redistribute(const Layout& source, const Layout& destination,
                        const std::vector<int>& axes, bool partial) {
    MotionPlan plan(source, destination);
    check_same_dims(plan);
    plan::check_axes(axes, source.dims());
    const Region held = plan::permuted(source.domain(), axes), needed = destination.domain();
    Region moved = held.intersected(needed);
    if (!partial && !(moved == needed)) {
        if (!destination.index_list()) plan::refuse_beyond(destination, held, axes);
        moved = needed;  // the lists need only some of it
    }
    const Region from = plan::permuted(moved, plan::inverse_axes(axes));
    plan.add(Redistribution{from, moved, axes, partial});
    return plan;
}

}  // namespace datamover
