// SPDX-License-Identifier: BSD-3-Clause
// C interface: movers.
#include <algorithm>
#include <complex>

#include "handles.hpp"
#include "mover_options.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace datamover::capi {
namespace {

std::complex<double> factor(const double* parts) {
    return {parts[0], parts[1]};
}

template <std::size_t n>
void write_text(const std::string& text, char (&to)[n]) {
    to[text.copy(to, n - 1)] = 0;
}

}  // namespace

MoverOptions mover_options_of(const datamover_mover_options* given_options) {
    MoverOptions options;
    if (given_options && given_options->op) options.op = op_from_name(given_options->op);
    if (given_options && given_options->transport) options.transport = given_options->transport;
    if (given_options && given_options->alpha) options.alpha = factor(given_options->alpha);
    if (given_options && given_options->beta) options.beta = factor(given_options->beta);
    options.conjugate = given_options && given_options->conjugate != 0;
    if (given_options) options.max_bytes = given_options->max_bytes;
    options.check = given_options && given_options->check != 0;
    return options;
}

datamover_mover_pair described(const MoverPair& pair) {
    datamover_mover_pair line{};
    line.peer = pair.peer;
    line.sends = pair.sends;
    line.elems = pair.elems;
    line.bytes = pair.bytes;
    line.relation_bytes = pair.relation_bytes;
    line.chunks = pair.chunks;
    write_text(pair.transport, line.transport);
    write_text(pair.why, line.why);
    write_text(pair.encoding, line.encoding);
    write_text(pair.kernel, line.kernel);
    return line;
}

}  // namespace datamover::capi

namespace {

struct NewMover {
    MotionPlan plan;
    ArrayPart source, destination;
    MoverOptions options;
};

struct NewArrays {
    Mover mover;  // shares its state with the handle's
    ArrayPart source, destination;
};

datamover_mover_trial told(const MoverTrial& trial) {
    datamover_mover_trial line{};
    line.seconds = trial.seconds;
    line.rounds = trial.rounds;
    line.chosen = trial.chosen;
    write_text(trial.transport, line.transport);
    write_text(trial.why_not, line.why_not);
    write_text(trial.passed_over, line.passed_over);
    return line;
}

std::vector<ArrayPart> parts(const datamover_array* const* arrays, std::int64_t count,
                             const char* name) {
    std::vector<ArrayPart> all;
    for (const datamover_array* array : values(arrays, count, name))
        all.push_back(value_of(array, name));
    return all;
}

struct NewSet {
    std::vector<PlannedArrays> moves;
    MoverOptions options;
};

std::vector<PlannedArrays> planned(const datamover_move* moves, std::int64_t count) {
    std::vector<PlannedArrays> all;
    for (const datamover_move& move : values(moves, count, "moves"))
        all.push_back({value_of(move.plan, "plan"), parts(move.sources, move.num_arrays, "sources"),
                       parts(move.destinations, move.num_arrays, "destinations")});
    return all;
}

}  // namespace

int datamover_mover_new_set(datamover_mover** mover, MPI_Comm comm, const datamover_move* moves,
                            int64_t num_moves, const datamover_mover_options* options) {
    return guarded([&] {
        const NewSet args = capi::collectively(comm, [&] {
            given(mover, "mover");
            return NewSet{planned(moves, num_moves), mover_options_of(options)};
        });
        hand_out(mover, "mover", Mover(comm, args.moves, args.options));
    });
}

int datamover_mover_new_phases(datamover_mover** mover, MPI_Comm comm, const datamover_move* phases,
                               int64_t num_phases, const datamover_mover_options* options) {
    return guarded([&] {
        const NewSet args = capi::collectively(comm, [&] {
            given(mover, "mover");
            return NewSet{planned(phases, num_phases), mover_options_of(options)};
        });
        hand_out(mover, "mover", Mover::in_phases(comm, args.moves, args.options));
    });
}

int datamover_mover_new(datamover_mover** mover, MPI_Comm comm, const datamover_plan* plan,
                        const datamover_array* source, const datamover_array* destination,
                        const datamover_mover_options* options) {
    return guarded([&] {
        const NewMover args = capi::collectively(comm, [&] {
            given(mover, "mover");
            return NewMover{value_of(plan, "plan"), value_of(source, "source"),
                            value_of(destination, "destination"), mover_options_of(options)};
        });
        hand_out(mover, "mover",
                 Mover(comm, args.plan, args.source, args.destination, args.options));
    });
}

int datamover_mover_rebind(datamover_mover* mover, MPI_Comm comm, const datamover_array* source,
                           const datamover_array* destination) {
    return guarded([&] {
        NewArrays args = capi::collectively(comm, [&] {
            return NewArrays{value_of(mover, "mover"), value_of(source, "source"),
                             value_of(destination, "destination")};
        });
        args.mover.rebind(args.source, args.destination);
    });
}

int datamover_mover_start(datamover_mover* mover) {
    return guarded([&] { value_of(mover, "mover").start(); });
}

int datamover_mover_test(datamover_mover* mover, int* done) {
    return guarded([&] {
        given(done, "done");
        *done = value_of(mover, "mover").test();
    });
}

int datamover_mover_wait(datamover_mover* mover, double timeout_seconds) {
    return guarded([&] { value_of(mover, "mover").wait(limit_of(timeout_seconds)); });
}

int datamover_mover_move(datamover_mover* mover) {
    return guarded([&] { value_of(mover, "mover")(); });
}

int datamover_mover_counters_get(const datamover_mover* mover, datamover_mover_counters* counters) {
    return guarded([&] {
        const Mover& m = value_of(mover, "mover");
        const MoverCounters c = m.counters();
        given(counters, "counters") = {c.rounds,       c.messages_sent,  c.messages_received,
                                       c.bytes_sent,   c.bytes_received, c.bytes_kept,
                                       c.wait_seconds, m.extra_bytes()};
    });
}

int datamover_mover_pairs(const datamover_mover* mover, datamover_mover_pair* pairs,
                          int64_t capacity, int64_t* count) {
    return guarded([&] {
        const auto all = value_of(mover, "mover").pairs();
        announce_count(static_cast<int64_t>(all.size()), pairs, capacity, count, "pairs");
        if (pairs) std::transform(all.begin(), all.end(), pairs, described);
    });
}

int datamover_mover_tune(datamover_mover* mover, MPI_Comm comm, double seconds) {
    return guarded([&] {
        Mover tuned = capi::collectively(comm, [&] { return value_of(mover, "mover"); });
        tuned.tune(seconds);
    });
}

int datamover_mover_trials(const datamover_mover* mover, datamover_mover_trial* trials,
                           int64_t capacity, int64_t* count) {
    return guarded([&] {
        const auto all = value_of(mover, "mover").trials();
        announce_count(static_cast<int64_t>(all.size()), trials, capacity, count, "trials");
        if (trials) std::transform(all.begin(), all.end(), trials, told);
    });
}

int datamover_mover_free(datamover_mover** mover) {
    return guarded([&] {
        if (given(mover, "mover")) (*mover)->value.free();
        delete std::exchange(*mover, nullptr);
    });
}

int datamover_mover_give_up(datamover_mover** mover) {
    return guarded([&] {
        if (given(mover, "mover")) (*mover)->value.give_up();
        delete std::exchange(*mover, nullptr);
    });
}
