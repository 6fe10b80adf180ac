// SPDX-License-Identifier: BSD-3-Clause
// The offsets encoding: short offsets from the base of a chunk.
#include "offsets.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "copy_loops.hpp"
#include "encodings.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

using Addresses = std::vector<std::int64_t>;

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
    const auto divisor = static_cast<std::uint64_t>(unit / scale);
    side.step = 0;
    side.base = range.low * scale;
    side.width = width_for((range.high - range.low) / (unit / scale));
    side.at = static_cast<std::int64_t>(data.size());
    const std::size_t end = data.size() + static_cast<std::size_t>(n * side.width);
    data.resize(end + offset_padding_bytes);
    unsigned char* to = data.data() + side.at;
    if (std::has_single_bit(divisor)) {
        scan.write(a, n, range.low, std::countr_zero(divisor), side.width, to);
    } else {
        Addresses divided(a, a + n);
        for (std::int64_t& address : divided)
            address = (address - range.low) / static_cast<std::int64_t>(divisor);
        scan.write(divided.data(), n, 0, 0, side.width, to);
    }
    data.resize(end);
    return side;
}

/// Appends one chunk of addresses in units of the given scales.
void write_chunk(OffsetsStorage& storage, const std::int64_t* source,
                 const std::int64_t* destination, std::int64_t n, std::int64_t source_scale,
                 std::int64_t destination_scale) {
    OffsetChunk chunk;
    chunk.elems = n;
    chunk.source = write_side(source, n, source_scale, storage.source_unit, storage.data);
    chunk.destination =
        write_side(destination, n, destination_scale, storage.destination_unit, storage.data);
    storage.chunks.push_back(chunk);
    storage.elems += n;
}

/// Collects addresses into chunks.
class ChunkWriter {
public:
    explicit ChunkWriter(OffsetsStorage& storage) : storage_(storage) {}

    void push(std::int64_t source, std::int64_t destination) {
        source_.push_back(source);
        destination_.push_back(destination);
        if (static_cast<std::int64_t>(source_.size()) == longest_chunk_elems) flush();
    }
    void flush() {
        if (source_.empty()) return;
        write_chunk(storage_, source_.data(), destination_.data(),
                    static_cast<std::int64_t>(source_.size()), 1, 1);
        source_.clear();
        destination_.clear();
    }

private:
    OffsetsStorage& storage_;
    Addresses source_;
    Addresses destination_;
};

/// The largest unit that divides all differences of addresses on a side.
void find_units(const AddressRelation::Storage& from, OffsetsStorage& result) {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    bool first = true;
    StridedRun start;
    from.visit([&](const StridedRun& r) {
        if (first) start = r;
        first = false;
        if (source == 1 && destination == 1) return;
        auto join = [](std::int64_t& unit, std::int64_t difference) {
            if (unit == 0 || difference % unit != 0) unit = std::gcd(unit, difference);
        };
        join(source, r.source - start.source);
        join(destination, r.destination - start.destination);
        if (r.elems == 1) return;
        join(source, r.source_step);
        join(destination, r.destination_step);
    });
    result.source_unit = source != 0 ? source : 1;
    result.destination_unit = destination != 0 ? destination : 1;
}

}  // namespace

namespace {

template <std::int64_t width>
void read_offsets(const unsigned char* at, std::int64_t n, std::int64_t base, std::int64_t unit,
                  std::int64_t* addresses) {
    // Three bytes are read as four, which is why data end with padding.
    constexpr std::size_t read = width == 3 ? 4 : width;
    constexpr std::uint64_t mask = width == 3 ? 0xFFFFFF : ~std::uint64_t{0};
    for (std::int64_t i = 0; i < n; ++i) {
        std::uint64_t offset = 0;
        std::memcpy(&offset, at + i * width, read);
        addresses[i] = base + static_cast<std::int64_t>(offset & mask) * unit;
    }
}

}  // namespace

void read_addresses(const OffsetsStorage& storage, const OffsetSide& own, Side side,
                    std::int64_t first, std::int64_t n, std::int64_t* addresses) {
    if (own.width == 0) {
        for (std::int64_t i = 0; i < n; ++i) addresses[i] = own.base + (first + i) * own.step;
        return;
    }
    const std::int64_t unit = storage.unit(side);
    const unsigned char* at = storage.data.data() + own.at + first * own.width;
    switch (own.width) {
        case 1:
            return read_offsets<1>(at, n, own.base, unit, addresses);
        case 2:
            return read_offsets<2>(at, n, own.base, unit, addresses);
        case 3:
            return read_offsets<3>(at, n, own.base, unit, addresses);
        case 4:
            return read_offsets<4>(at, n, own.base, unit, addresses);
        default:
            return read_offsets<8>(at, n, own.base, unit, addresses);
    }
}

void read_all_addresses(const OffsetsStorage& storage, Side side,
                        std::vector<std::int64_t>& addresses) {
    addresses.resize(static_cast<std::size_t>(storage.elems));
    std::int64_t* to = addresses.data();
    for (const OffsetChunk& chunk : storage.chunks) {
        read_addresses(storage, chunk.side(side), side, 0, chunk.elems, to);
        to += chunk.elems;
    }
}

void OffsetsStorage::visit(const RunVisitor& visit) const {
    Addresses s(static_cast<std::size_t>(longest_chunk_elems));
    Addresses d(static_cast<std::size_t>(longest_chunk_elems));
    for (const OffsetChunk& chunk : chunks) {
        if (chunk.source.width == 0 && chunk.destination.width == 0) {
            visit({chunk.source.base, chunk.destination.base, chunk.elems, chunk.source.step,
                   chunk.destination.step});
            continue;
        }
        read_addresses(*this, chunk.source, Side::source, 0, chunk.elems, s.data());
        read_addresses(*this, chunk.destination, Side::destination, 0, chunk.elems, d.data());
        scan_pairs({s.data(), d.data(), static_cast<std::size_t>(chunk.elems), 1, 1,
                    source_elem_bytes, destination_elem_bytes},
                   [&](const StridedRun& run) {
                       visit(run);
                       return true;
                   });
    }
}

StoragePtr encode_offsets(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<OffsetsStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    find_units(from, *result);
    ChunkWriter writer(*result);
    from.visit([&](const StridedRun& r) {
        for (std::int64_t i = 0; i < r.elems; ++i)
            writer.push(r.source + i * r.source_step, r.destination + i * r.destination_step);
    });
    writer.flush();
    result->data.resize(result->data.size() + offset_padding_bytes);
    return result;
}

namespace {

/// The largest power of two, up to that in the size of an element, that divides all differences.
std::int64_t unit_of(const std::int64_t* a, std::int64_t n, std::int64_t scale,
                     std::int64_t elem_bytes) {
    if (scale != 1) return scale;
    std::uint64_t bits = static_cast<std::uint64_t>(elem_bytes);
    for (std::int64_t i = 0; i < n; ++i) bits |= static_cast<std::uint64_t>(a[i] - a[0]);
    return std::int64_t{1} << std::countr_zero(bits);
}

}  // namespace

StoragePtr encode_offsets(const PairList& list, DifferenceCounts& found) {
    auto result =
        std::make_shared<OffsetsStorage>(list.source_elem_bytes, list.destination_elem_bytes);
    const auto n = static_cast<std::int64_t>(list.size);
    result->source_unit = unit_of(list.source, n, list.source_unit, list.source_elem_bytes);
    result->destination_unit =
        unit_of(list.destination, n, list.destination_unit, list.destination_elem_bytes);
    // A step that no difference can have, where elements are no whole number of units.
    auto step = [](std::int64_t elem, std::int64_t unit) {
        return elem % unit == 0 ? elem / unit : std::numeric_limits<std::int64_t>::max();
    };
    const std::int64_t source_step = step(list.source_elem_bytes, list.source_unit);
    const std::int64_t destination_step = step(list.destination_elem_bytes, list.destination_unit);
    // All that is asked of a chunk is asked while it is near: long lists are read once.
    for (std::int64_t first = 0; first < n; first += longest_chunk_elems) {
        const std::int64_t here = std::min(longest_chunk_elems, n - first);
        const std::int64_t before = first > 0 ? 1 : 0;
        const DifferenceCounts part = copy_loops().scan.differences(
            list.source + first - before, list.destination + first - before, here + before,
            source_step, destination_step);
        found.touching += part.touching;
        found.changes += part.changes;
        // The first chunk shows about how much the others take.
        if (first == longest_chunk_elems)
            result->data.reserve(result->data.size() * static_cast<std::size_t>(n / first + 1) +
                                 offset_padding_bytes);
        write_chunk(*result, list.source + first, list.destination + first, here, list.source_unit,
                    list.destination_unit);
    }
    result->data.resize(result->data.size() + offset_padding_bytes);
    return result;
}

}  // namespace datamover
