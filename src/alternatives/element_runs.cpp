// SPDX-License-Identifier: BSD-3-Clause
// Runs of elements, sorted with little extra memory.
#include "alternatives.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace datamover::alternatives {
namespace {

void append_all(ElementRuns& runs, const ElementRuns& more) {
    for (const ElementRun& run : more) append(runs, run);
}

}  // namespace

std::int64_t elems_of(const ElementRuns& runs) {
    return std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                           [](std::int64_t sum, const ElementRun& r) { return sum + r.elems; });
}

void append(ElementRuns& runs, const ElementRun& run) {
    if (run.elems == 0) return;
    if (!runs.empty()) {
        ElementRun& last = runs.back();
        const bool same = last.target == run.target && last.source == run.source;
        const bool follows = last.ordered() ? last.first + last.elems == run.first : !run.ordered();
        if (same && follows) {
            last.elems += run.elems;
            return;
        }
    }
    runs.push_back(run);
}

ElementRuns cut(const ElementRuns& runs, std::int64_t begin, std::int64_t end) {
    ElementRuns some;
    std::int64_t start = 0;
    for (const ElementRun& run : runs) {
        const std::int64_t from = std::max(begin, start), to = std::min(end, start + run.elems);
        if (from < to) append(some, run.after(from - start).before(to - from));
        start += run.elems;
    }
    return some;
}

void ElementSorter::copy(std::byte* to, const std::byte* from, std::int64_t elems) const {
    std::memmove(to, from, alternatives::at(elems * bytes_));
}

void ElementSorter::rotate(std::int64_t first, std::int64_t middle, std::int64_t last) {
    std::int64_t left = middle - first, right = last - middle;
    // Blocks of equal length change places until one side fits in the buffer.
    while (std::min(left, right) > room_) {
        if (left <= right) {
            std::swap_ranges(at(first), at(first + left), at(first + left));
            first += left;
            right -= left;
        } else {
            std::swap_ranges(at(first + left - right), at(first + left), at(first + left));
            left -= right;
        }
    }
    if (left == 0 || right == 0) return;
    if (left <= right) {
        copy(scratch_, at(first), left);
        copy(at(first), at(first + left), right);
        copy(at(first + right), scratch_, left);
    } else {
        copy(scratch_, at(first + left), right);
        copy(at(first + right), at(first), left);
        copy(at(first), scratch_, right);
    }
}

/// One of the lists waits in the buffer. If it is the first, memory is filled from the front,
/// otherwise from the back: nothing is overwritten that is still to be moved.
ElementRuns ElementSorter::merge_through_buffer(std::int64_t begin, const ElementRuns& a,
                                                const ElementRuns& b, bool a_waits) {
    const std::int64_t size_a = elems_of(a);
    copy(scratch_, at(a_waits ? begin : begin + size_a), elems_of(a_waits ? a : b));
    struct Move {
        std::byte* to;
        const std::byte* from;
        std::int64_t elems;
    };
    std::vector<Move> moves;
    ElementRuns merged;
    std::byte* to = at(begin);
    const std::byte* from_a = a_waits ? scratch_ : to;
    const std::byte* from_b = a_waits ? at(begin + size_a) : scratch_;
    for (auto ia = a.begin(), ib = b.begin(); ia != a.end() || ib != b.end();) {
        const bool take_a = ib == b.end() || (ia != a.end() && !(*ib < *ia));
        const std::byte*& from = take_a ? from_a : from_b;
        const ElementRun& run = take_a ? *ia++ : *ib++;
        moves.push_back({to, from, run.elems});
        from += run.elems * bytes_;
        to += run.elems * bytes_;
        append(merged, run);
    }
    if (!a_waits) std::ranges::reverse(moves);
    for (const Move& move : moves)
        if (move.to != move.from) copy(move.to, move.from, move.elems);
    return merged;
}

/// Neither list fits in the buffer: what is below a pivot changes places with what is above it.
ElementRuns ElementSorter::merge_halves(std::int64_t begin, const ElementRuns& a,
                                        const ElementRuns& b) {
    const auto split = [](const ElementRuns& runs, std::ptrdiff_t n) {
        return std::pair(ElementRuns(runs.begin(), runs.begin() + n),
                         ElementRuns(runs.begin() + n, runs.end()));
    };
    std::ptrdiff_t na = static_cast<std::ptrdiff_t>(a.size()) / 2;
    std::ptrdiff_t nb = static_cast<std::ptrdiff_t>(b.size()) / 2;
    if (a.size() >= b.size())
        nb = std::lower_bound(b.begin(), b.end(), a[alternatives::at(na)]) - b.begin();
    else
        na = std::upper_bound(a.begin(), a.end(), b[alternatives::at(nb)]) - a.begin();
    const auto [low_a, high_a] = split(a, na);
    const auto [low_b, high_b] = split(b, nb);
    const std::int64_t first = begin + elems_of(low_a), middle = first + elems_of(high_a);
    rotate(first, middle, middle + elems_of(low_b));
    ElementRuns merged = merge(begin, low_a, low_b);
    append_all(merged, merge(first + elems_of(low_b), high_a, high_b));
    return merged;
}

ElementRuns ElementSorter::merge(std::int64_t begin, const ElementRuns& a, const ElementRuns& b) {
    if (a.empty() || b.empty() || !(b.front() < a.back())) {
        ElementRuns merged = a;
        append_all(merged, b);
        return merged;
    }
    const std::int64_t size_a = elems_of(a), size_b = elems_of(b);
    if (std::min(size_a, size_b) > room_) return merge_halves(begin, a, b);
    return merge_through_buffer(begin, a, b, size_a <= size_b);
}

ElementRuns ElementSorter::sort_runs(std::int64_t begin, const ElementRuns& runs) {
    if (std::is_sorted(runs.begin(), runs.end())) return runs;
    const auto half = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
    const ElementRuns low = sort_runs(begin, {runs.begin(), half});
    const ElementRuns high = sort_runs(begin + elems_of(low), {half, runs.end()});
    return merge(begin, low, high);
}

ElementRuns ElementSorter::sort_stable(const TargetCodes& codes, std::int64_t elems,
                                       std::uint32_t most_code, std::int32_t source) {
    return with_codes(codes, [&](const auto* code) {
        std::vector<std::int64_t> done(most_code + 1, 0), next(most_code + 1);
        const auto sort_piece = [&](std::int64_t begin, std::int64_t end) {
            std::vector<std::int64_t> count(most_code + 1, 0);
            const auto* const codes_here = code;  // locals: elements that are copied alias all else
            for (std::int64_t i = begin; i < end; ++i) ++count[codes_here[i]];
            std::exclusive_scan(count.begin(), count.end(), next.begin(), std::int64_t{0});
            std::int64_t* const places = next.data();
            for (std::int64_t i = begin; i < end; ++i)
                copy(scratch_ + places[codes_here[i]]++ * bytes_, at(i), 1);
            copy(at(begin), scratch_, end - begin);
            ElementRuns runs;
            for (std::uint32_t c = 0; c <= most_code; ++c) {
                append(runs, {static_cast<std::int32_t>(c), source, done[c], count[c]});
                done[c] += count[c];
            }
            return runs;
        };
        const auto sort_pieces = [&](auto& again, std::int64_t begin, std::int64_t end) {
            const std::int64_t pieces = (end - begin + room_ - 1) / room_;
            if (pieces <= 1) return sort_piece(begin, end);
            const std::int64_t middle = begin + pieces / 2 * room_;
            const ElementRuns low = again(again, begin, middle);
            return merge(begin, low, again(again, middle, end));
        };
        return sort_pieces(sort_pieces, 0, elems);
    });
}

ElementRuns ElementSorter::sort_unordered(const TargetCodes& codes, std::int64_t elems,
                                          std::uint32_t most_code) {
    return with_codes(codes, [&](const auto* code) {
        std::vector<std::int64_t> count(most_code + 1, 0), next(most_code + 1);
        for (std::int64_t i = 0; i < elems; ++i) ++count[code[i]];
        std::exclusive_scan(count.begin(), count.end(), next.begin(), std::int64_t{0});
        ElementRuns runs;
        std::int64_t end = 0;
        for (std::uint32_t c = 0; c <= most_code; ++c) {
            append(runs, {static_cast<std::int32_t>(c), 0, -1, count[c]});
            end += count[c];
            while (next[c] < end) {
                // Whatever lies from next[] on has not been moved: its code is the one given.
                const std::int64_t hole = next[c]++;
                for (std::uint32_t belongs = code[hole]; belongs != c;) {
                    const std::int64_t place = next[belongs]++;
                    belongs = code[place];
                    std::swap_ranges(at(hole), at(hole + 1), at(place));
                }
            }
        }
        return runs;
    });
}

}  // namespace datamover::alternatives
