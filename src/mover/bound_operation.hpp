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
        for (Binding& phase : bindings) phase.complete.assign(phase.transports.size(), 0);
        phases_ = std::move(bindings);
        now_ = 0;
    }
    /// Gives back what the bindings hold, but for the counters.
    void unlock() noexcept {
        for (Binding& phase : phases_) {
            Binding bound;  // destroyed, not assigned to: the transports go first
            bound.per_round = phase.per_round;
            std::swap(phase, bound);
        }
    }
    const std::vector<Binding>& phases() const { return phases_; }

    void announce() override {
        now_ = 0;
        for (const auto& t : phases_[now_].transports) t->announce();
    }
    void begin() override {
        Binding& phase = phases_[now_];
        for (std::size_t i = 0; i < phase.complete.size(); ++i) {
            phase.complete[i] = 0;
            phase.transports[i]->start();
        }
    }
    /// What the last phase brought here is read by the next one, which is therefore told to peers
    /// only when it can begin.
    Progress progress() override {
        Progress made = progress_of(phases_[now_]);
        while (made == Progress::complete && now_ + 1 < phases_.size()) {
            ++now_;
            for (const auto& t : phases_[now_].transports) t->announce();
            begin();
            made = progress_of(phases_[now_]);
            if (made == Progress::none) made = Progress::some;
        }
        return made;
    }
    std::vector<std::int64_t> waiting_for() const override {
        const Binding& phase = phases_[now_];
        std::vector<std::int64_t> peers;
        for (std::size_t i = 0; i < phase.complete.size(); ++i) {
            if (phase.complete[i]) continue;
            const auto more = phase.transports[i]->waiting_for();
            peers.insert(peers.end(), more.begin(), more.end());
        }
        return peers;
    }
    bool sends_messages() const override {
        return std::ranges::any_of(phases_, &Binding::sends_messages);
    }
    bool needs_polls() const override {
        return std::ranges::any_of(phases_, [](const Binding& phase) {
            return std::ranges::any_of(phase.transports,
                                       [](const auto& t) { return t->needs_polls(); });
        });
    }
    void keep_memory() noexcept override {
        for (const Binding& phase : phases_) {
            // Peers that are in the midst of a copy hear that this process takes no part any more.
            if (phase.signals != nullptr) transport::retire_signal_lines(phase.signals);
            for (const auto& memory : phase.memory) group_->keep(memory);
        }
    }

private:
    static Progress progress_of(Binding& phase) {
        bool all = true, any = false;
        for (std::size_t i = 0; i < phase.complete.size(); ++i) {
            if (phase.complete[i]) continue;
            const Progress made = phase.transports[i]->progress();
            any = any || made != Progress::none;
            phase.complete[i] = made == Progress::complete;
            all = all && phase.complete[i];
        }
        if (all) return Progress::complete;
        return any ? Progress::some : Progress::none;
    }

    mpi::ProcessGroupPtr group_;
    std::vector<Binding> phases_;  ///< at least one where it is started
    std::size_t now_ = 0;          ///< the phase that goes on
};

}  // namespace datamover
