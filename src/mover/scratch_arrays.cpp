// SPDX-License-Identifier: BSD-3-Clause
// Scratch arrays that replace a mover's arrays during tuning.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "geometry/checked.hpp"
#include "memory/cache_lines.hpp"
#include "tuning.hpp"

namespace datamover {
namespace {

/// Addresses that some blocks of the arrays lie between, and their place in the scratch memory, at
/// the same address within a cache line.
struct Span {
    std::uintptr_t begin, end;
    std::int64_t place_bytes = 0;
};

bool is_shared(const ArrayPart& part) {
    return part.allocation && part.allocation->segment;
}

template <class Phases, class Visit>
void for_each_array(Phases& phases, Visit&& visit) {
    for (auto& moves : phases)
        for (auto& motion : moves.motions)
            for (const Side side : both_sides) visit(motion.array[side]);
}

std::uintptr_t address_of(const ArrayPart& part, std::int64_t offset_bytes) {
    return reinterpret_cast<std::uintptr_t>(part.base) + static_cast<std::uintptr_t>(offset_bytes);
}

/// Of the arrays in shared memory or of the others; ascending and apart: blocks of the user's may
/// lie far from each other, with other memory between them, and fields of one array within each
/// other.
std::vector<Span> spans_of(const std::vector<Moves>& phases, bool shared) {
    std::vector<Span> all, spans;
    for_each_array(phases, [&](const ArrayPart& part) {
        for (const BlockMemory& block : part.memory.blocks) {
            const auto ends = ends_of(block, part.elem_bytes);
            if (is_shared(part) == shared && ends.first < ends.second)
                all.push_back({address_of(part, ends.first), address_of(part, ends.second)});
        }
    });
    std::ranges::sort(all, {}, &Span::begin);
    for (const Span& span : all)
        if (spans.empty() || spans.back().end <= span.begin)
            spans.push_back(span);
        else
            spans.back().end = std::max(spans.back().end, span.end);
    std::int64_t next = 0;
    for (Span& span : spans) {
        span.place_bytes =
            geometry::bounded_add(next, static_cast<std::int64_t>(span.begin % memory::line_bytes));
        next = geometry::bounded_add(span.place_bytes,
                                     static_cast<std::int64_t>(span.end - span.begin));
        next = geometry::bounded_add(next, memory::line_bytes - 1) / memory::line_bytes *
               memory::line_bytes;
    }
    return spans;
}

std::int64_t bytes_of(const std::vector<Span>& spans) {
    if (spans.empty()) return 0;
    const Span& last = spans.back();
    return geometry::bounded_add(last.place_bytes,
                                 static_cast<std::int64_t>(last.end - last.begin));
}

/// Replaces the memory of an array by its place in the scratch memory.
void replace(ArrayPart& part, const std::vector<Span>& spans, const memory::AllocationPtr& memory) {
    bool any = false;
    for (BlockMemory& block : part.memory.blocks) {
        if (block.valid.empty()) continue;
        const std::uintptr_t begin = address_of(part, ends_of(block, part.elem_bytes).first);
        const Span& span = *std::prev(std::ranges::upper_bound(spans, begin, {}, &Span::begin));
        block.offset_bytes +=
            span.place_bytes - static_cast<std::int64_t>(span.begin - address_of(part, 0));
        const auto ends = ends_of(block, part.elem_bytes);
        part.memory.begin_bytes = any ? std::min(part.memory.begin_bytes, ends.first) : ends.first;
        part.memory.end_bytes = any ? std::max(part.memory.end_bytes, ends.second) : ends.second;
        any = true;
    }
    if (!any) return;
    part.base = memory->data;
    part.owner = memory;
    part.allocation = is_shared(part) ? memory : nullptr;
}

}  // namespace

std::vector<Moves> between_scratch_arrays(std::vector<Moves> phases) {
    for (const bool shared : {false, true}) {
        const std::vector<Span> spans = spans_of(phases, shared);
        if (spans.empty()) continue;
        const std::int64_t bytes = bytes_of(spans);
        const auto memory = shared ? memory::SegmentPool::of_process().allocate_shared(bytes)
                                   : memory::SegmentPool::allocate_private(bytes);
        std::memset(memory->data, 0, static_cast<std::size_t>(bytes));
        for_each_array(phases, [&](ArrayPart& part) {
            if (is_shared(part) == shared) replace(part, spans, memory);
        });
    }
    return phases;
}

std::int64_t scratch_bytes(const std::vector<Moves>& phases) {
    return geometry::bounded_add(bytes_of(spans_of(phases, false)),
                                 bytes_of(spans_of(phases, true)));
}

}  // namespace datamover
