// SPDX-License-Identifier: BSD-3-Clause
// Index of the terms of a plan that may concern a process.
#include "term_index.hpp"

#include <algorithm>
#include <iterator>

#include "worked_out.hpp"

namespace datamover::plan {
namespace {

/// So many terms are looked through each time: that takes less than to build an index.
constexpr std::int64_t few_terms = 8;

bool may_concern(const MotionPlan& plan, const PlanTerm& term, std::int64_t rank, Side side) {
    const auto* section = std::get_if<SectionCopy>(&term);
    if (section == nullptr) return true;
    const std::int64_t block =
        side == Side::source ? section->source_block : section->destination_block;
    return plan.layout(side).owner(block) == rank;
}

std::vector<std::int64_t> terms_of_few(const MotionPlan& plan, std::int64_t rank, Side side) {
    std::vector<std::int64_t> found;
    for (std::int64_t i = 0; i < plan.size(); ++i)
        if (may_concern(plan, plan[i], rank, side)) found.push_back(i);
    return found;
}

}  // namespace

std::vector<std::int64_t> TermIndex::terms_of(const MotionPlan& plan, std::int64_t rank,
                                              Side side) {
    if (plan.size() <= few_terms) return terms_of_few(plan, rank, side);
    const Terms& terms = plan.worked_out_->index.terms_.get([&] { return terms_by_rank(plan); });
    struct ByRank {
        bool operator()(const OwnedTerm& a, std::int64_t rank) const { return a.rank < rank; }
        bool operator()(std::int64_t rank, const OwnedTerm& a) const { return rank < a.rank; }
    };
    const auto& sections = terms.sections[side];
    if (sections.empty()) return terms.others;
    const auto [first, last] = std::equal_range(sections.begin(), sections.end(), rank, ByRank{});
    std::vector<std::int64_t> own, all;
    std::transform(first, last, std::back_inserter(own),
                   [](const OwnedTerm& owned) { return owned.term; });
    all.reserve(own.size() + terms.others.size());
    std::merge(own.begin(), own.end(), terms.others.begin(), terms.others.end(),
               std::back_inserter(all));
    return all;
}

TermIndex::Terms TermIndex::terms_by_rank(const MotionPlan& plan) {
    Terms terms;
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
        std::ranges::stable_sort(terms.sections[side], [](const OwnedTerm& a, const OwnedTerm& b) {
            return a.rank < b.rank;
        });
    return terms;
}

}  // namespace datamover::plan
