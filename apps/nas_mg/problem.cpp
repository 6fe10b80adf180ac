// SPDX-License-Identifier: BSD-3-Clause
// Classes of NAS MG and the positions of their charges. Source: as in problem.hpp.
#include "problem.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "arguments.hpp"
#include "nas_random.hpp"

namespace mg {
namespace {

/// A random number, and the point that has it.
using Candidate = std::pair<double, std::int64_t>;

/// Keeps the ten candidates that come first.
template <class Before>
class FirstTen {
public:
    void offer(const Candidate& candidate) {
        if (kept_.size() == 10) {
            if (!Before()(candidate, kept_.front())) return;
            std::pop_heap(kept_.begin(), kept_.end(), Before());
            kept_.pop_back();
        }
        kept_.push_back(candidate);
        std::push_heap(kept_.begin(), kept_.end(), Before());
    }
    const std::vector<Candidate>& kept() const { return kept_; }

private:
    std::vector<Candidate> kept_;  // a heap with the last of them in front
};

/// Each point gets a random number: +1 where the ten largest are, -1 at the ten smallest.
std::vector<Charge> charges_of(std::int64_t edge) {
    FirstTen<std::greater<>> largest;
    FirstTen<std::less<>> smallest;
    apps::NasRandom random;
    for (std::int64_t at = 0; at < edge * edge * edge; ++at) {
        const Candidate candidate(random.next(), at);
        largest.offer(candidate);
        smallest.offer(candidate);
    }
    std::vector<Charge> charges;
    const auto add = [&](const std::vector<Candidate>& candidates, double value) {
        for (const auto& [number, at] : candidates)
            charges.push_back({{at / (edge * edge), at / edge % edge, at % edge}, value});
    };
    add(largest.kept(), 1);
    add(smallest.kept(), -1);
    return charges;
}

Problem with_charges(Problem problem) {
    problem.charges = charges_of(problem.edge(problem.levels));
    return problem;
}

}  // namespace

Problem problem_of(const std::string& name) {
    const Smoother small{-3.0 / 8, 1.0 / 32, -1.0 / 64}, large{-3.0 / 17, 1.0 / 33, -1.0 / 61};
    if (name == "S") return with_charges({name, 5, 4, small, 0.5307707005734e-4, {}, {1, 1, 1}});
    if (name == "W") return with_charges({name, 7, 4, small, 0.6467329375339e-5, {}, {1, 1, 1}});
    if (name == "A") return with_charges({name, 8, 4, small, 0.2433365309069e-5, {}, {1, 1, 1}});
    if (name == "B") return with_charges({name, 8, 20, large, 0.1800564401355e-5, {}, {1, 1, 1}});
    throw apps::BadInput("there is no class '" + name + "' of MG here; there are S, W, A and B");
}

}  // namespace mg
