// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of the terms of plans: SectionCopy, Redistribution and HaloExchange.

#include "datamover/motion_plan.hpp"
#include "module.hpp"

namespace datamover::bindings {
namespace {

/// None where every index takes part.
std::optional<Point> step_or_none(const Point& step) {
    return step.dims() == 0 ? std::nullopt : std::optional(step);
}

constexpr auto axes_or_none = &tuple_or_none<int>;
constexpr auto flip_or_none = &tuple_or_none<bool>;

/** Python SectionCopy
A section of one block that is copied to a section of another.

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
*/
void bind_section_copy(nb::module_& m) {
    Class<SectionCopy> c(m, "SectionCopy");
    c.def(
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
         "axes"_a = nb::none(), "source_step"_a = nb::none(), "destination_step"_a = nb::none(),
         "flip"_a = nb::none())
        .def("__repr__", [](const SectionCopy& s) {
            return formatted("SectionCopy({}, {}, {}, {}{}{}{}{})", s.source_block, s.source_region,
                             s.destination_block, s.destination_region,
                             keyword("axes", axes_or_none(s.axes)),
                             keyword("source_step", step_or_none(s.source_step)),
                             keyword("destination_step", step_or_none(s.destination_step)),
                             keyword("flip", flip_or_none(s.flip)));
        });
    add_fields(c,
               /// Number of the block that is read.
               field("source_block", &SectionCopy::source_block),
               /// What is read, in global indices.
               field("source_region", &SectionCopy::source_region),
               /// Number of the block that is written.
               field("destination_block", &SectionCopy::destination_block),
               /// What is written, in global indices.
               field("destination_region", &SectionCopy::destination_region),
               /// How dimensions are permuted on the way, or None.
               field("axes", &SectionCopy::axes, axes_or_none),
               /// Distance between the indices that are read, per dimension; None: all.
               field("source_step", &SectionCopy::source_step, step_or_none),
               /// Distance between the indices that are written, per dimension; None: all.
               field("destination_step", &SectionCopy::destination_step, step_or_none),
               /// Which dimensions of the destination get descending indices, or None.
               field("flip", &SectionCopy::flip, flip_or_none));
}

/** Python Redistribution
A region of the source layout that is copied to a region of the destination layout.

A term of a plan that represents all sections of the region, whatever their owners. `redistribute`
makes plans of one such term.

Parameters
----------
source_region, destination_region : Region
    In global indices, inside the domain of each layout. Towards an `IndexList` a region may reach
    beyond the domain, where no block holds anything.
axes : sequence of int, optional
    Dimension k of the destination is dimension axes[k] of the source.
partial : bool
    Whether elements of the destination that no block of the source holds are left unchanged. By
    default, they are an error when the plan is bound.
flip : sequence of bool, optional
    The dimensions of the destination that get the source's indices in descending order.
*/
void bind_redistribution(nb::module_& m) {
    Class<Redistribution> c(m, "Redistribution");
    c.def(
         "__init__",
         [](Redistribution* self, const Region& source_region, const Region& destination_region,
            const Axes& axes, bool partial, const Flip& flip) {
             new (self)
                 Redistribution{source_region, destination_region, axes_of(axes), partial, false,
                                false,         flip_of(flip)};
         },
         "source_region"_a, "destination_region"_a, "axes"_a = nb::none(), "partial"_a = false,
         "flip"_a = nb::none())
        .def("__repr__", [](const Redistribution& r) {
            return formatted("Redistribution({}, {}{}{}{}){}{}", r.source_region,
                             r.destination_region, keyword("axes", axes_or_none(r.axes)),
                             r.partial ? ", partial=True" : "",
                             keyword("flip", flip_or_none(r.flip)), r.reversed ? " reversed" : "",
                             r.adjoint ? " adjoint" : "");
        });
    add_fields(c,
               /// What is read.
               field("source_region", &Redistribution::source_region),
               /// What is written.
               field("destination_region", &Redistribution::destination_region),
               /// How dimensions are permuted on the way, or None.
               field("axes", &Redistribution::axes, axes_or_none),
               /// Whether elements that no block of the source holds are left unchanged.
               field("partial", &Redistribution::partial),
               /// Whether it is the source of which all must be held by the destination.
               field("reversed", &Redistribution::reversed),
               /// Whether this is the term of an adjoint plan: all copies of an element send.
               field("adjoint", &Redistribution::adjoint),
               /// Which dimensions of the destination get descending indices, or None.
               field("flip", &Redistribution::flip, flip_or_none));
}

/** Python HaloExchange
The ghosts of all blocks of a floor plan, filled from the interiors.

A term of a plan that represents all its sections; made by `halo`.
*/
void bind_halo_exchange(nb::module_& m) {
    Class<HaloExchange> c(m, "HaloExchange");
    c.def("__repr__", [](const HaloExchange& h) {
        return concat("<HaloExchange, ", h.lower, " below and ", h.upper, " above",
                      h.corners ? "" : ", no corners",
                      h.colors == 1 ? "" : concat(", color ", h.color, " of ", h.colors),
                      h.reversed ? ", reversed>" : ">");
    });
    add_fields(c,
               /// Ghosts on the lower side of each dimension.
               field("lower", &HaloExchange::lower),
               /// Ghosts on the upper side of each dimension.
               field("upper", &HaloExchange::upper),
               /// The periodic domain.
               field("domain", &HaloExchange::domain),
               /// The periodic dimensions.
               field("periodic", &HaloExchange::periodic),
               /// Whether edges and corners are filled too.
               field("corners", &HaloExchange::corners),
               /// Whether ghosts are copied to the interiors.
               field("reversed", &HaloExchange::reversed),
               /// Number of colors; 1: all points move.
               field("colors", &HaloExchange::colors),
               /// The color of the points that move.
               field("color", &HaloExchange::color));
}

}  // namespace

void bind_plan_terms(nb::module_& m) {
    bind_section_copy(m);
    bind_redistribution(m);
    bind_halo_exchange(m);
}

}  // namespace datamover::bindings
