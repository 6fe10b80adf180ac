// SPDX-License-Identifier: BSD-3-Clause
// Scratch arrays that replace a mover's arrays during tuning.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "geometry/checked.hpp"
#include "memory/cache_lines.hpp"
#include "tuning.hpp"

namespace datamover {
namespace {

/// Bytes that some blocks of an array lie in, counted from its base, and their place in the
/// scratch memory, at the same address within a cache line.
struct Span {
    std::int64_t begin_bytes, end_bytes, place_bytes = 0;
};

/// Ascending and apart: blocks of the user's may lie far from each other, with other memory
/// between them.
std::vector<Span> spans_of(const ArrayPart& part) {
    std::vector<Span> all, spans;
    for (const BlockMemory& block : part.memory.blocks)
        if (const auto ends = ends_of(block, part.elem_bytes); ends.first < ends.second)
            all.push_back({ends.first, ends.second});
    std::ranges::sort(all, {}, &Span::begin_bytes);
    for (const Span& span : all)
        if (spans.empty() || spans.back().end_bytes <= span.begin_bytes)
            spans.push_back(span);
        else
            spans.back().end_bytes = std::max(spans.back().end_bytes, span.end_bytes);
    std::int64_t next = 0;
    for (Span& span : spans) {
        const auto address = reinterpret_cast<std::uintptr_t>(part.base) +
                             static_cast<std::uintptr_t>(span.begin_bytes);
        span.place_bytes =
            geometry::bounded_add(next, static_cast<std::int64_t>(address % memory::line_bytes));
        next = geometry::bounded_add(span.place_bytes, span.end_bytes - span.begin_bytes);
        next = geometry::bounded_add(next, memory::line_bytes - 1) / memory::line_bytes *
               memory::line_bytes;
    }
    return spans;
}

std::int64_t bytes_of(const std::vector<Span>& spans) {
    if (spans.empty()) return 0;
    const Span& last = spans.back();
    return geometry::bounded_add(last.place_bytes, last.end_bytes - last.begin_bytes);
}

/// All zero at first.
ArrayPart scratch_for(const ArrayPart& array) {
    const std::vector<Span> spans = spans_of(array);
    ArrayPart part = array;
    part.allocation.reset();
    if (spans.empty()) return part;
    const std::int64_t bytes = bytes_of(spans);
    const bool shared = array.allocation && array.allocation->segment;
    const auto memory = shared ? memory::SegmentPool::of_process().allocate_shared(bytes)
                               : memory::SegmentPool::allocate_private(bytes);
    std::memset(memory->data, 0, static_cast<std::size_t>(bytes));
    for (BlockMemory& block : part.memory.blocks) {
        if (block.valid.empty()) continue;
        const std::int64_t begin = ends_of(block, part.elem_bytes).first;
        const auto after = std::ranges::upper_bound(spans, begin, {}, &Span::begin_bytes);
        block.offset_bytes += std::prev(after)->place_bytes - std::prev(after)->begin_bytes;
    }
    part.memory.begin_bytes = spans.front().place_bytes;
    part.memory.end_bytes = bytes;
    part.base = memory->data;
    part.owner = memory;
    if (shared) part.allocation = memory;
    return part;
}

/// Calls visit(array, number of the first one that is the same) for all arrays.
template <class Phases, class Visit>
void for_each_array(Phases& phases, Visit&& visit) {
    std::vector<ArrayPart> different;
    for (auto& moves : phases)
        for (auto& motion : moves.motions)
            for (const Side side : both_sides) {
                auto& array = motion.array[side];
                const auto same = std::ranges::find_if(
                    different, [&](const ArrayPart& other) { return is_same(array, other); });
                const auto number = static_cast<std::size_t>(same - different.begin());
                if (same == different.end()) different.push_back(array);
                visit(array, number);
            }
}

}  // namespace

std::vector<Moves> between_scratch_arrays(std::vector<Moves> phases) {
    std::vector<ArrayPart> scratch;
    for_each_array(phases, [&](ArrayPart& array, std::size_t number) {
        if (number == scratch.size()) scratch.push_back(scratch_for(array));
        array = scratch[number];
    });
    return phases;
}

std::int64_t scratch_bytes(const std::vector<Moves>& phases) {
    std::int64_t bytes = 0;
    std::size_t arrays = 0;
    for_each_array(phases, [&](const ArrayPart& array, std::size_t number) {
        if (number < arrays) return;
        ++arrays;
        bytes = geometry::bounded_add(bytes, bytes_of(spans_of(array)));
    });
    return bytes;
}

}  // namespace datamover
