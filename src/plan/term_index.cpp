// SPDX-License-Identifier: BSD-3-Clause
// Which terms of a plan may concern a process?
#include "term_index.hpp"

#include <algorithm>
#include <iterator>

namespace datamover::plan {

std::vector<std::int64_t> TermIndex::terms_of(const MotionPlan& plan, std::int64_t rank,
                                              Side side) {
    if (!plan.index_) return {};
    TermIndex& index = *plan.index_;
    std::call_once(index.once_, [&] {
        index.known = true;
        index.build(plan);
    });
    struct ByRank {
        bool operator()(const OwnedTerm& a, std::int64_t rank) const { return a.rank < rank; }
        bool operator()(std::int64_t rank, const OwnedTerm& a) const { return rank < a.rank; }
    };
    const auto& sections = index.sections_[side];
    const auto [first, last] = std::equal_range(sections.begin(), sections.end(), rank, ByRank{});
    std::vector<std::int64_t> own, all;
    std::transform(first, last, std::back_inserter(own),
                   [](const OwnedTerm& owned) { return owned.term; });
    all.reserve(own.size() + index.others_.size());
    std::merge(own.begin(), own.end(), index.others_.begin(), index.others_.end(),
               std::back_inserter(all));
    return all;
}

void TermIndex::build(const MotionPlan& plan) {
    for (std::int64_t i = 0; i < plan.size(); ++i) {
        if (const auto* section = std::get_if<SectionCopy>(&plan[i])) {
            sections_.source.push_back({plan.source().owner(section->source_block), i});
            sections_.destination.push_back(
                {plan.destination().owner(section->destination_block), i});
        } else {
            others_.push_back(i);
        }
    }
    for (const Side side : both_sides)
        std::ranges::stable_sort(sections_[side], [](const OwnedTerm& a, const OwnedTerm& b) {
            return a.rank < b.rank;
        });
}

}  // namespace datamover::plan
