// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of movers.
#include <nanobind/stl/complex.h>

#include "datamover/progress.hpp"
#include "generated/mover_dicts.hpp"
#include "module.hpp"
#include "mover/tuning.hpp"

namespace datamover::bindings {
namespace {

template <class Described>
nb::list as_dicts(std::vector<Described> all) {
    nb::list dicts;
    for (Described& one : all) dicts.append(as_dict(std::move(one)));
    return dicts;
}

nb::dict mover_counters(const Mover& mover) {
    nb::dict counters = as_dict(mover.counters());
    counters["extra_bytes"] = mover.extra_bytes();
    return counters;
}

/// Takes part in a binding of the other processes as one that cannot. Collective.
void refuse_binding(std::uintptr_t comm, const Error& error) {
    const Unlocked released;
    Mover::refuse(comm_at(comm), error);
}

}  // namespace

void bind_movers(nb::module_& m) {
    using Released = nb::call_guard<Unlocked>;
    // Carries out a plan between two parts, again and again.
    nb::class_<Mover>(m, "Mover")
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
            "comm_address"_a, "plans"_a, "sources"_a, "destinations"_a, "op"_a, "transport"_a,
            "alpha"_a, "beta"_a, "conjugate"_a, "check"_a, "max_bytes"_a, "factors"_a,
            "in_phases"_a)
        // Goes over to other arrays of the same plans. Collective.
        .def(
            "rebind",
            [](Mover& m, const std::vector<ArrayPart>& sources,
               const std::vector<ArrayPart>& destinations) {
                const Unlocked released;
                m.rebind(std::span(sources), std::span(destinations));
            },
            "sources"_a, "destinations"_a)
        // Takes part in a rebind of the other processes as one that cannot. Collective.
        .def("refuse_rebind", refusing(&Mover::refuse_rebind), "code"_a, "message"_a, Released())
        // Measures which transports are the fastest and goes over to them. Collective.
        .def("tune", &Mover::tune, "seconds"_a, Released())
        // Takes part in a tune of the other processes as one that cannot. Collective.
        .def("refuse_tune", refusing(&Mover::refuse_tune), "code"_a, "message"_a, Released())
        // The transports that were measured, with their times. Local.
        .def("trials", [](const Mover& m) { return as_dicts(m.trials()); })
        // Begins to move; returns without waiting.
        .def("start", &Mover::start, Released())
        // Does what can be done now; True when complete here.
        .def("test", &Mover::test, Released())
        // Returns when complete here.
        .def("wait", &Mover::wait, "timeout_seconds"_a = nb::none(), Released())
        // start and wait.
        .def("__call__", &Mover::operator(), "timeout_seconds"_a = nb::none(), Released())
        // Whether started and not yet complete.
        .def_prop_ro("in_flight", &Mover::in_flight)
        // Bytes of one round, and totals of all rounds so far. Local.
        .def("counters", &mover_counters)
        // How each pair is carried. Local.
        .def("pairs", [](const Mover& m) { return as_dicts(m.pairs()); })
        // Gives back buffers and references. Local.
        .def("free", &Mover::close)
        // The same; a round in flight is aborted, and all processes are notified. Local.
        .def("give_up", &Mover::abort);
    // Takes part in a binding of the other processes as one that cannot. Collective.
    m.def(
        "refuse_binding",
        [](std::uintptr_t comm, const std::string& code, const std::string& message) {
            refuse_binding(comm, Error(error_code_from_name(code), message));
        },
        "comm_address"_a, "code"_a, "message"_a);
    // A thread that pushes on movers in flight.
    nb::class_<ProgressThread>(m, "ProgressThread")
        .def(nb::init<>())
        // Whether it also carries messages.
        .def_prop_ro("carries_messages", &ProgressThread::carries_messages);
    // Sets the seconds after which waits give up; None: never. Local.
    m.def("set_default_timeout", &set_default_timeout, "seconds"_a.none());
    // All transports, in order of preference, and whether each needs a common node. Local.
    m.def("transports", [] {
        nb::dict kinds;
        for (const auto& kind : transport::transport_kinds())
            kinds[kind.name.c_str()] = !reaches_other_nodes(kind);
        return kinds;
    });
}

}  // namespace datamover::bindings
