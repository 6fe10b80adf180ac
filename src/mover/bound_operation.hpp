// SPDX-License-Identifier: BSD-3-Clause
// Execution of a bound mover in a round.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "binding.hpp"
#include "round.hpp"

namespace datamover {

/// A bound mover as something that goes in rounds: its phases, one after the other.
class BoundOperation final : public Operation {
public:
    explicit BoundOperation(mpi::ProcessGroupPtr group) : group_(std::move(group)) {}

    void take(std::vector<Binding> bindings) {
        phases_.clear();
        for (Binding& binding : bindings) {
            std::vector<char> complete(binding.transports.size(), 0);
            phases_.push_back({std::move(binding), std::move(complete)});
        }
        now_ = 0;
    }
    /// Gives back what the bindings hold, but for the counters.
    void unlock() noexcept {
        for (Phase& phase : phases_) {
            const MoverCounters counters = phase.binding.per_round;
            phase = {};
            phase.binding.per_round = counters;
        }
    }
    template <class Visit>
    void for_each_binding(Visit&& visit) const {
        for (const Phase& phase : phases_) visit(phase.binding);
    }

    /// Takes the tickets of all phases: at the start of a mover all processes take theirs in the
    /// same order.
    void announce() override {
        for (Phase& phase : phases_) phase.take_tickets();
        now_ = 0;
        phases_[now_].announce();
    }
    void begin() override { phases_[now_].begin(); }
    /// What the last phase brought here is read by the next one, which is therefore told to peers
    /// only when it can begin.
    Progress progress() override {
        Progress made = phases_[now_].progress();
        while (made == Progress::complete && now_ + 1 < phases_.size()) {
            ++now_;
            phases_[now_].announce();
            phases_[now_].begin();
            made = phases_[now_].progress();
            if (made == Progress::none) made = Progress::some;
        }
        return made;
    }
    std::vector<std::int64_t> waiting_for() const override { return phases_[now_].waiting_for(); }
    bool sends_messages() const override {
        return std::ranges::any_of(phases_,
                                   [](const Phase& phase) { return phase.binding.sends_messages; });
    }
    bool needs_polls() const override {
        return std::ranges::any_of(phases_, [](const Phase& phase) {
            const auto& all = phase.binding.transports;
            return std::ranges::any_of(all, [](const auto& t) { return t->needs_polls(); });
        });
    }
    void keep_memory() noexcept override {
        for (const Phase& phase : phases_) {
            phase.binding.give_up();
            for (const auto& memory : phase.binding.memory) group_->keep(memory);
        }
    }

private:
    struct Phase {
        Binding binding;
        std::vector<char> complete;  ///< per transport, in this round

        void take_tickets() {
            if (!binding.takes_turns) return;
            for (const auto& t : binding.transports) t->take_ticket();
        }
        void announce() {
            for (const auto& t : binding.transports) t->announce();
        }
        void begin() {
            for (std::size_t i = 0; i < complete.size(); ++i) {
                complete[i] = 0;
                binding.transports[i]->start();
            }
        }
        Progress progress() {
            bool all = true, any = false;
            for (std::size_t i = 0; i < complete.size(); ++i) {
                if (complete[i]) continue;
                const Progress made = binding.transports[i]->progress();
                any = any || made != Progress::none;
                complete[i] = made == Progress::complete;
                all = all && complete[i];
            }
            if (all) return Progress::complete;
            return any ? Progress::some : Progress::none;
        }
        std::vector<std::int64_t> waiting_for() const {
            std::vector<std::int64_t> peers;
            for (std::size_t i = 0; i < complete.size(); ++i) {
                if (complete[i]) continue;
                const auto more = binding.transports[i]->waiting_for();
                peers.insert(peers.end(), more.begin(), more.end());
            }
            return peers;
        }
    };

    mpi::ProcessGroupPtr group_;
    std::vector<Phase> phases_;  ///< at least one where it is started
    std::size_t now_ = 0;        ///< the phase that goes on
};

}  // namespace datamover
