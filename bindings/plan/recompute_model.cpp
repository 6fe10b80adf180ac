// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of RecomputeModel. As RecomputeModel.
#include "datamover/advanced/recompute_model.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;

void bind_recompute_model(nb::module_& m) {
    nb::class_<RecomputeModel>(
        m, "RecomputeModel",
        R"doc(Is it quicker to keep a relation and decode it, or to recompute it?

The paper's model for a relation of pairs that is put: data and destination addresses both enter the
message. Times are in seconds per element. `datamover bench model` measures the parameters.

Parameters
----------
instructions : float
    Integer instructions that the machine issues per second.
read_contiguous, read_random, write_contiguous : float
    Words (addresses or elements) read or written per second.
generate : float
    Instructions to compute one pair of addresses.
recompute, decode, encode : float
    Instructions per element of the loops that recompute, decode and store.

Raises
------
InvalidArgument
    When a rate is not positive or a number of instructions negative.

Notes
-----
Source: the paper on compact address relations, its section on assembly models.

Examples
--------
>>> import datamover as dm
>>> model = dm.advanced.RecomputeModel(instructions=3e9, read_contiguous=1e9, read_random=2e8,
...                           write_contiguous=8e8, generate=30, recompute=4, decode=4, encode=4)
>>> model.decoding_pays, model.break_even_uses, round(model.ultimate_speedup, 2)
(True, 2, 1.74)
)doc")
        .def(
            "__init__",
            [](RecomputeModel* self, double instructions, double read_contiguous,
               double read_random, double write_contiguous, double generate, double recompute,
               double decode, double encode) {
                new (self) RecomputeModel(
                    MachineRates{instructions, read_contiguous, read_random, write_contiguous},
                    LoopInstructions{generate, recompute, decode, encode});
            },
            nb::kw_only(), "instructions"_a, "read_contiguous"_a, "read_random"_a,
            "write_contiguous"_a, "generate"_a, "recompute"_a, "decode"_a, "encode"_a)
        .def_prop_ro("recompute_seconds", &RecomputeModel::recompute_seconds,
                     "Time to compute, read and write one element.")
        .def_prop_ro("decode_seconds", &RecomputeModel::decode_seconds,
                     "Time to decode, read and write one element.")
        .def("amortised_seconds", &RecomputeModel::amortised_seconds, "uses"_a,
             "Time per element and use of a relation that is used so often after it was made.\n\n"
             "Raises InvalidArgument for less than one use.")
        .def_prop_ro("threshold_instructions", &RecomputeModel::threshold_instructions,
                     "Instructions per pair above which decoding is quicker in the long run.")
        .def_prop_ro("decoding_pays", &RecomputeModel::decoding_pays,
                     "Whether it ever pays to keep the relation.")
        .def_prop_ro(
            "break_even_uses",
            [](const RecomputeModel& model) -> std::optional<std::int64_t> {
                const std::int64_t uses = model.break_even_uses();
                if (uses == RecomputeModel::never) return std::nullopt;
                return uses;
            },
            "Uses after which making the relation has paid; None when it never does.")
        .def_prop_ro("ultimate_speedup", &RecomputeModel::ultimate_speedup,
                     "How many times quicker decoding is in the end.")
        .def("__repr__", [](const nb::handle& model) {
            return nb::str("<RecomputeModel: {:.3g} s to recompute, {:.3g} s to decode an element>")
                .attr("format")(model.attr("recompute_seconds"), model.attr("decode_seconds"));
        });
}
