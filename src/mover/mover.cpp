// SPDX-License-Identifier: BSD-3-Clause
// How is a plan carried out between two arrays, again and again?
#include "datamover/mover.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "binding.hpp"
#include "mpi/waiting.hpp"

namespace datamover {

struct Mover::State {
    mpi::ProcessGroupPtr group;
    ProcessPlan plan;
    MoverOptions options;
    ArrayPart source, destination;
    BoundTransports bound;
    MoverCounters counters;
    std::vector<bool> complete;  ///< per transport, in this round
    int spins = 0;
    bool in_flight = false;
    bool freed = false;

    void bind(const ArrayPart& from, const ArrayPart& to) {
        BoundTransports fresh = bind_transports(group, plan, from, to, options);
        source = from;
        destination = to;
        bound = std::move(fresh);
        complete.assign(bound.transports.size(), false);
    }

    /// Runs a part of a round. Where it fails, all processes are told and the round is over.
    template <class Work>
    auto in_round(Work&& work) {
        try {
            return work();
        } catch (const Error& e) {
            in_flight = false;
            group->fail(e);
            // Peers that do not know yet may still write there.
            for (const auto& memory : {bound.control, source.allocation, destination.allocation})
                group->keep(memory);
            throw;
        }
    }

    void begin() {
        group->check_alive();
        in_flight = true;
        std::fill(complete.begin(), complete.end(), false);
        in_round([&] {
            for (const auto& t : bound.transports) t->announce();
            for (const auto& t : bound.transports) t->start();
        });
    }

    bool progress() {
        return in_round([&] {
            const bool done = progress_transports();
            if (!done) group->check_alive_while_waiting();
            return done;
        });
    }

    bool progress_transports() {
        bool all = true;
        for (std::size_t i = 0; i < complete.size(); ++i) {
            if (!complete[i]) complete[i] = bound.transports[i]->progress();
            all = all && complete[i];
        }
        if (all) {
            in_flight = false;
            ++counters.rounds;
        }
        return all;
    }

    std::string waiting_for() const {
        std::vector<std::int64_t> peers;
        for (std::size_t i = 0; i < complete.size(); ++i) {
            if (complete[i]) continue;
            const auto more = bound.transports[i]->waiting_for();
            peers.insert(peers.end(), more.begin(), more.end());
        }
        std::sort(peers.begin(), peers.end());
        peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
        std::string text;
        for (const std::int64_t peer : peers)
            text += (text.empty() ? "" : ", ") + std::to_string(peer);
        return text;
    }
};

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Turns of spinning before the processor is given away; few when there are fewer cores than
/// processes on the node.
int spins_for(std::size_t node_processes) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return static_cast<long>(node_processes) > cores ? 16 : 4096;
}

}  // namespace

Mover::Mover(MPI_Comm comm, const MotionPlan& plan, const ArrayPart& source,
             const ArrayPart& destination, const MoverOptions& options)
    : state_(std::make_shared<State>()) {
    State& s = *state_;
    s.group = mpi::ProcessGroup::of(comm);
    s.options = options;
    s.plan = plan_for_process(*s.group, plan, options);
    s.bind(source, destination);
    s.counters = s.bound.per_round;
    s.spins = spins_for(static_cast<std::size_t>(s.group->node_ranks().size()));
}

Mover::Mover(MPI_Comm comm, const MotionPlan& plan, const XArray& source, const XArray& destination,
             const MoverOptions& options)
    : Mover(comm, plan, source.part(), destination.part(), options) {}

void Mover::rebind(const ArrayPart& source, const ArrayPart& destination) {
    if (!state_ || state_->freed || state_->in_flight)
        throw Error(ErrorCode::invalid_state, "a mover in flight (or freed) cannot be bound again");
    state_->bind(source, destination);
}

void Mover::start() {
    if (!state_ || state_->freed)
        throw Error(ErrorCode::invalid_state, "the mover is not bound (or was freed)");
    State& s = *state_;
    if (s.in_flight) throw Error(ErrorCode::invalid_state, "start was called twice without wait");
    s.begin();
}

bool Mover::test() {
    if (!in_flight()) throw Error(ErrorCode::invalid_state, "test was called without start");
    return state_->progress();
}

void Mover::wait(std::optional<double> timeout_seconds) {
    if (!in_flight()) throw Error(ErrorCode::invalid_state, "wait was called without start");
    State& s = *state_;
    if (s.progress()) return;
    const auto began = Clock::now();
    Backoff backoff(s.spins);
    while (!s.progress()) {
        backoff.pause();
        if (timeout_seconds && seconds_since(began) > *timeout_seconds) {
            s.counters.wait_seconds += seconds_since(began);
            throw Error(ErrorCode::timeout, "process " + std::to_string(s.group->rank()) +
                                                " waited " + std::to_string(*timeout_seconds) +
                                                " s and still waits for processes " +
                                                s.waiting_for());
        }
    }
    s.counters.wait_seconds += seconds_since(began);
}

void Mover::operator()() {
    start();
    wait();
}

bool Mover::in_flight() const {
    return state_ && state_->in_flight;
}

MoverCounters Mover::counters() const {
    return state_ ? state_->counters : MoverCounters{};
}

std::vector<MoverLeg> Mover::legs() const {
    return state_ ? state_->bound.legs() : std::vector<MoverLeg>{};
}

std::int64_t Mover::extra_bytes() const {
    std::int64_t bytes = 0;
    if (state_)
        for (const auto& t : state_->bound.transports) bytes += t->extra_bytes();
    return bytes;
}

void Mover::free() {
    if (!state_) return;
    if (state_->in_flight)
        throw Error(ErrorCode::invalid_state, "a mover in flight cannot be freed: wait first");
    state_->bound.transports.clear();
    state_->complete.clear();
    state_->source = state_->destination = {};
    state_->freed = true;
}

}  // namespace datamover
