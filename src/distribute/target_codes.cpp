// SPDX-License-Identifier: BSD-3-Clause
// Target codes: the target of each element in as few bytes as possible.
#include "target_codes.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <type_traits>

#include "datamover/targets.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "relation/copy_loops.hpp"
#include "relation/scalar_types.hpp"

namespace datamover::distribute {
namespace {

/// Entries handled at a time: their targets and codes stay in the first cache.
constexpr std::int64_t chunk_entries = 2048;
/// How far ahead fields of large elements are asked for.
constexpr std::int64_t prefetched_bytes = 8192;
/// Up to so many processes, comparing all codes with each rank is faster than a histogram.
constexpr int compared_ranks = 16;

/// Turns targets into codes; true when one of them is no rank.
template <class Code, class Target>
bool encode(const std::byte* data, std::int64_t stride, std::int64_t n, Code* codes, int nprocs) {
    if constexpr (sizeof(Code) == 1 && std::is_signed_v<Target> && sizeof(Target) >= 4) {
        const PartitionLoops& loops = copy_loops().partition;
        const auto loop = sizeof(Target) == 4 ? loops.encode_int32 : loops.encode_int64;
        if (stride == sizeof(Target)) return loop(data, n, codes, nprocs);
    }
    const auto limit = static_cast<std::uint64_t>(nprocs);
    bool bad = false;
    const auto encode_all = [&](auto stride_bytes, auto jumps) {
        for (std::int64_t i = 0; i < n; ++i) {
            Target value;
            if (jumps) __builtin_prefetch(data + i * stride_bytes + prefetched_bytes);
            __builtin_memcpy(&value, data + i * stride_bytes, sizeof(Target));
            const auto target = static_cast<std::uint64_t>(value);
            // -1 is no large number; among those without sign there is none.
            bad |= std::is_signed_v<Target> ? target + 1 > limit : target >= limit;
            codes[i] = static_cast<Code>(std::min(target, limit));  // of what drops the limit
        }
    };
    if (stride == static_cast<std::int64_t>(sizeof(Target)))
        encode_all(std::integral_constant<std::int64_t, std::int64_t{sizeof(Target)}>(),
                   std::false_type());
    else
        encode_all(stride, stride >= 32);
    return bad;
}

template <class Code>
using Encoder = bool (*)(const std::byte*, std::int64_t, std::int64_t, Code*, int);

template <class Code>
Encoder<Code> encoder_of(ScalarType type) {
    return scalar::with_type(type, [type]<class Target>() -> Encoder<Code> {
        if constexpr (std::is_integral_v<Target>)
            return encode<Code, Target>;
        else
            throw make_error(ErrorCode::wrong_type, "targets must be integers, not ",
                             scalar_name(type));
    });
}

/// Counts codes: by comparison where there are few ranks, so that it vectorises; else in four
/// histograms in turn, so that equal neighbours do not wait for each other.
template <class Code>
class Counter {
public:
    explicit Counter(int nprocs)
        : ranks_(nprocs + 1),
          compares_(sizeof(Code) == 1 && nprocs <= compared_ranks),
          counts_(static_cast<std::size_t>(ranks_) * (compares_ ? 1 : lanes)) {}

    void add(const Code* codes, std::int64_t n) {
        if constexpr (sizeof(Code) == 1)
            if (compares_) return copy_loops().partition.count(codes, n, counts_.data(), ranks_);
        tally(codes, n);
    }

    std::vector<std::int64_t> sum() {
        const auto ranks = static_cast<std::size_t>(ranks_);
        for (std::size_t i = ranks; i < counts_.size(); ++i) counts_[i % ranks] += counts_[i];
        counts_.resize(ranks);
        return std::move(counts_);
    }

private:
    static constexpr std::size_t lanes = 4;

    void tally(const Code* codes, std::int64_t n) {
        const auto ranks = static_cast<std::size_t>(ranks_);
        std::int64_t* table = counts_.data();
        std::int64_t i = 0;
        for (; i + 4 <= n; i += 4) {
            ++table[codes[i]];
            ++table[ranks + codes[i + 1]];
            ++table[2 * ranks + codes[i + 2]];
            ++table[3 * ranks + codes[i + 3]];
        }
        for (; i < n; ++i) ++table[codes[i]];
    }

    int ranks_;
    bool compares_;
    std::vector<std::int64_t> counts_;
};

std::int64_t elem_of(const TargetList& targets, std::int64_t entry) {
    if (targets.row_starts.empty()) return entry / targets.targets_per_elem;
    const auto row = std::upper_bound(targets.row_starts.begin(), targets.row_starts.end(), entry);
    return row - targets.row_starts.begin() - 1;
}

std::string text_of(ScalarType type, const std::byte* target) {
    return scalar::with_type(type, [&]<class Target>() -> std::string {
        if constexpr (std::is_integral_v<Target>) {
            Target value;
            __builtin_memcpy(&value, target, sizeof value);
            return std::to_string(value);
        }
        return {};  // there is no encoder for it
    });
}

[[noreturn]] void refuse(const TargetList& targets, std::int64_t entry, const std::string& value,
                         int rank, int nprocs) {
    const std::string element = concat("element ", elem_of(targets, entry), " of process ", rank);
    const std::string right =
        concat("; targets are ranks from 0 to ", nprocs - 1, ", or -1 to drop");
    if (targets.evaluate && value == std::to_string(TargetMap::no_target))
        throw make_error(ErrorCode::out_of_range, element,
                         " has no target: its key is not a number, or lies outside (what tells "
                         "targets gave ",
                         value, ")", right);
    throw make_error(ErrorCode::out_of_range, element, " has target ", value, right);
}

/// Throws where sizes make no sense, or do not fit 64 bits.
void check_rows(const TargetList& targets) {
    if (targets.elems < 0 || targets.targets_per_elem < 1)
        throw make_error(ErrorCode::invalid_argument, targets.elems, " elements with ",
                         targets.targets_per_elem, " targets each make no sense");
    const auto rows = targets.row_starts;
    if (!rows.empty() && (static_cast<std::int64_t>(rows.size()) - 1 != targets.elems ||
                          rows.front() != 0 || !std::ranges::is_sorted(rows)))
        throw make_error(ErrorCode::invalid_argument, "row starts must be one more than the ",
                         targets.elems, " elements, ascending from 0");
    const std::int64_t entries =
        rows.empty() ? geometry::multiply(targets.elems, targets.targets_per_elem) : rows.back();
    geometry::multiply(entries, static_cast<std::int64_t>(sizeof(std::int64_t)));
    if (entries > 0 && !targets.data && !targets.evaluate)
        throw make_error(ErrorCode::invalid_argument, entries,
                         " targets lie in no memory: the address is null");
    if (!targets.evaluate)
        check_addresses(targets.data, entries, targets.stride_bytes, scalar_bytes(targets.type));
}

template <class Code>
std::vector<std::int64_t> read(const TargetList& targets, int rank, int nprocs, Code* codes) {
    Counter<Code> counter(nprocs);
    const bool evaluated = static_cast<bool>(targets.evaluate);
    const ScalarType type = evaluated ? ScalarType::int64 : targets.type;
    const auto encoder = encoder_of<Code>(type);
    const auto* data = static_cast<const std::byte*>(targets.data);
    std::array<std::int64_t, chunk_entries> values;
    const std::int64_t entries = targets.entries();
    for (std::int64_t first = 0; first < entries; first += chunk_entries) {
        const std::int64_t n = std::min(chunk_entries, entries - first);
        const std::byte* source = data + first * targets.stride_bytes;
        std::int64_t stride = targets.stride_bytes;
        if (evaluated) {
            targets.evaluate(first, n, values.data());
            source = reinterpret_cast<const std::byte*>(values.data());
            stride = sizeof(std::int64_t);
        }
        if (encoder(source, stride, n, codes + first, nprocs)) {
            std::int64_t i = 0;  // of the first that is wrong
            while (!encoder(source + i * stride, stride, 1, codes + first, nprocs)) ++i;
            refuse(targets, first + i, text_of(type, source + i * stride), rank, nprocs);
        }
        counter.add(codes + first, n);
    }
    return counter.sum();
}

}  // namespace

TargetCount read_targets(const TargetList& targets, int rank, int nprocs,
                         memory::SegmentPool& pool) {
    check_rows(targets);
    TargetCount result;
    TargetCodes& codes = result.codes;
    codes.width_bytes = nprocs < 256 ? 1 : nprocs < 65536 ? 2 : 4;
    codes.entries = targets.entries();
    codes.memory = pool.allocate(codes.entries * codes.width_bytes);
    with_codes(codes, [&]<class Code>(const Code*) {
        result.counts = read(targets, rank, nprocs, reinterpret_cast<Code*>(codes.memory->data));
    });
    return result;
}

// Checks of element buffers: valid addresses, and no result that overwrites elements still to be
// read.

namespace {

/// Addresses and their differences, also beyond 64 bits.
using geometry::Wide;

Wide address_of(const void* data) {
    return static_cast<Wide>(reinterpret_cast<std::uintptr_t>(data));
}

/// Whether bytes [begin, end) hold one of any element.
bool holds_any(Wide begin, Wide end, const ElementColumn& column, std::int64_t elems) {
    if (elems == 0 || begin >= end) return false;
    Wide first = address_of(column.data), stride = column.stride_bytes;
    if (stride < 0) {
        first += (elems - 1) * stride;
        stride = -stride;
    }
    if (first >= end) return false;
    if (stride == 0) return first + column.elem_bytes > begin;
    // The last element that begins before the end.
    const Wide last = std::min<Wide>(elems - 1, (end - 1 - first) / stride);
    return first + last * stride + column.elem_bytes > begin;
}

}  // namespace

void check_addresses(const void* data, std::int64_t elems, std::int64_t stride_bytes,
                     std::int64_t elem_bytes) {
    if (elems == 0) return;
    const Wide first = address_of(data), last = first + Wide{elems - 1} * stride_bytes;
    if (std::min(first, last) < 0 ||
        std::max(first, last) + elem_bytes > std::numeric_limits<std::int64_t>::max())
        throw make_error(ErrorCode::out_of_range, elems, " elements, each ", stride_bytes,
                         " bytes behind the one before, lie in no memory");
}

std::optional<Error> overlapping(std::span<const ElementColumn> columns, std::int64_t column_elems,
                                 std::span<const ElementBuffer> results, std::int64_t result_elems,
                                 int rank) {
    const auto error = [&](std::size_t result, const char* what, std::size_t other) {
        return make_error(ErrorCode::invalid_argument, "on process ", rank, " result ", result,
                          " overlaps ", what, " ", other,
                          "; results need memory of their own (or move_in_place)");
    };
    for (std::size_t r = 0; r < results.size(); ++r) {
        const Wide begin = address_of(results[r].data);
        const Wide end = begin + Wide{result_elems} * columns[r].elem_bytes;
        for (std::size_t c = 0; c < columns.size(); ++c)
            if (holds_any(begin, end, columns[c], column_elems)) return error(r, "column", c);
        for (std::size_t other = 0; other < r; ++other) {
            const std::int64_t bytes = columns[other].elem_bytes;
            if (holds_any(begin, end, {results[other].data, bytes, bytes}, result_elems))
                return error(r, "result", other);
        }
    }
    return {};
}

}  // namespace datamover::distribute
