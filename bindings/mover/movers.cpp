// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of movers.
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <string>
#include <vector>

#include "casters.hpp"
#include "datamover/mover.hpp"
#include "datamover/progress.hpp"
#include "errors.hpp"
#include "geometry/make_error.hpp"
#include "module.hpp"
#include "transport/transport.hpp"

namespace nb = nanobind;

namespace datamover::bindings {
namespace {

nb::dict mover_counters(const Mover& mover) {
    const MoverCounters c = mover.counters();
    nb::dict d;
    d["rounds"] = c.rounds;
    d["messages_sent"] = c.messages_sent;
    d["messages_received"] = c.messages_received;
    d["bytes_sent"] = c.bytes_sent;
    d["bytes_received"] = c.bytes_received;
    d["bytes_kept"] = c.bytes_kept;
    d["wait_seconds"] = c.wait_seconds;
    return d;
}

nb::list pairs_of(const Mover& mover) {
    nb::list pairs;
    for (const MoverPair& pair : mover.pairs()) {
        nb::dict d;
        d["peer"] = pair.peer;
        d["sends"] = pair.sends;
        d["transport"] = pair.transport;
        d["why"] = pair.why;
        d["elems"] = pair.elems;
        d["bytes"] = pair.bytes;
        d["encoding"] = pair.encoding;
        d["relation_bytes"] = pair.relation_bytes;
        d["kernel"] = pair.kernel;
        d["chunks"] = pair.chunks;
        pairs.append(d);
    }
    return pairs;
}

nb::list trials_of(const Mover& mover) {
    nb::list trials;
    for (const MoverTrial& trial : mover.trials()) {
        nb::dict d;
        d["transport"] = trial.transport;
        d["seconds"] = trial.seconds;
        d["rounds"] = trial.rounds;
        d["why_not"] = trial.why_not;
        d["chosen"] = trial.chosen;
        d["passed_over"] = trial.passed_over;
        trials.append(d);
    }
    return trials;
}

/// Whether a transport needs both processes on one node.
bool needs_common_node(const transport::TransportKind& kind) {
    transport::PairFacts far;
    far.destination_rank = 1;
    return !kind.carries(far);
}

/// Takes part in a binding of the other processes as one that cannot. Collective.
void refuse_binding(std::uintptr_t comm, const Error& error) {
    const Unlocked released;
    Mover::refuse(comm_at(comm), error);
}

}  // namespace

void bind_movers(nb::module_& m) {
    using Released = nb::call_guard<Unlocked>;
    nb::class_<Mover>(m, "Mover", "Carries out a plan between two parts, again and again.")
        .def(
            "__init__",
            [](Mover* self, std::uintptr_t comm, const std::vector<MotionPlan>& plans,
               const std::vector<std::vector<ArrayPart>>& sources,
               const std::vector<std::vector<ArrayPart>>& destinations, const std::string& op,
               const std::string& transport, std::complex<double> alpha, std::complex<double> beta,
               bool conjugate, bool check, std::int64_t max_bytes,
               const std::vector<std::complex<double>>& factors, bool in_phases) {
                if (sources.size() != plans.size() || destinations.size() != plans.size())
                    refuse_binding(
                        comm, make_error(ErrorCode::invalid_argument, plans.size(),
                                         " plans need as many lists of arrays; there are ",
                                         sources.size(), " of sources and ", destinations.size(),
                                         " of destinations"));
                std::vector<PlannedArrays> moves;
                for (std::size_t i = 0; i < plans.size(); ++i)
                    moves.emplace_back(plans[i], sources[i], destinations[i]).alpha = factors.at(i);
                const MoverOptions options{op_from_name(op), transport, alpha,     beta,
                                           conjugate,        check,     max_bytes, true};
                const Unlocked released;
                new (self) Mover(in_phases ? Mover::in_phases(comm_at(comm), moves, options)
                                           : Mover(comm_at(comm), moves, options));
            },
            nb::arg("comm_address"), nb::arg("plans"), nb::arg("sources"), nb::arg("destinations"),
            nb::arg("op"), nb::arg("transport"), nb::arg("alpha"), nb::arg("beta"),
            nb::arg("conjugate"), nb::arg("check"), nb::arg("max_bytes"), nb::arg("factors"),
            nb::arg("in_phases"))
        .def(
            "rebind",
            [](Mover& m, const std::vector<ArrayPart>& sources,
               const std::vector<ArrayPart>& destinations) {
                const Unlocked released;
                m.rebind(std::span(sources), std::span(destinations));
            },
            nb::arg("sources"), nb::arg("destinations"),
            "Goes over to other arrays of the same plans. Collective.")
        .def("refuse_rebind", refusing(&Mover::refuse_rebind), nb::arg("code"), nb::arg("message"),
             Released(),
             "Takes part in a rebind of the other processes as one that cannot. Collective.")
        .def("tune", &Mover::tune, nb::arg("seconds"), Released(),
             "Measures which transports are the fastest and goes over to them. Collective.")
        .def("refuse_tune", refusing(&Mover::refuse_tune), nb::arg("code"), nb::arg("message"),
             Released(),
             "Takes part in a tune of the other processes as one that cannot. Collective.")
        .def("trials", &trials_of, "What was tried to find them. Local.")
        .def("start", &Mover::start, Released(), "Begins to move; returns without waiting.")
        .def("test", &Mover::test, Released(),
             "Does what can be done now; True when complete here.")
        .def("wait", &Mover::wait, nb::arg("timeout_seconds").none() = nb::none(), Released(),
             "Returns when complete here.")
        .def("__call__", &Mover::operator(), nb::arg("timeout_seconds").none() = nb::none(),
             Released(), "start and wait.")
        .def_prop_ro("in_flight", &Mover::in_flight, "Whether started and not yet complete.")
        .def_prop_ro("extra_bytes", &Mover::extra_bytes, "Bytes of buffers besides the arrays.")
        .def("counters", &mover_counters,
             "What one round moves and what has been done so far. Local.")
        .def("pairs", &pairs_of, "How each pair is carried. Local.")
        .def("free", &Mover::close, "Gives back buffers and references. Local.")
        .def("give_up", &Mover::abort,
             "The same; in flight it gives the round up, which all processes are told. Local.");
    m.def(
        "refuse_binding",
        [](std::uintptr_t comm, const std::string& code, const std::string& message) {
            refuse_binding(comm, Error(error_code_from_name(code), message));
        },
        nb::arg("comm_address"), nb::arg("code"), nb::arg("message"),
        "Takes part in a binding of the other processes as one that cannot. Collective.");
    nb::class_<ProgressThread>(m, "ProgressThread", "A thread that pushes on movers in flight.")
        .def(nb::init<>())
        .def_prop_ro("carries_messages", &ProgressThread::carries_messages,
                     "Whether it also carries messages.");
    m.def("default_timeout", &default_timeout, "Seconds after which waits give up. Local.");
    m.def("set_default_timeout", &set_default_timeout, nb::arg("seconds").none(),
          "Sets it; None: never. Local.");
    m.def(
        "transports",
        [] {
            nb::dict kinds;
            for (const auto& kind : transport::transport_kinds())
                kinds[kind.name.c_str()] = needs_common_node(kind);
            return kinds;
        },
        "All transports, in order of preference, and whether each needs a common node. Local.");
}

}  // namespace datamover::bindings
