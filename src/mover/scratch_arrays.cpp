// SPDX-License-Identifier: BSD-3-Clause
// Which memory stands in for a mover's arrays while the mover is tried or tested?
#include "scratch_arrays.hpp"

#include <algorithm>
#include <cstring>

#include "geometry/checked.hpp"

namespace datamover {
namespace {

constexpr std::int64_t alignment_bytes = 64;

std::vector<ScratchArrays::Span> spans_of(const std::vector<Moves>& phases) {
    std::vector<ScratchArrays::Span> spans;
    for (const Moves& moves : phases)
        for (const Motion& motion : moves.motions)
            for (const Side side : both_sides) {
                const ArrayPart& part = motion.array[side];
                const std::int64_t bytes = part.memory.end_bytes - part.memory.begin_bytes;
                if (bytes > 0 && part.base)
                    spans.push_back({part.base + part.memory.begin_bytes, bytes,
                                     part.allocation && part.allocation->segment, nullptr,
                                     nullptr});
            }
    return spans;
}

/// Joins those that overlap.
std::vector<ScratchArrays::Span> apart(std::vector<ScratchArrays::Span> spans) {
    std::sort(spans.begin(), spans.end(),
              [](const auto& a, const auto& b) { return a.user < b.user; });
    std::vector<ScratchArrays::Span> joined;
    for (const ScratchArrays::Span& span : spans) {
        if (joined.empty() || joined.back().user + joined.back().bytes <= span.user) {
            joined.push_back(span);
            continue;
        }
        ScratchArrays::Span& last = joined.back();
        last.bytes = std::max<std::int64_t>(last.bytes, span.user + span.bytes - last.user);
        last.shared = last.shared || span.shared;
    }
    return joined;
}

}  // namespace

ScratchArrays::ScratchArrays(const std::vector<Moves>& phases, std::int64_t guard_bytes)
    : spans_(apart(spans_of(phases))) {
    for (Span& span : spans_) {
        const auto shift = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(span.user) %
                                                     alignment_bytes);
        const std::int64_t bytes = geometry::add(span.bytes, 2 * guard_bytes + alignment_bytes);
        span.memory = span.shared ? memory::SegmentPool::of_process().allocate_shared(bytes)
                                  : memory::SegmentPool::allocate_private(bytes);
        std::memset(span.memory->data, 0, static_cast<std::size_t>(bytes));
        span.scratch = span.memory->data + guard_bytes + shift;
    }
}

std::vector<Moves> ScratchArrays::stand_in(std::vector<Moves> phases) const {
    for (Moves& moves : phases)
        for (Motion& motion : moves.motions)
            for (const Side side : both_sides) {
                ArrayPart& part = motion.array[side];
                if (!part.base || part.memory.end_bytes <= part.memory.begin_bytes) continue;
                const std::byte* begin = part.base + part.memory.begin_bytes;
                const auto after = std::upper_bound(
                    spans_.begin(), spans_.end(), begin,
                    [](const std::byte* at, const Span& s) { return at < s.user; });
                const Span& span = *std::prev(after);
                part.base = span.scratch + (part.base - span.user);
                part.allocation = span.shared ? span.memory : nullptr;
                part.owner = span.memory;
            }
    return phases;
}

}  // namespace datamover
