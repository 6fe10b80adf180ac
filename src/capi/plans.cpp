// SPDX-License-Identifier: BSD-3-Clause
// C interface: plans.
#include "geometry/make_error.hpp"
#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

namespace {

MotionPlan section_plan(const datamover_layout* source, const int64_t* source_lo,
                        const int64_t* source_hi, const datamover_layout* destination,
                        const int64_t* destination_lo, const int64_t* destination_hi,
                        const int* axes, bool partial) {
    const Layout& from = value_of(source, "source");
    const Layout& to = value_of(destination, "destination");
    return redistribute(
        from, region(source_lo, source_hi, from.dims(), "source_lo or source_hi"), to,
        region(destination_lo, destination_hi, to.dims(), "destination_lo or destination_hi"),
        axes_or_none(axes, from.dims()), partial);
}

}  // namespace

int datamover_redistribute(datamover_plan** plan, const datamover_layout* source,
                           const datamover_layout* destination, const int* axes) {
    return datamover_redistribute_partial(plan, source, nullptr, nullptr, destination, nullptr,
                                          nullptr, axes, 0);
}

int datamover_redistribute_section(datamover_plan** plan, const datamover_layout* source,
                                   const int64_t* source_lo, const int64_t* source_hi,
                                   const datamover_layout* destination,
                                   const int64_t* destination_lo, const int64_t* destination_hi,
                                   const int* axes) {
    return guarded([&] {
        hand_out(plan, "plan",
                 section_plan(source, source_lo, source_hi, destination, destination_lo,
                              destination_hi, axes, false));
    });
}

int datamover_redistribute_partial(datamover_plan** plan, const datamover_layout* source,
                                   const int64_t* source_lo, const int64_t* source_hi,
                                   const datamover_layout* destination,
                                   const int64_t* destination_lo, const int64_t* destination_hi,
                                   const int* axes, int partial) {
    return guarded([&] {
        if (source_lo || source_hi || destination_lo || destination_hi)
            return hand_out(plan, "plan",
                            section_plan(source, source_lo, source_hi, destination, destination_lo,
                                         destination_hi, axes, partial != 0));
        const Layout& from = value_of(source, "source");
        hand_out(plan, "plan",
                 redistribute(from, value_of(destination, "destination"),
                              axes_or_none(axes, from.dims()), partial != 0));
    });
}

int datamover_halo(datamover_plan** plan, const datamover_layout* floor_plan, const int64_t* lower,
                   const int64_t* upper, const int64_t* periodic_lo, const int64_t* periodic_hi,
                   const int* wraps, int corners) {
    return datamover_halo_of_colour(plan, floor_plan, lower, upper, periodic_lo, periodic_hi, wraps,
                                    corners, 1, 0);
}

namespace {

Region domain_or_none(const int64_t* lo, const int64_t* hi, int dims) {
    if (!lo && !hi) return {};
    return region(lo, hi, dims, "periodic_lo or periodic_hi");
}

std::vector<bool> flags_or_none(const int* flags, int dims) {
    std::vector<bool> set;
    for (int d = 0; flags && d < dims; ++d) set.push_back(flags[d] != 0);
    return set;
}

LevelOptions options_of(const datamover_level_options* options, const Layout& layout) {
    if (!options) return {};
    const int dims = layout.dims();
    return {point_or_none(options->lower, dims, "lower"),
            point_or_none(options->upper, dims, "upper"),
            domain_or_none(options->periodic_lo, options->periodic_hi, dims),
            flags_or_none(options->wraps, dims), options->partial != 0};
}

}  // namespace

int datamover_halo_of_colour(datamover_plan** plan, const datamover_layout* floor_plan,
                             const int64_t* lower, const int64_t* upper, const int64_t* periodic_lo,
                             const int64_t* periodic_hi, const int* wraps, int corners,
                             int64_t colours, int64_t colour) {
    return guarded([&] {
        const Layout& layout = value_of(floor_plan, "floor_plan");
        const int dims = layout.dims();
        hand_out(plan, "plan",
                 halo(layout, point(lower, dims, "lower"), point(upper, dims, "upper"),
                      domain_or_none(periodic_lo, periodic_hi, dims), flags_or_none(wraps, dims),
                      corners != 0, colours, colour));
    });
}

int datamover_axis_halo(datamover_plan** plan, const datamover_layout* floor_plan,
                        const int64_t* lower, const int64_t* upper, int axis,
                        const int64_t* periodic_lo, const int64_t* periodic_hi, const int* wraps) {
    return guarded([&] {
        const Layout& layout = value_of(floor_plan, "floor_plan");
        const int dims = layout.dims();
        hand_out(
            plan, "plan",
            axis_halo(layout, point(lower, dims, "lower"), point(upper, dims, "upper"), axis,
                      domain_or_none(periodic_lo, periodic_hi, dims), flags_or_none(wraps, dims)));
    });
}

int datamover_panel_broadcast(datamover_plan** plan, const datamover_layout* layout,
                              const int64_t* lo, const int64_t* hi, int along) {
    return guarded([&] {
        const Layout& array = value_of(layout, "layout");
        hand_out(plan, "plan",
                 panel_broadcast(array, region(lo, hi, array.dims(), "lo or hi"), along));
    });
}

int datamover_prolongation(datamover_plan** plan, const datamover_layout* coarse,
                           const datamover_layout* fine, const int64_t* factor,
                           const datamover_level_options* options) {
    return guarded([&] {
        const Layout& to = value_of(fine, "fine");
        hand_out(plan, "plan",
                 prolongation(value_of(coarse, "coarse"), to, point(factor, to.dims(), "factor"),
                              options_of(options, to)));
    });
}

int datamover_restriction(datamover_plan** plan, const datamover_layout* fine,
                          const datamover_layout* coarse, const int64_t* factor,
                          const datamover_level_options* options) {
    return guarded([&] {
        const Layout& to = value_of(coarse, "coarse");
        hand_out(plan, "plan",
                 restriction(value_of(fine, "fine"), to, point(factor, to.dims(), "factor"),
                             options_of(options, to)));
    });
}

int datamover_plan_new(datamover_plan** plan, const datamover_layout* source,
                       const datamover_layout* destination) {
    return guarded([&] {
        hand_out(plan, "plan",
                 MotionPlan(value_of(source, "source"), value_of(destination, "destination")));
    });
}

int datamover_plan_copy(datamover_plan* plan, int64_t source_block, const int64_t* source_lo,
                        const int64_t* source_hi, int64_t destination_block,
                        const int64_t* destination_lo, const int64_t* destination_hi,
                        const int* axes) {
    return datamover_plan_copy_strided(plan, source_block, source_lo, source_hi, nullptr,
                                       destination_block, destination_lo, destination_hi, nullptr,
                                       axes);
}

int datamover_plan_copy_strided(datamover_plan* plan, int64_t source_block,
                                const int64_t* source_lo, const int64_t* source_hi,
                                const int64_t* source_step, int64_t destination_block,
                                const int64_t* destination_lo, const int64_t* destination_hi,
                                const int64_t* destination_step, const int* axes) {
    return guarded([&] {
        MotionPlan& p = value_of(plan, "plan");
        const int from = p.source().dims(), to = p.destination().dims();
        p.copy(source_block, region(source_lo, source_hi, from, "source_lo or source_hi"),
               destination_block,
               region(destination_lo, destination_hi, to, "destination_lo or destination_hi"),
               axes_or_none(axes, from), point_or_none(source_step, from, "source_step"),
               point_or_none(destination_step, to, "destination_step"));
    });
}

int datamover_plan_merge(datamover_plan** plan, const datamover_plan* a, const datamover_plan* b) {
    return guarded([&] { hand_out(plan, "plan", value_of(a, "a").merged(value_of(b, "b"))); });
}

int datamover_plan_reverse(datamover_plan** plan, const datamover_plan* forth) {
    return guarded([&] { hand_out(plan, "plan", value_of(forth, "forth").reversed()); });
}

int datamover_plan_adjoint(datamover_plan** plan, const datamover_plan* forth) {
    return guarded([&] { hand_out(plan, "plan", value_of(forth, "forth").adjoint()); });
}

int datamover_plan_compose(datamover_plan** plan, const datamover_plan* first,
                           const datamover_plan* next) {
    return guarded([&] {
        given(plan, "plan");
        hand_out(plan, "plan", value_of(first, "first").composed(value_of(next, "next")));
    });
}

int datamover_plan_layout(const datamover_plan* plan, datamover_side side,
                          datamover_layout** layout) {
    return guarded([&] {
        const MotionPlan& p = value_of(plan, "plan");
        if (side != DATAMOVER_SOURCE && side != DATAMOVER_DESTINATION)
            throw make_error(ErrorCode::invalid_argument, "side is ", static_cast<int>(side),
                             "; it must be DATAMOVER_SOURCE or DATAMOVER_DESTINATION");
        hand_out(layout, "layout", side == DATAMOVER_SOURCE ? p.source() : p.destination());
    });
}

int datamover_plan_num_terms(const datamover_plan* plan, int64_t* terms) {
    return guarded([&] { given(terms, "terms") = value_of(plan, "plan").size(); });
}

namespace {

void list_peers(const std::vector<PeerPart>& parts, int64_t* peers, int64_t* elems,
                int64_t capacity, int64_t* count) {
    announce_count(static_cast<int64_t>(parts.size()), peers || elems, capacity, count, "peers");
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (peers) peers[i] = parts[i].rank;
        if (elems) elems[i] = parts[i].part.size();
    }
}

}  // namespace

int datamover_plan_outgoing(const datamover_plan* plan, int64_t rank, int64_t* peers,
                            int64_t* elems, int64_t capacity, int64_t* count) {
    return guarded(
        [&] { list_peers(value_of(plan, "plan").outgoing(rank), peers, elems, capacity, count); });
}

int datamover_plan_incoming(const datamover_plan* plan, int64_t rank, int64_t* peers,
                            int64_t* elems, int64_t capacity, int64_t* count) {
    return guarded(
        [&] { list_peers(value_of(plan, "plan").incoming(rank), peers, elems, capacity, count); });
}

int datamover_plan_to_bytes(const datamover_plan* plan, void* bytes, int64_t capacity_bytes,
                            int64_t* size_bytes) {
    return guarded([&] {
        const auto all = value_of(plan, "plan").to_bytes();
        announce_count(static_cast<int64_t>(all.size()), bytes, capacity_bytes, size_bytes,
                       "bytes");
        if (bytes) std::memcpy(bytes, all.data(), all.size());
    });
}

int datamover_plan_from_bytes(datamover_plan** plan, const void* bytes, int64_t size_bytes) {
    return guarded([&] {
        const auto all = values(static_cast<const std::uint8_t*>(bytes), size_bytes, "bytes");
        hand_out(plan, "plan", MotionPlan::from_bytes(all));
    });
}

int datamover_plan_save(const datamover_plan* plan, const char* path) {
    return guarded([&] { value_of(plan, "plan").save(&given(path, "path")); });
}

int datamover_plan_load(datamover_plan** plan, const char* path) {
    return guarded([&] {
        given(plan, "plan");
        hand_out(plan, "plan", MotionPlan::load(&given(path, "path")));
    });
}

int datamover_plan_free(datamover_plan** plan) {
    return release(plan, "plan");
}
