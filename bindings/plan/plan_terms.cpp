// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of the terms of a plan. As SectionCopy, Redistribution and HaloExchange.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "casters.hpp"
#include "datamover/motion_plan.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace datamover;
using bindings::Axes;
using bindings::axes_of;
using bindings::Flip;
using bindings::flip_of;
using bindings::step_of;

namespace {

nb::object axes_object(const std::vector<int>& axes) {
    if (axes.empty()) return nb::none();
    return nb::tuple(nb::cast(axes));
}

std::string text_of(nb::handle object) {
    return nb::cast<std::string>(nb::repr(object));
}

nb::object step_object(const Point& step) {
    return step.dims() == 0 ? nb::object(nb::none()) : nb::cast(step);
}

std::string step_text(const char* name, const Point& step) {
    return step.dims() == 0 ? "" : std::string(", ") + name + "=" + text_of(step_object(step));
}

std::string axes_text(const std::vector<int>& axes) {
    return axes.empty() ? "" : ", axes=" + text_of(axes_object(axes));
}

nb::object flip_object(const std::vector<bool>& flip) {
    if (flip.empty()) return nb::none();
    return nb::tuple(nb::cast(flip));
}

std::string flip_text(const std::vector<bool>& flip) {
    return flip.empty() ? "" : ", flip=" + text_of(flip_object(flip));
}

void bind_section_copy(nb::module_& m) {
    nb::class_<SectionCopy>(m, "SectionCopy", R"doc(One section that goes from a block to a block.

Parameters
----------
source_block : int
    Number of the block in the source layout.
source_region : Region
    What is read, in global indices.
destination_block : int
    Number of the block in the destination layout.
destination_region : Region
    What is written, in global indices.
axes : sequence of int, optional
    Dimension k of the destination region is dimension axes[k] of the source region, as in
    `numpy.transpose`. Without it regions of different shapes, but equally many points, are both
    walked with the last dimension fastest.
source_step, destination_step : int or sequence of int, optional
    Only every step-th index of a region takes part, from its lower corner on.
flip : sequence of bool, optional
    The dimensions of the destination region that get the source's indices in descending order, as
    in `numpy.flip`.
)doc")
        .def(
            "__init__",
            [](SectionCopy* self, std::int64_t source_block, const Region& source_region,
               std::int64_t destination_block, const Region& destination_region, const Axes& axes,
               const Point& source_step, const Point& destination_step, const Flip& flip) {
                new (self) SectionCopy{source_block,
                                       source_region,
                                       destination_block,
                                       destination_region,
                                       axes_of(axes),
                                       step_of(source_step, source_region.dims()),
                                       step_of(destination_step, destination_region.dims()),
                                       flip_of(flip)};
            },
            "source_block"_a, "source_region"_a, "destination_block"_a, "destination_region"_a,
            "axes"_a = nb::none(), "source_step"_a.none() = nb::none(),
            "destination_step"_a.none() = nb::none(), "flip"_a = nb::none())
        .def_ro("source_block", &SectionCopy::source_block, "Number of the block that is read.")
        .def_ro("source_region", &SectionCopy::source_region, "What is read, in global indices.")
        .def_ro("destination_block", &SectionCopy::destination_block,
                "Number of the block that is written.")
        .def_ro("destination_region", &SectionCopy::destination_region,
                "What is written, in global indices.")
        .def_prop_ro(
            "axes", [](const SectionCopy& s) { return axes_object(s.axes); },
            nb::sig("def axes(self) -> tuple[int, ...] | None"),
            "How dimensions are permuted on the way, or None.")
        .def_prop_ro(
            "source_step", [](const SectionCopy& s) { return step_object(s.source_step); },
            nb::sig("def source_step(self) -> tuple[int, ...] | None"),
            "Every so many-th index that is read, per dimension; None: all.")
        .def_prop_ro(
            "destination_step",
            [](const SectionCopy& s) { return step_object(s.destination_step); },
            nb::sig("def destination_step(self) -> tuple[int, ...] | None"),
            "Every so many-th index that is written, per dimension; None: all.")
        .def_prop_ro(
            "flip", [](const SectionCopy& s) { return flip_object(s.flip); },
            nb::sig("def flip(self) -> tuple[bool, ...] | None"),
            "Which dimensions of the destination get descending indices, or None.")
        .def(
            "__eq__", [](const SectionCopy& a, const SectionCopy& b) { return a == b; },
            nb::is_operator())
        .def("__hash__",
             [](const SectionCopy& s) {
                 return nb::hash(nb::make_tuple(s.source_block, s.source_region.lo(),
                                                s.destination_block, s.destination_region.lo()));
             })
        .def("__repr__",
             [](const SectionCopy& s) {
                 return "SectionCopy(" + std::to_string(s.source_block) + ", " +
                        text_of(nb::cast(s.source_region)) + ", " +
                        std::to_string(s.destination_block) + ", " +
                        text_of(nb::cast(s.destination_region)) + axes_text(s.axes) +
                        step_text("source_step", s.source_step) +
                        step_text("destination_step", s.destination_step) + flip_text(s.flip) + ")";
             })
        .def("__getstate__",
             [](const SectionCopy& s) {
                 return nb::make_tuple(s.source_block, s.source_region, s.destination_block,
                                       s.destination_region, s.axes, s.source_step,
                                       s.destination_step, s.flip);
             })
        .def("__setstate__", [](SectionCopy& self, const nb::tuple& s) {
            new (&self) SectionCopy{nb::cast<std::int64_t>(s[0]),
                                    nb::cast<Region>(s[1]),
                                    nb::cast<std::int64_t>(s[2]),
                                    nb::cast<Region>(s[3]),
                                    nb::cast<std::vector<int>>(s[4]),
                                    nb::cast<Point>(s[5]),
                                    nb::cast<Point>(s[6]),
                                    nb::cast<std::vector<bool>>(s[7])};
        });
}

void bind_redistribution(nb::module_& m) {
    nb::class_<Redistribution>(
        m, "Redistribution",
        R"doc(A whole region of the source layout that goes to a region of the destination layout.

A term of a plan that stands for all its sections, whoever owns them. `redistribute` makes plans of
one such term.

Parameters
----------
source_region, destination_region : Region
    In global indices, inside the domain of each layout. Towards an `IndexList` a region may reach
    beyond the domain, where no block holds anything.
axes : sequence of int, optional
    Dimension k of the destination is dimension axes[k] of the source.
partial : bool
    Whether elements of the destination that no block of the source holds stay as they are; else
    they are an error where the plan is bound.
flip : sequence of bool, optional
    The dimensions of the destination that get the source's indices in descending order.
)doc")
        .def(
            "__init__",
            [](Redistribution* self, const Region& source_region, const Region& destination_region,
               const Axes& axes, bool partial, const Flip& flip) {
                new (self)
                    Redistribution{source_region, destination_region, axes_of(axes), partial, false,
                                   false,         flip_of(flip)};
            },
            "source_region"_a, "destination_region"_a, "axes"_a = nb::none(), "partial"_a = false,
            "flip"_a = nb::none())
        .def_ro("source_region", &Redistribution::source_region, "What is read.")
        .def_ro("destination_region", &Redistribution::destination_region, "What is written.")
        .def_prop_ro(
            "axes", [](const Redistribution& r) { return axes_object(r.axes); },
            nb::sig("def axes(self) -> tuple[int, ...] | None"),
            "How dimensions are permuted on the way, or None.")
        .def_ro("partial", &Redistribution::partial,
                "Whether elements that no block of the source holds stay as they are.")
        .def_ro("reversed", &Redistribution::reversed,
                "Whether it is the source of which all must be held by the destination.")
        .def_ro("adjoint", &Redistribution::adjoint,
                "Whether this is the term of an adjoint plan: all copies of an element send.")
        .def_prop_ro(
            "flip", [](const Redistribution& r) { return flip_object(r.flip); },
            nb::sig("def flip(self) -> tuple[bool, ...] | None"),
            "Which dimensions of the destination get descending indices, or None.")
        .def(
            "__eq__", [](const Redistribution& a, const Redistribution& b) { return a == b; },
            nb::is_operator())
        .def("__hash__",
             [](const Redistribution& r) {
                 return nb::hash(nb::make_tuple(r.source_region.lo(), r.destination_region.lo(),
                                                r.destination_region.hi()));
             })
        .def("__repr__",
             [](const Redistribution& r) {
                 return "Redistribution(" + text_of(nb::cast(r.source_region)) + ", " +
                        text_of(nb::cast(r.destination_region)) + axes_text(r.axes) +
                        (r.partial ? ", partial=True" : "") + flip_text(r.flip) + ")" +
                        (r.reversed ? " reversed" : "") + (r.adjoint ? " adjoint" : "");
             })
        .def("__getstate__",
             [](const Redistribution& r) {
                 return nb::make_tuple(r.source_region, r.destination_region, r.axes, r.partial,
                                       r.reversed, r.adjoint, r.flip);
             })
        .def("__setstate__", [](Redistribution& self, const nb::tuple& s) {
            new (&self) Redistribution{nb::cast<Region>(s[0]),
                                       nb::cast<Region>(s[1]),
                                       nb::cast<std::vector<int>>(s[2]),
                                       nb::cast<bool>(s[3]),
                                       nb::cast<bool>(s[4]),
                                       nb::cast<bool>(s[5]),
                                       nb::cast<std::vector<bool>>(s[6])};
        });
}

void bind_halo_exchange(nb::module_& m) {
    nb::class_<HaloExchange>(
        m, "HaloExchange",
        R"doc(The ghosts of all blocks of a floor plan, filled from the interiors.

A term of a plan that stands for all its sections; made by `halo`.
)doc")
        .def_prop_ro(
            "lower", [](const HaloExchange& h) { return h.lower; },
            "Ghosts on the lower side of each dimension.")
        .def_prop_ro(
            "upper", [](const HaloExchange& h) { return h.upper; },
            "Ghosts on the upper side of each dimension.")
        .def_ro("domain", &HaloExchange::domain, "The extents that wrap around.")
        .def_ro("periodic", &HaloExchange::periodic, "Which dimensions wrap around.")
        .def_ro("corners", &HaloExchange::corners, "Whether edges and corners are filled too.")
        .def_ro("reversed", &HaloExchange::reversed, "Whether ghosts go back to the interiors.")
        .def_ro("colours", &HaloExchange::colours,
                "Into how many colours points fall; 1: all move.")
        .def_ro("colour", &HaloExchange::colour, "The colour of the points that move.")
        .def(
            "__eq__", [](const HaloExchange& a, const HaloExchange& b) { return a == b; },
            nb::is_operator())
        .def("__hash__",
             [](const HaloExchange& h) {
                 return nb::hash(nb::make_tuple(h.lower, h.upper, h.corners, h.reversed));
             })
        .def("__repr__",
             [](const HaloExchange& h) {
                 return "<HaloExchange, " + h.lower.to_string() + " below and " +
                        h.upper.to_string() + " above" + (h.corners ? "" : ", no corners") +
                        (h.colours == 1 ? ""
                                        : ", colour " + std::to_string(h.colour) + " of " +
                                              std::to_string(h.colours)) +
                        (h.reversed ? ", reversed>" : ">");
             })
        .def("__getstate__",
             [](const HaloExchange& h) {
                 return nb::make_tuple(h.lower, h.upper, h.domain, h.periodic, h.corners,
                                       h.reversed, h.colours, h.colour);
             })
        .def("__setstate__", [](HaloExchange& self, const nb::tuple& s) {
            new (&self)
                HaloExchange{nb::cast<Point>(s[0]),        nb::cast<Point>(s[1]),
                             nb::cast<Region>(s[2]),       nb::cast<std::vector<bool>>(s[3]),
                             nb::cast<bool>(s[4]),         nb::cast<bool>(s[5]),
                             nb::cast<std::int64_t>(s[6]), nb::cast<std::int64_t>(s[7])};
        });
}

}  // namespace

void bind_plan_terms(nb::module_& m) {
    bind_section_copy(m);
    bind_redistribution(m);
    bind_halo_exchange(m);
}
