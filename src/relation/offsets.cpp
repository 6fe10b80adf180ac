// SPDX-License-Identifier: BSD-3-Clause
// The offsets encoding: short offsets from the base of a chunk.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "copy_loops.hpp"
#include "encodings.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

std::int64_t width_for(std::int64_t largest) {
    for (const std::int64_t width : {1, 2, 3, 4})
        if (largest >> (8 * width) == 0) return width;
    return 8;
}

/// Writes n addresses that are given in units of `scale` bytes; offsets count units of `unit`
/// bytes, a multiple of scale.
OffsetSide write_side(const std::int64_t* a, std::int64_t n, std::int64_t scale, std::int64_t unit,
                      std::vector<unsigned char>& data) {
    const ScanLoops& scan = copy_loops().scan;
    OffsetSide side;
    side.step = n > 1 ? a[1] - a[0] : 0;
    if (scan.even(a, n, side.step)) {
        side.base = a[0] * scale;
        side.step *= scale;
        return side;
    }
    const AddressRange range = scan.range(a, n);
    const std::int64_t divisor = unit / scale;
    side.step = 0;
    side.base = range.low * scale;
    side.width = width_for((range.high - range.low) / divisor);
    side.at = static_cast<std::int64_t>(data.size());
    const std::size_t end = data.size() + static_cast<std::size_t>(n * side.width);
    data.resize(end + offset_padding_bytes);
    unsigned char* to = data.data() + side.at;
    if (const auto bits = static_cast<std::uint64_t>(divisor); std::has_single_bit(bits)) {
        scan.write(a, n, range.low, std::countr_zero(bits), side.width, to);
    } else {
        std::vector<std::int64_t> divided(a, a + n);
        for (std::int64_t& address : divided) address = (address - range.low) / divisor;
        scan.write(divided.data(), n, 0, 0, side.width, to);
    }
    data.resize(end);
    return side;
}

/// The largest number of bytes, up to those of an element, that divides all differences.
std::int64_t unit_of(const std::int64_t* a, std::int64_t n, std::int64_t scale,
                     std::int64_t elem_bytes) {
    if (scale != 1) return scale;
    auto bits = static_cast<std::uint64_t>(elem_bytes);
    for (std::int64_t i = 0; i < n; ++i) bits |= static_cast<std::uint64_t>(a[i] - a[0]);
    // If elements are as long as this power of two, which is usual, nothing has to be divided.
    const std::int64_t power_of_two = std::int64_t{1} << std::countr_zero(bits);
    std::int64_t unit = elem_bytes;
    for (std::int64_t i = 0; i < n && unit > power_of_two; ++i)
        if ((a[i] - a[0]) % unit != 0) unit = std::gcd(unit, a[i] - a[0]);
    return unit;
}

}  // namespace

void OffsetsStorage::read_addresses(const OffsetChunk& chunk, Side side, std::int64_t first,
                                    std::int64_t n, std::int64_t* addresses) const {
    const OffsetSide& own = chunk.side[side];
    if (own.width == 0)
        for (std::int64_t i = 0; i < n; ++i) addresses[i] = own.base + (first + i) * own.step;
    else
        copy_loops().scan.read(data.data() + own.at + first * own.width, n, own.base, unit[side],
                               own.width, addresses);
}

void OffsetsStorage::visit(const RunVisitor& visit) const {
    AddressLists at;
    for (const Side side : both_sides)
        at[side].resize(static_cast<std::size_t>(longest_chunk_elems));
    for (const OffsetChunk& chunk : chunks) {
        const auto& [s, d] = chunk.side;
        if (s.width == 0 && d.width == 0) {
            visit({{s.base, d.base}, chunk.elems, {s.step, d.step}});
            continue;
        }
        for (const Side side : both_sides)
            read_addresses(chunk, side, 0, chunk.elems, at[side].data());
        scan_pairs({{at.source.data(), at.destination.data()}, chunk.elems, {1, 1}, elem_bytes},
                   visit);
    }
}

StoragePtr encode_offsets(const PairList& list, DifferenceCounts& found) {
    auto result = std::make_shared<OffsetsStorage>(list.elem_bytes);
    const std::int64_t n = list.size;
    result->elems = n;
    AddressPair step;
    for (const Side side : both_sides) {
        const std::int64_t elem = list.elem_bytes[side], scale = list.unit[side];
        result->unit[side] = n > 0 ? unit_of(list.at[side], n, scale, elem) : 1;
        // A step that no difference can have, where elements are no whole number of units.
        step[side] = elem % scale == 0 ? elem / scale : std::numeric_limits<std::int64_t>::max();
    }
    // All that is asked of a chunk is asked while it is near: long lists are read once.
    for (std::int64_t first = 0; first < n; first += longest_chunk_elems) {
        OffsetChunk chunk{std::min(longest_chunk_elems, n - first), {}};
        const std::int64_t before = first > 0 ? 1 : 0;
        const DifferenceCounts part = copy_loops().scan.differences(
            list.at.source + first - before, list.at.destination + first - before,
            chunk.elems + before, step.source, step.destination);
        found.touching += part.touching;
        found.changes += part.changes;
        // The first chunk shows about how much the others take.
        if (first == longest_chunk_elems)
            result->data.reserve(result->data.size() * static_cast<std::size_t>(n / first + 1) +
                                 offset_padding_bytes);
        for (const Side side : both_sides)
            chunk.side[side] = write_side(list.at[side] + first, chunk.elems, list.unit[side],
                                          result->unit[side], result->data);
        result->chunks.push_back(chunk);
    }
    result->data.resize(result->data.size() + offset_padding_bytes);
    return result;
}

}  // namespace datamover
