// SPDX-License-Identifier: BSD-3-Clause
// Scratch arrays that replace a mover's arrays during tuning.
#include "tuning.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "geometry/checked.hpp"

namespace datamover {
namespace {

constexpr std::int64_t alignment_bytes = 64;

bool is_shared(const ArrayPart& part) {
    return part.allocation && part.allocation->segment;
}

/// The lowest address of a block and one past the highest, from the array's base.
std::pair<std::int64_t, std::int64_t> ends_of(const BlockMemory& block, std::int64_t elem_bytes) {
    std::int64_t low = block.offset_bytes, high = block.offset_bytes + elem_bytes;
    for (int d = 0; d < block.valid.dims(); ++d) {
        const std::int64_t first = block.valid.lo()[d] * block.strides_bytes[d];
        const std::int64_t last = (block.valid.hi()[d] - 1) * block.strides_bytes[d];
        low += std::min(first, last);
        high += std::max(first, last);
    }
    return {low, high};
}

/// Blocks of the user's may lie far apart, with other memory between them; the library's lie in one
/// segment.
void add_spans(std::vector<ScratchArrays::Span>& spans, const ArrayPart& part) {
    const auto add = [&](std::int64_t low, std::int64_t high) {
        spans.push_back({part.base + low, high - low, is_shared(part), nullptr, nullptr});
    };
    if (!part.base || part.memory.end_bytes <= part.memory.begin_bytes) return;
    if (is_shared(part)) {
        add(part.memory.begin_bytes, part.memory.end_bytes);
        return;
    }
    for (const BlockMemory& block : part.memory.blocks) {
        if (block.valid.empty()) continue;
        const auto [low, high] = ends_of(block, part.elem_bytes);
        add(low, high);
    }
}

std::vector<ScratchArrays::Span> spans_of(const std::vector<Moves>& phases) {
    std::vector<ScratchArrays::Span> spans;
    for (const Moves& moves : phases)
        for (const Motion& motion : moves.motions)
            for (const Side side : both_sides) add_spans(spans, motion.array[side]);
    return spans;
}

/// Joins those that overlap.
std::vector<ScratchArrays::Span> apart(std::vector<ScratchArrays::Span> spans) {
    std::ranges::sort(spans, [](const auto& a, const auto& b) { return a.user < b.user; });
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

ScratchArrays::ScratchArrays(const std::vector<Moves>& phases) : spans_(apart(spans_of(phases))) {
    for (Span& span : spans_) {
        const auto shift = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(span.user) %
                                                     alignment_bytes);
        const std::int64_t bytes = geometry::add(span.bytes, alignment_bytes);
        span.memory = span.shared ? memory::SegmentPool::of_process().allocate_shared(bytes)
                                  : memory::SegmentPool::allocate_private(bytes);
        std::memset(span.memory->data, 0, static_cast<std::size_t>(bytes));
        span.scratch = span.memory->data + shift;
    }
}

std::int64_t ScratchArrays::bytes_for(const std::vector<Moves>& phases) {
    std::int64_t bytes = 0;
    for (const Span& span : apart(spans_of(phases)))
        bytes = geometry::bounded_add(bytes, geometry::bounded_add(span.bytes, alignment_bytes));
    return bytes;
}

const ScratchArrays::Span& ScratchArrays::span_at(const std::byte* user) const {
    const auto after =
        std::upper_bound(spans_.begin(), spans_.end(), user,
                         [](const std::byte* at, const Span& span) { return at < span.user; });
    return *std::prev(after);
}

void ScratchArrays::stand_in(ArrayPart& part) const {
    if (!part.base || part.memory.end_bytes <= part.memory.begin_bytes) return;
    if (is_shared(part)) {
        const Span& span = span_at(part.base + part.memory.begin_bytes);
        part.base = span.scratch + (part.base - span.user);
        part.allocation = span.memory;
        part.owner = span.memory;
        return;
    }
    std::byte* base = spans_.front().scratch;
    auto owners = std::make_shared<std::vector<memory::AllocationPtr>>();
    part.memory.begin_bytes = std::numeric_limits<std::int64_t>::max();
    part.memory.end_bytes = std::numeric_limits<std::int64_t>::min();
    for (BlockMemory& block : part.memory.blocks) {
        if (block.valid.empty()) continue;
        const auto [low, high] = ends_of(block, part.elem_bytes);
        const Span& span = span_at(part.base + low);
        const std::int64_t moved = span.scratch - base + (part.base + low - span.user) - low;
        block.offset_bytes += moved;
        part.memory.begin_bytes = std::min(part.memory.begin_bytes, low + moved);
        part.memory.end_bytes = std::max(part.memory.end_bytes, high + moved);
        owners->push_back(span.memory);
    }
    part.base = base;
    part.allocation = nullptr;
    part.owner = std::move(owners);
}

std::vector<Moves> ScratchArrays::stand_in(std::vector<Moves> phases) const {
    for (Moves& moves : phases)
        for (Motion& motion : moves.motions)
            for (const Side side : both_sides) stand_in(motion.array[side]);
    return phases;
}

}  // namespace datamover
