// SPDX-License-Identifier: BSD-3-Clause
// How does Python bind, start and await a mover?
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "casters.hpp"
#include "datamover/mover.hpp"
#include "module.hpp"
#include "transport/transport.hpp"

namespace nb = nanobind;

namespace datamover::bindings {
namespace {

nb::dict counters_of(const Mover& mover) {
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

nb::list legs_of(const Mover& mover) {
    nb::list legs;
    for (const MoverLeg& leg : mover.legs()) {
        nb::dict d;
        d["peer"] = leg.peer;
        d["sends"] = leg.sends;
        d["transport"] = leg.transport;
        d["why"] = leg.why;
        d["elems"] = leg.elems;
        d["bytes"] = leg.bytes;
        d["encoding"] = leg.encoding;
        d["relation_bytes"] = leg.relation_bytes;
        d["kernel"] = leg.kernel;
        d["chunks"] = leg.chunks;
        legs.append(d);
    }
    return legs;
}

}  // namespace

void bind_movers(nb::module_& m) {
    using Released = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Mover>(m, "Mover", "Carries out a plan between two parts, again and again.")
        .def(
            "__init__",
            [](Mover* self, std::uintptr_t comm, const MotionPlan& plan, const ArrayPart& source,
               const ArrayPart& destination, const std::string& op, const std::string& transport,
               std::complex<double> alpha, std::complex<double> beta, bool conjugate, bool check,
               std::int64_t max_bytes) {
                new (self)
                    Mover(comm_at(comm), plan, source, destination,
                          {op_from_name(op), transport, alpha, beta, conjugate, check, max_bytes});
            },
            nb::arg("comm_address"), nb::arg("plan"), nb::arg("source"), nb::arg("destination"),
            nb::arg("op"), nb::arg("transport"), nb::arg("alpha"), nb::arg("beta"),
            nb::arg("conjugate"), nb::arg("check"), nb::arg("max_bytes"), Released())
        .def("rebind", &Mover::rebind, nb::arg("source"), nb::arg("destination"), Released(),
             "Goes over to other arrays of the same plan. Collective.")
        .def("start", &Mover::start, Released(), "Begins to move; returns without waiting.")
        .def("test", &Mover::test, Released(),
             "Does what can be done now; True when complete here.")
        .def("wait", &Mover::wait, nb::arg("timeout_seconds").none() = nb::none(), Released(),
             "Returns when complete here.")
        .def("__call__", &Mover::operator(), Released(), "start and wait.")
        .def_prop_ro("in_flight", &Mover::in_flight, "Whether started and not yet complete.")
        .def_prop_ro("extra_bytes", &Mover::extra_bytes, "Bytes of buffers besides the arrays.")
        .def("counters", &counters_of, "What one round moves and what has been done so far. Local.")
        .def("legs", &legs_of, "How each pair is carried. Local.")
        .def("free", &Mover::free, "Gives back buffers and references. Local.");
    m.def(
        "transports",
        [] {
            nb::list names;
            for (const auto& kind : transport::transport_kinds()) names.append(kind.name);
            return names;
        },
        "The names of all transports, in order of preference. Local.");
}

}  // namespace datamover::bindings
