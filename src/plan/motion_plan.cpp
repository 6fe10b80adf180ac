// SPDX-License-Identifier: BSD-3-Clause
// Motion plans: values that are built, read and edited.
#include "datamover/motion_plan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coverage.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"
#include "section_piece.hpp"
#include "worked_out.hpp"

namespace datamover::plan {
namespace {

WorkedOut::Terms terms_by_rank(const MotionPlan& plan) {
    WorkedOut::Terms terms;
    for (std::int64_t i = 0; i < plan.size(); ++i) {
        if (const auto* section = std::get_if<SectionCopy>(&plan[i])) {
            terms.sections.source.push_back({plan.source().owner(section->source_block), i});
            terms.sections.destination.push_back(
                {plan.destination().owner(section->destination_block), i});
        } else {
            terms.others.push_back(i);
        }
    }
    for (const Side side : both_sides)
        std::ranges::stable_sort(terms.sections[side], {}, &WorkedOut::OwnedTerm::rank);
    return terms;
}

}  // namespace

std::vector<std::int64_t> terms_of(const MotionPlan& plan, std::int64_t rank, Side side) {
    // So many terms are looked through each time: that takes less than to build an index.
    constexpr std::int64_t few_terms = 8;
    std::vector<std::int64_t> own, all;
    if (plan.size() <= few_terms) {
        for (std::int64_t i = 0; i < plan.size(); ++i) {
            const auto* s = std::get_if<SectionCopy>(&plan[i]);
            const bool sends = side == Side::source;
            if (!s ||
                plan.layout(side).owner(sends ? s->source_block : s->destination_block) == rank)
                all.push_back(i);
        }
        return all;
    }
    const auto& terms = WorkedOut::of(plan).terms.get([&] { return terms_by_rank(plan); });
    const auto& sections = terms.sections[side];
    if (sections.empty()) return terms.others;
    auto owned = std::ranges::lower_bound(sections, rank, {}, &WorkedOut::OwnedTerm::rank);
    for (; owned != sections.end() && owned->rank == rank; ++owned) own.push_back(owned->term);
    std::ranges::merge(own, terms.others, std::back_inserter(all));
    return all;
}

}  // namespace datamover::plan

namespace datamover {
namespace {

void check_same_dims(const Layout& source, const Layout& destination) {
    if (source.dims() != destination.dims())
        throw make_error(ErrorCode::mismatch, "the source layout has ", source.dims(),
                         " dimensions, the destination layout ", destination.dims());
}

/// The elements of a list are looked up one by one, so that a region towards one may reach beyond
/// the domain: nothing is held there.
void check_region(const Region& region, const Layout& layout, const Layout& other,
                  const char* side) {
    const bool may_reach_beyond = other.index_list() && region.dims() == layout.dims();
    if (!may_reach_beyond) return plan::check_region_inside(region, layout.domain(), side);
    region.size();  // flat coordinates in it have to fit 63 bits
}

void check(const Layout& source, const Layout& destination, const Redistribution& r) {
    check_same_dims(source, destination);
    check_region(r.source_region, source, destination, "source");
    check_region(r.destination_region, destination, source, "destination");
    plan::check_axes(r.axes, source.dims());
    plan::check_flip(r.flip, destination.dims());
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
PlanTerm canonical(const Layout& source, const Layout& destination, PlanTerm term) {
    if (auto* s = std::get_if<SectionCopy>(&term)) {
        for (Point* step : {&s->source_step, &s->destination_step})
            if (all_ones(*step)) *step = {};
        s->flip = plan::flips_in(s->flip,
                                 plan::strided_shape(s->destination_region, s->destination_step));
    }
    auto* r = std::get_if<Redistribution>(&term);
    if (r) r->flip = plan::flips_in(r->flip, r->destination_region.shape());
    // These hold every element of their domains; without replicas, once.
    const auto holds_all = [](const Layout& l) { return l.block_cyclic() || l.flat_cyclic(); };
    const auto once = [](const Layout& l) {
        return l.flat_cyclic() || l.block_cyclic()->replicas() == 1;
    };
    if (!r || !holds_all(source) || !holds_all(destination)) return term;
    r->reversed = false;
    if (once(source) && once(destination)) r->adjoint = false;
    return term;
}

}  // namespace

MotionPlan::MotionPlan(Layout source, Layout destination)
    : source_(std::move(source)),
      destination_(std::move(destination)),
      worked_out_(std::make_shared<plan::WorkedOut>()) {
    if (!source_.valid() || !destination_.valid())
        throw Error(ErrorCode::invalid_argument, "a plan needs a source and a destination layout");
    if (source_.nprocs() != destination_.nprocs())
        throw make_error(ErrorCode::mismatch, "the source layout is for ", source_.nprocs(),
                         " processes, the destination layout for ", destination_.nprocs());
}

void MotionPlan::add_section(std::int64_t source_block, const Region& source_region,
                             std::int64_t destination_block, const Region& destination_region,
                             const std::vector<int>& axes, const Point& source_step,
                             const Point& destination_step, const std::vector<bool>& flip) {
    add(SectionCopy{source_block, source_region, destination_block, destination_region, axes,
                    source_step, destination_step, flip});
}

namespace {

void check(const Layout& source, const Layout& destination, const SectionCopy& s) {
    plan::check_section(source, destination, s);
}
void check(const Layout& source, const Layout& destination, const HaloExchange& h) {
    if (!(source == destination))
        throw Error(ErrorCode::mismatch,
                    "a halo exchange needs one layout as source and destination");
    plan::check_halo_exchange(plan::boxes_for_halo(source).bounding_box(), h);
}

void check_term(const Layout& source, const Layout& destination, const PlanTerm& term) {
    std::visit([&](const auto& of_kind) { check(source, destination, of_kind); }, term);
}

}  // namespace

void MotionPlan::add(PlanTerm term) {
    check_term(source_, destination_, term);
    terms_.push_back(canonical(source_, destination_, std::move(term)));
    terms_changed();
}

/// What was known about the terms is forgotten; other copies of the plan keep theirs.
void MotionPlan::terms_changed() {
    if (worked_out_.use_count() != 1 || worked_out_->is_known())
        worked_out_ = std::make_shared<plan::WorkedOut>();
}

const PlanTerm& MotionPlan::operator[](std::int64_t i) const {
    if (i < 0 || i >= size())
        throw make_error(ErrorCode::out_of_range, "term ", i, " of a plan with ", size(), " terms");
    return terms_[static_cast<std::size_t>(i)];
}

void MotionPlan::erase(std::int64_t i) {
    (*this)[i];
    terms_.erase(terms_.begin() + i);
    terms_changed();
}

void MotionPlan::replace(std::int64_t i, PlanTerm term) {
    (*this)[i];
    check_term(source_, destination_, term);
    terms_[static_cast<std::size_t>(i)] = canonical(source_, destination_, std::move(term));
    terms_changed();
}

MotionPlan MotionPlan::merged(const MotionPlan& other) const {
    if (!(source_ == other.source_) || !(destination_ == other.destination_))
        throw Error(ErrorCode::mismatch, "plans between different layouts cannot be merged");
    MotionPlan result = *this;
    result.terms_.insert(result.terms_.end(), other.terms_.begin(), other.terms_.end());
    result.terms_changed();
    return result;
}

MotionPlan MotionPlan::reversed() const {
    MotionPlan result(destination_, source_);
    for (const PlanTerm& term : terms_)
        result.terms_.push_back(canonical(destination_, source_, reversed_term(term)));
    return result;
}

MotionPlan MotionPlan::adjoint() const {
    MotionPlan result = reversed();
    for (PlanTerm& term : result.terms_)
        if (auto* r = std::get_if<Redistribution>(&term)) {
            r->reversed = !r->reversed;
            r->adjoint = !r->adjoint;
            term = canonical(destination_, source_, term);
        }
    return result;
}

bool MotionPlan::operator==(const MotionPlan& other) const {
    return source_ == other.source_ && destination_ == other.destination_ && terms_ == other.terms_;
}

namespace {

std::vector<int> given_axes(const std::vector<int>& axes) {
    return std::ranges::is_sorted(axes) ? std::vector<int>{} : axes;
}

}  // namespace

MotionPlan redistribute(const Layout& source, const Region& source_region,
                        const Layout& destination, const Region& destination_region,
                        const std::vector<int>& axes, bool partial, const std::vector<bool>& flip) {
    MotionPlan plan(source, destination);
    plan::check_axes(axes, source.dims());
    plan::check_region_inside(source_region, source.domain(), "source");
    plan::check_region_inside(destination_region, destination.domain(), "destination");
    plan.add(Redistribution{source_region, destination_region, given_axes(axes), partial, false,
                            false, flip});
    return plan;
}

MotionPlan redistribute(const Layout& source, const Layout& destination,
                        const std::vector<int>& axes, bool partial) {
    if (!source.valid() || !destination.valid())
        throw Error(ErrorCode::invalid_argument,
                    "redistribute needs a source and a destination layout");
    MotionPlan plan(source, destination);
    check_same_dims(source, destination);
    plan::check_axes(axes, source.dims());
    const Region held = plan::permuted(source.domain(), axes), needed = destination.domain();
    Region moved = held.intersected(needed);
    if (!partial && !(moved == needed)) {
        if (!destination.index_list()) plan::refuse_beyond(destination, held, axes);
        moved = needed;  // the lists need only some of it
    }
    const Region from = plan::permuted(moved, plan::inverse_axes(axes));
    plan.add(Redistribution{from, moved, given_axes(axes), partial});
    return plan;
}

}  // namespace datamover
