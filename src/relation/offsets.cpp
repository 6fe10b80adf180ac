// SPDX-License-Identifier: BSD-3-Clause
// How is an irregular relation kept as short offsets from the base of a chunk?
#include "offsets.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "encodings.hpp"
#include "pair_scan.hpp"

namespace datamover {
namespace {

using Addresses = std::vector<std::int64_t>;

std::int64_t width_for(std::int64_t largest) {
    for (const std::int64_t width : {1, 2, 3, 4})
        if (largest >> (8 * width) == 0) return width;
    return 8;
}

bool evenly_spaced(const std::int64_t* a, std::int64_t n, std::int64_t& step) {
    step = n > 1 ? a[1] - a[0] : 0;
    for (std::int64_t i = 2; i < n; ++i)
        if (a[i] - a[i - 1] != step) return false;
    return true;
}

template <std::int64_t width>
void write_offsets(const std::int64_t* a, std::int64_t n, std::int64_t low, std::int64_t unit,
                   unsigned char* to) {
    for (std::int64_t i = 0; i < n; ++i) {
        auto offset = static_cast<std::uint64_t>(unit == 1 ? a[i] - low : (a[i] - low) / unit);
        for (std::int64_t b = 0; b < width; ++b, offset >>= 8)
            to[i * width + b] = static_cast<unsigned char>(offset & 0xFF);
    }
}

/// Writes n addresses that are given in units of `scale` bytes; offsets count units of `unit`
/// bytes, a multiple of scale.
OffsetSide write_side(const std::int64_t* a, std::int64_t n, std::int64_t scale, std::int64_t unit,
                      std::vector<unsigned char>& data) {
    OffsetSide side;
    if (evenly_spaced(a, n, side.step)) {
        side.base = a[0] * scale;
        side.step *= scale;
        return side;
    }
    std::int64_t low = a[0];
    std::int64_t high = a[0];
    for (std::int64_t i = 1; i < n; ++i) {
        low = std::min(low, a[i]);
        high = std::max(high, a[i]);
    }
    const std::int64_t divisor = unit / scale;
    side.step = 0;
    side.base = low * scale;
    side.width = width_for((high - low) / divisor);
    side.at = static_cast<std::int64_t>(data.size());
    data.resize(data.size() + static_cast<std::size_t>(n * side.width));
    unsigned char* to = data.data() + side.at;
    switch (side.width) {
        case 1:
            write_offsets<1>(a, n, low, divisor, to);
            break;
        case 2:
            write_offsets<2>(a, n, low, divisor, to);
            break;
        case 3:
            write_offsets<3>(a, n, low, divisor, to);
            break;
        case 4:
            write_offsets<4>(a, n, low, divisor, to);
            break;
        default:
            write_offsets<8>(a, n, low, divisor, to);
            break;
    }
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

void read_addresses(const OffsetsStorage& storage, const OffsetSide& side, bool of_source,
                    std::int64_t first, std::int64_t n, std::int64_t* addresses) {
    if (side.width == 0) {
        for (std::int64_t i = 0; i < n; ++i) addresses[i] = side.base + (first + i) * side.step;
        return;
    }
    const std::int64_t unit = storage.unit(of_source);
    const unsigned char* at = storage.data.data() + side.at + first * side.width;
    for (std::int64_t i = 0; i < n; ++i, at += side.width) {
        std::uint64_t offset = 0;
        for (std::int64_t b = side.width; b-- > 0;) offset = offset << 8 | at[b];
        addresses[i] = side.base + static_cast<std::int64_t>(offset) * unit;
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
        read_addresses(*this, chunk.source, true, 0, chunk.elems, s.data());
        read_addresses(*this, chunk.destination, false, 0, chunk.elems, d.data());
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

StoragePtr encode_offsets(const PairList& list) {
    auto result =
        std::make_shared<OffsetsStorage>(list.source_elem_bytes, list.destination_elem_bytes);
    result->source_unit = list.source_unit;
    result->destination_unit = list.destination_unit;
    const auto n = static_cast<std::int64_t>(list.size);
    for (std::int64_t first = 0; first < n; first += longest_chunk_elems)
        write_chunk(*result, list.source + first, list.destination + first,
                    std::min(longest_chunk_elems, n - first), list.source_unit,
                    list.destination_unit);
    result->data.resize(result->data.size() + offset_padding_bytes);
    return result;
}

}  // namespace datamover
