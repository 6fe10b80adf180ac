// SPDX-License-Identifier: BSD-3-Clause
// How does a C program say which section goes where?
#include "handles.hpp"

using namespace datamover;
using namespace datamover::capi;

int datamover_redistribute(datamover_plan** plan, const datamover_layout* source,
                           const datamover_layout* destination, const int* axes) {
    return guarded([&] {
        const Layout& from = value_of(source, "source");
        hand_out(plan, "plan",
                 redistribute(from, value_of(destination, "destination"),
                              axes_or_none(axes, from.dims())));
    });
}

int datamover_redistribute_section(datamover_plan** plan, const datamover_layout* source,
                                   const int64_t* source_lo, const int64_t* source_hi,
                                   const datamover_layout* destination,
                                   const int64_t* destination_lo, const int64_t* destination_hi,
                                   const int* axes) {
    return guarded([&] {
        const Layout& from = value_of(source, "source");
        const Layout& to = value_of(destination, "destination");
        hand_out(plan, "plan",
                 redistribute(
                     from, region(source_lo, source_hi, from.dims(), "source_lo or source_hi"), to,
                     region(destination_lo, destination_hi, to.dims(),
                            "destination_lo or destination_hi"),
                     axes_or_none(axes, from.dims())));
    });
}

int datamover_halo(datamover_plan** plan, const datamover_layout* floor_plan, const int64_t* lower,
                   const int64_t* upper, const int64_t* periodic_lo, const int64_t* periodic_hi,
                   const int* wraps, int corners) {
    return guarded([&] {
        const Layout& layout = value_of(floor_plan, "floor_plan");
        const int dims = layout.dims();
        const bool periodic = periodic_lo || periodic_hi;
        const Region domain =
            periodic ? region(periodic_lo, periodic_hi, dims, "periodic_lo or periodic_hi")
                     : Region{};
        std::vector<bool> wrapping;
        for (int d = 0; wraps && d < dims; ++d) wrapping.push_back(wraps[d] != 0);
        hand_out(plan, "plan",
                 halo(layout, point(lower, dims, "lower"), point(upper, dims, "upper"), domain,
                      wrapping, corners != 0));
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
    return guarded([&] {
        MotionPlan& p = value_of(plan, "plan");
        const int from = p.source().dims(), to = p.destination().dims();
        p.copy(source_block, region(source_lo, source_hi, from, "source_lo or source_hi"),
               destination_block,
               region(destination_lo, destination_hi, to, "destination_lo or destination_hi"),
               axes_or_none(axes, from));
    });
}

int datamover_plan_merge(datamover_plan** plan, const datamover_plan* a, const datamover_plan* b) {
    return guarded([&] { hand_out(plan, "plan", value_of(a, "a").merged(value_of(b, "b"))); });
}

int datamover_plan_reverse(datamover_plan** plan, const datamover_plan* forth) {
    return guarded([&] { hand_out(plan, "plan", value_of(forth, "forth").reversed()); });
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
