// SPDX-License-Identifier: BSD-3-Clause
// Partitioning elements by target in one pass, and collecting them again.
#include "partition.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "relation/scalar_types.hpp"
#include "target_codes.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace datamover::distribute {
namespace {

/// An element size known to the compiler; 0 stands for one known at run time.
template <std::int64_t bytes>
struct Size {
    static constexpr std::int64_t value = bytes;
    std::int64_t run_time = bytes;
    std::int64_t get() const { return bytes > 0 ? bytes : run_time; }
};

/// Calls f(Size<bytes>) for sizes that are common.
template <class F>
void with_size(std::int64_t bytes, F&& f) {
    const auto try_sizes =
        [&]<std::int64_t... sizes>(std::integer_sequence<std::int64_t, sizes...>) {
            return ((bytes == sizes && (f(Size<sizes>{}), true)) || ...);
        };
    using Common = std::integer_sequence<std::int64_t, 1, 2, 4, 8, 12, 16, 24, 32, 48, 56, 64, 72,
                                         80, 96, 128>;
    if (!try_sizes(Common{})) f(Size<0>{bytes});
}

/// Visits elements of one entry each in order: f(element, place of its target); the places advance
/// by `bytes`. Finds the places of eight elements before it visits them: else each place is loaded
/// after a store to an address that the processor does not know yet, and waits for it.
template <bool drops, class Code, class Byte, class F>
void visit_singles(const ElementRange& range, const Code* codes, std::int64_t bytes, Byte** places,
                   F&& f) {
    const auto drop = static_cast<Code>(range.drop_code);
    const auto take = [&](std::int64_t i) -> Byte* {
        const Code code = codes[i];
        if (drops && code == drop) return nullptr;
        Byte* place = places[code];
        places[code] = place + bytes;
        return place;
    };
    const auto visit = [&](std::int64_t i, Byte* place) {
        if (!drops || place) f(i, place);
    };
    std::int64_t i = range.begin_elem;
    for (constexpr int together = 8; i + together <= range.end_elem; i += together) {
        Byte* found[together];
#pragma GCC unroll 8
        for (int k = 0; k < together; ++k) found[k] = take(i + k);
#pragma GCC unroll 8
        for (int k = 0; k < together; ++k) visit(i + k, found[k]);
    }
    for (; i < range.end_elem; ++i) visit(i, take(i));
}

template <class Code, class S>
void fan_out_singles(const ElementRange& range, const Code* codes, const ElementColumn& column,
                     S size, std::byte** places) {
    const auto* source = static_cast<const std::byte*>(column.data);
    const std::int64_t bytes = size.get(), stride = column.stride_bytes;
    const auto copy = [=](std::int64_t i, std::byte* place) {
        std::memcpy(place, source + i * stride, static_cast<std::size_t>(bytes));
    };
    if (range.drops)
        visit_singles<true>(range, codes, bytes, places, copy);
    else
        visit_singles<false>(range, codes, bytes, places, copy);
}

#if defined(__SSE2__)
/// Whole cache lines, written past the caches: what is written is not read here again, and a line
/// that is written whole need not be fetched before.
template <class Code>
void fan_out_lines(const ElementRange& range, const Code* codes, const ElementColumn& column,
                   std::byte** places) {
    const auto* source = static_cast<const std::byte*>(column.data);
    const std::int64_t bytes = column.elem_bytes, stride = column.stride_bytes;
    visit_singles<true>(range, codes, bytes, places, [=](std::int64_t i, std::byte* place) {
        const std::byte* from = source + i * stride;
        for (std::int64_t b = 0; b < bytes; b += 16)
            _mm_stream_si128(reinterpret_cast<__m128i*>(place + b),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + b)));
    });
    _mm_sfence();
}

bool lines_fit(const ElementRange& range, const ElementColumn& column, std::byte* const* places) {
    if (!range.streams || column.elem_bytes % 64 != 0) return false;
    for (std::uint32_t r = 0; r < range.drop_code; ++r)
        if (reinterpret_cast<std::uintptr_t>(places[r]) % 64 != 0) return false;
    return true;
}
#endif

/// Elements without gaps to few targets; false, and nothing is done, for others.
bool fan_out_packed(const ElementRange& range, const ElementColumn& column, std::byte** places,
                    const PartitionLoops& loops) {
    const bool suits = range.codes->width_bytes == 1 &&
                       (column.elem_bytes == 4 || column.elem_bytes == 8) &&
                       column.stride_bytes == column.elem_bytes;
    if (!suits) return false;
    const auto* codes = reinterpret_cast<const std::uint8_t*>(range.codes->data());
    const auto* source = static_cast<const std::byte*>(column.data);
    const auto loop = column.elem_bytes == 4 ? loops.fan_out_4 : loops.fan_out_8;
    return loop({codes + range.begin_elem, source + range.begin_elem * column.elem_bytes,
                 range.end_elem - range.begin_elem, range.drop_code},
                places);
}

/// Visits all entries in order: f(element, place of its next value); the places move on.
template <class Byte, class F>
void visit_entries(const ElementRange& range, Byte** places, std::int64_t bytes, F&& f) {
    for_each_entry(range, [&](std::int64_t i, auto code) {
        f(i, places[code]);
        places[code] += bytes;
    });
}

template <Op op, class T>
void combine_into(std::byte* in_place, const std::byte* arriving, std::int64_t bytes) {
    for (std::int64_t b = 0; b < bytes; b += static_cast<std::int64_t>(sizeof(T))) {
        char* to = reinterpret_cast<char*>(in_place + b);
        const char* from = reinterpret_cast<const char*>(arriving + b);
        scalar::store(to, scalar::combine<op>(scalar::load<T>(to), scalar::load<T>(from)));
    }
}

template <Op op>
void collect_by(const ElementRange& range, const std::byte** places, std::byte* result,
                std::int64_t bytes, ScalarType type) {
    std::vector<bool> begun(
        static_cast<std::size_t>(range.rows.one_each() ? 0 : range.end_elem - range.begin_elem));
    scalar::with_type(type, [&]<class T>() {
        visit_entries(range, places, bytes, [&](std::int64_t elem, const std::byte* value) {
            std::byte* in_place = result + elem * bytes;
            const auto e = static_cast<std::size_t>(elem - range.begin_elem);
            if (begun.empty() || !begun[e]) {
                std::memcpy(in_place, value, static_cast<std::size_t>(bytes));
                if (!begun.empty()) begun[e] = true;
            } else {
                combine_into<op, T>(in_place, value, bytes);
            }
        });
    });
}

/// Lists the numbers whose code is not `kept`, without a branch for each: which ones leave cannot
/// be guessed. Runs of eight that stay cost one comparison. Writes one number beyond those it
/// lists.
template <class Code>
std::int64_t list_leaving(const Code* codes, std::int64_t begin, std::int64_t end, Code kept,
                          std::int64_t* numbers) {
    std::int64_t listed = 0;
    std::int64_t i = begin;
    if constexpr (sizeof(Code) == 1) {
        const std::uint64_t pattern = 0x0101010101010101u * kept;
        for (; i + 8 <= end; i += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, codes + i, 8);
            if (eight == pattern) continue;
            for (std::int64_t j = i; j < i + 8; ++j) {
                numbers[listed] = j;
                listed += codes[j] != kept;
            }
        }
    }
    for (; i < end; ++i) {
        numbers[listed] = i;
        listed += codes[i] != kept;
    }
    return listed;
}

}  // namespace

void fan_out(const ElementRange& range, const ElementColumn& column, std::byte** places,
             const PartitionLoops& loops) {
    const auto* source = static_cast<const std::byte*>(column.data);
    const auto bytes = static_cast<std::size_t>(column.elem_bytes);
    if (!range.rows.one_each())
        return visit_entries(range, places, column.elem_bytes,
                             [&](std::int64_t i, std::byte* place) {
                                 std::memcpy(place, source + i * column.stride_bytes, bytes);
                             });
    with_codes(*range.codes, [&]<class Code>(const Code* codes) {
        if (fan_out_packed(range, column, places, loops)) return;
#if defined(__SSE2__)
        if (lines_fit(range, column, places)) return fan_out_lines(range, codes, column, places);
#endif
        with_size(column.elem_bytes,
                  [&](auto size) { fan_out_singles(range, codes, column, size, places); });
    });
}

void collect(const ElementRange& range, const std::byte** places, std::byte* result,
             std::int64_t elem_bytes, Op op, ScalarType type) {
    const auto combine = [&]<Op... ops>() {
        return ((op == ops && (collect_by<ops>(range, places, result, elem_bytes, type), true)) ||
                ...);
    };
    if (combine.operator()<Op::add, Op::multiply, Op::minimum, Op::maximum>()) return;
    if (!range.rows.one_each())
        return visit_entries(range, places, elem_bytes,
                             [&](std::int64_t elem, const std::byte* value) {
                                 std::memcpy(result + elem * elem_bytes, value,
                                             static_cast<std::size_t>(elem_bytes));
                             });
    with_codes(*range.codes, [&](const auto* codes) {
        with_size(elem_bytes, [&](auto size) {
            const std::int64_t bytes = size.get();
            visit_singles<true>(
                range, codes, bytes, places, [=](std::int64_t i, const std::byte* place) {
                    std::memcpy(result + i * bytes, place, static_cast<std::size_t>(bytes));
                });
        });
    });
}

std::span<const std::int64_t> LeavingElems::next(std::int64_t most) {
    while (given_ == end_ && range_.begin_elem < range_.end_elem) find_block();
    const std::int64_t n = std::min(most, end_ - given_);
    given_ += n;
    return {found_.data() + given_ - n, static_cast<std::size_t>(n)};
}

void LeavingElems::find_block() {
    const std::int64_t end = std::min(range_.end_elem, range_.begin_elem + block_elems);
    with_codes(*range_.codes, [&]<class Code>(const Code* codes) {
        end_ = list_leaving(codes, range_.begin_elem, end, static_cast<Code>(kept_), found_.data());
    });
    range_.begin_elem = end;
    given_ = 0;
}

void fan_out_leaving(const ElementRange& range, const ElementColumn& column, std::uint32_t kept,
                     std::byte** places) {
    const auto* source = static_cast<const std::byte*>(column.data);
    LeavingElems leaving(range, kept);
    with_codes(*range.codes, [&](const auto* codes) {
        with_size(column.elem_bytes, [&](auto size) {
            const std::int64_t bytes = size.get();
            for (auto some = leaving.next(range.end_elem); !some.empty();
                 some = leaving.next(range.end_elem))
                for (const std::int64_t i : some) {
                    if (codes[i] == range.drop_code) continue;
                    std::memcpy(places[codes[i]], source + i * column.stride_bytes,
                                static_cast<std::size_t>(bytes));
                    places[codes[i]] += bytes;
                }
        });
    });
}

void put_at(std::span<const std::int64_t> numbers, const std::byte* from, std::byte* data,
            std::int64_t elem_bytes) {
    with_size(elem_bytes, [&](auto size) {
        const std::int64_t bytes = size.get();
        for (const std::int64_t i : numbers) {
            std::memcpy(data + i * bytes, from, static_cast<std::size_t>(bytes));
            from += bytes;
        }
    });
}

}  // namespace datamover::distribute
