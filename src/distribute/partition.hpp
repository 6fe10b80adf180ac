// SPDX-License-Identifier: BSD-3-Clause
// Partitioning elements by target in one pass, and collecting them again.
//
// The loops run over target codes directly instead of an AddressRelation: a relation would keep two
// addresses per element, while a code is one byte and the places follow from counting.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "relation/copy_loops.hpp"
#include "target_codes.hpp"

namespace datamover::distribute {

/// Which entries belong to an element: `per_elem` each, or by `row_starts`.
struct Rows {
    std::int64_t per_elem = 1;
    std::span<const std::int64_t> starts{};

    bool one_each() const { return per_elem == 1 && starts.empty(); }
    std::int64_t first_entry(std::int64_t elem) const {
        return starts.empty() ? elem * per_elem : starts[static_cast<std::size_t>(elem)];
    }
};

/// A range of this process's elements and where each of them goes.
struct ElementRange {
    const TargetCodes* codes = nullptr;
    Rows rows;
    std::int64_t begin_elem = 0, end_elem = 0;
    std::uint32_t drop_code = 0;
    bool drops = false;    ///< some entries are dropped
    bool streams = false;  ///< the places lie in memory that no cache holds: write around it
};

/// Calls f(element, code) for all entries in order, but for those that are dropped.
template <class F>
void for_each_entry(const ElementRange& range, F&& f) {
    with_codes(*range.codes, [&](const auto* codes) {
        for (std::int64_t i = range.begin_elem; i < range.end_elem; ++i) {
            const std::int64_t end = range.rows.first_entry(i + 1);
            for (std::int64_t e = range.rows.first_entry(i); e < end; ++e)
                if (codes[e] != range.drop_code) f(i, codes[e]);
        }
    });
}

/// Appends a copy of every element to the places of its targets; `places[rank]` is where the next
/// one goes and moves on.
void fan_out(const ElementRange& range, const ElementColumn& column, std::byte** places,
             const PartitionLoops& loops = copy_loops().partition);

/// The way back: takes the next element from the place of each entry's target. With several targets
/// their elements are combined, or the last one stays; elements without any are left as they are.
void collect(const ElementRange& range, const std::byte** places, std::byte* result,
             std::int64_t elem_bytes, Op op = Op::replace, ScalarType type = ScalarType::opaque);

/// The numbers of the elements that do not go to `kept`, ascending, found a block at a time. Only
/// for one target per element.
class LeavingElems {
public:
    LeavingElems(const ElementRange& range, std::uint32_t kept) : range_(range), kept_(kept) {}

    /// The next ones, at most so many; none at the end.
    std::span<const std::int64_t> next(std::int64_t most);

private:
    static constexpr std::int64_t block_elems = 2048;

    void find_block();

    ElementRange range_;  ///< what has not been looked at
    std::uint32_t kept_;
    std::array<std::int64_t, block_elems + 1> found_;
    std::int64_t given_ = 0, end_ = 0;  ///< of those found
};

/// Copies the elements that do not go to `kept` to `places` as in `fan_out`.
void fan_out_leaving(const ElementRange& range, const ElementColumn& column, std::uint32_t kept,
                     std::byte** places);

/// Copies packed elements to the places of those with the given numbers.
void put_at(std::span<const std::int64_t> numbers, const std::byte* from, std::byte* data,
            std::int64_t elem_bytes);

/// Moves a range on to the elements behind it, before element `elems`: to one at least, and
/// otherwise to as many as fit. fits(code, count) is called for each entry, with how many of its
/// code there are. Returns the number of entries for each rank.
template <class Fits>
std::vector<std::int64_t> advance_range(ElementRange& range, std::int64_t elems, Fits&& fits) {
    std::vector<std::int64_t> counts(range.drop_code + 1, 0);
    range.begin_elem = range.end_elem;
    with_codes(*range.codes, [&](const auto* codes) {
        for (std::int64_t& i = range.end_elem; i < elems; ++i) {
            const std::int64_t first = range.rows.first_entry(i),
                               end = range.rows.first_entry(i + 1);
            bool all_fit = true;
            for (std::int64_t e = first; e < end; ++e)
                all_fit = fits(codes[e], ++counts[codes[e]]) && all_fit;
            if (all_fit || i == range.begin_elem) continue;
            for (std::int64_t e = first; e < end; ++e) --counts[codes[e]];
            break;
        }
    });
    counts.pop_back();  // what is dropped
    return counts;
}

}  // namespace datamover::distribute
