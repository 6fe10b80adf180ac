// SPDX-License-Identifier: BSD-3-Clause
// C interface of plans: arguments, and lists of peers.
#pragma once

#include "handles.hpp"

namespace datamover::capi {

inline MotionPlan section_redistribution(const Layout& from, const int64_t* source_lo,
                                         const int64_t* source_hi, const Layout& to,
                                         const int64_t* destination_lo,
                                         const int64_t* destination_hi, const int* axes,
                                         bool partial) {
    return redistribute(
        from, region(source_lo, source_hi, from.dims(), "source_lo or source_hi"), to,
        region(destination_lo, destination_hi, to.dims(), "destination_lo or destination_hi"),
        axes_or_none(axes, from.dims()), partial);
}

/// Sections of NULL are the whole layouts.
inline MotionPlan redistribution(const Layout& from, const int64_t* source_lo,
                                 const int64_t* source_hi, const Layout& to,
                                 const int64_t* destination_lo, const int64_t* destination_hi,
                                 const int* axes, bool partial) {
    const std::vector<int> order = axes_or_none(axes, from.dims());
    if (!source_lo && !source_hi && !destination_lo && !destination_hi)
        return redistribute(from, to, order, partial);
    return section_redistribution(from, source_lo, source_hi, to, destination_lo, destination_hi,
                                  axes, partial);
}

inline Region domain_or_none(const int64_t* lo, const int64_t* hi, int dims) {
    if (!lo && !hi) return {};
    return region(lo, hi, dims, "periodic_lo or periodic_hi");
}

inline std::vector<bool> flags_or_none(const int* flags, int dims) {
    std::vector<bool> set;
    for (int d = 0; flags && d < dims; ++d) set.push_back(flags[d] != 0);
    return set;
}

inline LevelOptions options_of(const datamover_level_options* options, const Layout& layout) {
    if (!options) return {};
    const int dims = layout.dims();
    return {point_or_none(options->lower, dims, "lower"),
            point_or_none(options->upper, dims, "upper"),
            domain_or_none(options->periodic_lo, options->periodic_hi, dims),
            flags_or_none(options->wraps, dims), options->partial != 0};
}

inline void list_peers(const std::vector<PeerPart>& parts, int64_t* peers, int64_t* elems,
                       int64_t capacity, int64_t* count) {
    announce_count(static_cast<int64_t>(parts.size()), peers || elems, capacity, count, "peers");
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (peers) peers[i] = parts[i].rank;
        if (elems) elems[i] = parts[i].part.size();
    }
}

}  // namespace datamover::capi
