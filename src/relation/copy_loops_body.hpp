// SPDX-License-Identifier: BSD-3-Clause
// Bodies of the copy loops, compiled once per instruction set. Included once per instruction set
// level, inside a namespace of that level, so that the compiler makes each with the instructions
// of its level. No include guard: that is the point.

/// A value of so many bytes that stands anywhere, and that is held in registers alone: structures
/// of 32 bytes and more go through the stack.
template <std::int64_t bytes>
struct Bytes {
    typedef unsigned char type __attribute__((vector_size(bytes), aligned(1), may_alias));
};

/// For each set of `elems` elements of `parts` parts each: the numbers of the parts that the set
/// consists of; the rest is arbitrary.
template <unsigned elems, unsigned parts>
constexpr auto packing_orders = [] {
    std::array<std::array<unsigned char, elems * parts>, 1 << elems> orders{};
    for (unsigned set = 0; set < orders.size(); ++set)
        for (unsigned e = 0, at = 0; e < elems; ++e)
            for (unsigned p = 0; p < parts && (set >> e & 1) != 0; ++p)
                orders[set][at++] = static_cast<unsigned char>(e * parts + p);
    return orders;
}();

template <std::int64_t bytes>
[[gnu::always_inline]] inline void move_fixed(char* d, const char* s) {
    __builtin_memcpy(d, s, bytes);
}

#if defined(DATAMOVER_MASKED_MOVES)
[[gnu::always_inline]] inline void move_short(char* d, const char* s, std::int64_t n) {
    const __mmask64 mask = _bzhi_u64(~0ull, static_cast<unsigned>(n));
    _mm512_mask_storeu_epi8(d, mask, _mm512_maskz_loadu_epi8(mask, s));
}
#else
/// From `bytes` to twice as many bytes, by two overlapping moves.
template <std::int64_t bytes>
[[gnu::always_inline]] inline void move_overlapping(char* d, const char* s, std::int64_t n) {
    using Value = typename Bytes<bytes>::type;
    const Value head = *reinterpret_cast<const Value*>(s);
    const Value tail = *reinterpret_cast<const Value*>(s + n - bytes);
    *reinterpret_cast<Value*>(d) = head;
    *reinterpret_cast<Value*>(d + n - bytes) = tail;
}
/// Up to 64 bytes.
[[gnu::always_inline]] inline void move_short(char* d, const char* s, std::int64_t n) {
    if (n >= 32)
        move_overlapping<32>(d, s, n);
    else if (n >= 16)
        move_overlapping<16>(d, s, n);
    else if (n >= 8)
        move_overlapping<8>(d, s, n);
    else if (n >= 4)
        move_overlapping<4>(d, s, n);
    else if (n >= 2)
        move_overlapping<2>(d, s, n);
    else if (n == 1)
        *d = *s;
}
#endif

/// Two lines, both read before they are written (measured: up to a quarter less time than line by
/// line where pieces lie apart), in as few stores as there can be: stores to lines that another
/// core has, as into the ghosts of a neighbour, wait in a short queue.
[[gnu::always_inline]] inline void move_two_lines(char* d, const char* s) {
#if defined(DATAMOVER_MASKED_MOVES)
    const __m512i first = _mm512_loadu_si512(s), second = _mm512_loadu_si512(s + 64);
    _mm512_storeu_si512(d, first);
    _mm512_storeu_si512(d + 64, second);
#else
    using Half = typename Bytes<32>::type;
    const Half* from = reinterpret_cast<const Half*>(s);
    Half* to = reinterpret_cast<Half*>(d);
    const Half first = from[0];
    const Half second = from[1];
    const Half third = from[2];
    const Half fourth = from[3];
    to[0] = first;
    to[1] = second;
    to[2] = third;
    to[3] = fourth;
#endif
}

/// Pieces too long for one move and too short for the set-up of the C library's memcpy.
[[gnu::always_inline]] inline void move_piece(char* d, const char* s, std::int64_t n) {
    if (n <= 64) {
        move_short(d, s, n);
    } else if (n < 128) {
        move_fixed<64>(d, s);
        move_fixed<64>(d + n - 64, s + n - 64);
    } else if (n <= inline_piece_bytes) {
        for (std::int64_t i = 0; i + 128 < n; i += 128) move_two_lines(d + i, s + i);
        move_two_lines(d + n - 128, s + n - 128);
    } else {
        __builtin_memcpy(d, s, static_cast<std::size_t>(n));
    }
}

/// A row of elements, `together` of them per iteration.
template <std::int64_t bytes, int together>
[[gnu::always_inline]] inline void unrolled_row(const char* s, std::int64_t is, char* d,
                                                std::int64_t id, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + together <= n; i += together, d += together * id, s += together * is)
#pragma GCC unroll 8
        for (int k = 0; k < together; ++k) move_fixed<bytes>(d + k * id, s + k * is);
    for (; i < n; ++i, d += id, s += is) move_fixed<bytes>(d, s);
}

/// Rows of so few pieces that a loop along them would cost more than they do.
template <std::int64_t bytes, std::int64_t count>
void rows_of(const LoopShape& l, const char* source, char* destination) {
    // Copies of its own: for all that the compiler knows, what is stored could be the shape.
    const AddressPair in = l.inner.stride, out = l.outer.stride;
    const std::int64_t rows = l.outer.count;
    const auto move_plane = [=](const char* s, char* d) {
        for (std::int64_t r = 0; r < rows; ++r, s += out.source, d += out.destination)
#pragma GCC unroll 8
            for (std::int64_t k = 0; k < count; ++k)
                move_fixed<bytes>(d + k * in.destination, s + k * in.source);
    };
    move_plane(source, destination);  // mostly the only one
    for (std::int64_t p = 1; p < l.planes.count; ++p)
        move_plane(source + p * l.planes.stride.source,
                   destination + p * l.planes.stride.destination);
}

/// Fills in the loops for short rows, indexed by the number of elements, two or more.
template <std::int64_t bytes, std::size_t... k>
constexpr void fill_short_rows(ShapeLoop* loops, std::index_sequence<k...>) {
    ((loops[k + 2] = rows_of<bytes, static_cast<std::int64_t>(k + 2)>), ...);
}

template <std::int64_t bytes>
void fixed_pieces(const LoopShape& l, const char* source, char* destination) {
    if constexpr (go_in_pairs(bytes))
        if (l.inner.count == 2) return rows_of<bytes, 2>(l, source, destination);
    const auto [is, id] = l.inner.stride;
    const auto [os, od] = l.outer.stride;
    const std::int64_t inner = l.inner.count;
    for (std::int64_t o = l.outer.count; o > 0; --o, source += os, destination += od)
        unrolled_row<bytes, 4>(source, is, destination, id, inner);
}

void long_pieces(const LoopShape& l, const char* source, char* destination) {
    for (std::int64_t o = 0; o < l.outer.count; ++o) {
        const char* s = source + o * l.outer.stride.source;
        char* d = destination + o * l.outer.stride.destination;
        for (std::int64_t i = 0; i < l.inner.count; ++i)
            move_piece(d + i * l.inner.stride.destination, s + i * l.inner.stride.source, l.bytes);
    }
}

template <std::int64_t bytes>
using Unsigned =
    std::conditional_t<bytes <= 2, std::conditional_t<bytes == 1, std::uint8_t, std::uint16_t>,
                       std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>;
/// An integer at any address.
template <std::int64_t bytes>
struct Word {
    typedef Unsigned<bytes> type __attribute__((may_alias, aligned(1)));
};

/// Every step-th element to a packed row. The step is known to the compiler, which then loads whole
/// vectors and picks from them.
template <std::int64_t bytes, std::int64_t step>
void pick_row(const char* __restrict s, char* __restrict d, std::int64_t n) {
    using T = typename Word<bytes>::type;
    const T* from = reinterpret_cast<const T*>(s);
    T* to = reinterpret_cast<T*>(d);
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

/// False when the step is none of those.
template <std::int64_t bytes>
bool picks_row(const char* s, std::int64_t source_step, char* d, std::int64_t n) {
    if constexpr (bytes == 4 || bytes == 8) {
        if (source_step == 2 * bytes)
            pick_row<bytes, 2>(s, d, n);
        else if (source_step == 4 * bytes)
            pick_row<bytes, 4>(s, d, n);
        else
            return false;
        return true;
    }
    return false;
}

template <std::int64_t bytes>
void row(const char* s, std::int64_t source_step, char* d, std::int64_t destination_step,
         std::int64_t n) {
    if (destination_step == bytes) {
        if (!picks_row<bytes>(s, source_step, d, n))
            unrolled_row<bytes, 8>(s, source_step, d, bytes, n);
    } else if (source_step == bytes) {
        unrolled_row<bytes, 8>(s, bytes, d, destination_step, n);
    } else {
        unrolled_row<bytes, 4>(s, source_step, d, destination_step, n);
    }
}

/// Which rows they are is asked once: many nests are a few short rows (the faces of small blocks).
template <std::int64_t bytes>
void strided(const LoopShape& l, const char* s, char* d) {
    const auto [is, id] = l.inner.stride;
    const auto [os, od] = l.outer.stride;
    const std::int64_t n = l.inner.count;
    std::int64_t o = l.outer.count;
    if (is == bytes || id == bytes)
        for (; o > 0; --o, s += os, d += od) row<bytes>(s, is, d, id, n);
    else
        for (; o > 0; --o, s += os, d += od) unrolled_row<bytes, 4>(s, is, d, id, n);
}

template <std::int64_t bytes>
[[gnu::always_inline]] inline void move_tile(const LoopShape& l, const char* s, char* d,
                                             std::int64_t rows, std::int64_t n) {
    const auto [is, id] = l.inner.stride;
    const auto [os, od] = l.outer.stride;
#pragma GCC unroll 1
    for (std::int64_t r = 0; r < rows; ++r, s += os, d += od) {
        const char* from = s;
        char* to = d;
        std::int64_t k = 0;
#pragma GCC unroll 1
        for (; k + 4 <= n; k += 4, from += 4 * is, to += 4 * id) {
            move_fixed<bytes>(to, from);
            move_fixed<bytes>(to + id, from + is);
            move_fixed<bytes>(to + 2 * id, from + 2 * is);
            move_fixed<bytes>(to + 3 * id, from + 3 * is);
        }
        for (; k < n; ++k, from += is, to += id) move_fixed<bytes>(to, from);
    }
}

/// Tile by tile along the inner axis, so that lines and pages of both sides are used up while they
/// are near.
template <std::int64_t bytes, int rows>
void tiles(const LoopShape& shape, const char* source, char* destination) {
    const LoopShape l = shape;
    for (std::int64_t o = 0; o < l.outer.count; o += rows) {
        const char* s = source + o * l.outer.stride.source;
        char* d = destination + o * l.outer.stride.destination;
        const bool is_whole = l.outer.count - o >= rows;
        const std::int64_t whole = is_whole ? l.inner.count / tile_edge * tile_edge : 0;
        for (std::int64_t i = 0; i < whole; i += tile_edge) {
            move_tile<bytes>(l, s, d, rows, tile_edge);
            s += tile_edge * l.inner.stride.source;
            d += tile_edge * l.inner.stride.destination;
        }
        move_tile<bytes>(l, s, d, is_whole ? rows : l.outer.count - o, l.inner.count - whole);
    }
}

void pieces(const PieceList& l, const char* source, char* destination) {
    for (std::int64_t p = 0; p < l.periods.count; ++p) {
        const char* s = source + p * l.periods.stride.source;
        char* d = destination + p * l.periods.stride.destination;
        for (const Block* k = l.pieces; k != l.pieces + l.count; ++k)
            move_piece(d + k->start.destination, s + k->start.source, k->count);
    }
}

template <std::int64_t bytes>
void pairs(const std::int64_t* source_at, const std::int64_t* destination_at, std::int64_t n,
           const char* source, char* destination) {
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k)
            move_fixed<bytes>(destination + destination_at[i + k], source + source_at[i + k]);
    for (; i < n; ++i) move_fixed<bytes>(destination + destination_at[i], source + source_at[i]);
}

/// Calls f.template operator()<width>() for a width of offsets.
template <class F>
[[gnu::always_inline]] inline void with_width(std::int64_t width, F&& f) {
    switch (width) {
        case 1:
            return f.template operator()<1>();
        case 2:
            return f.template operator()<2>();
        case 3:
            return f.template operator()<3>();
        case 4:
            return f.template operator()<4>();
        default:
            return f.template operator()<8>();
    }
}

/// Width 3 reads four bytes and drops the last, which is why data end with padding.
template <std::int64_t width>
[[gnu::always_inline]] inline std::int64_t read_offset(const unsigned char* at) {
    constexpr std::int64_t read = width == 3 ? 4 : width;
    std::uint64_t offset = 0;
    __builtin_memcpy(&offset, at, read);
    if constexpr (width == 3) offset &= 0xFFFFFF;
    return static_cast<std::int64_t>(offset);
}

/// Eight offsets at once: of three bytes, they are cut out of three words (measured: half the time
/// of eight loads that overlap).
template <std::int64_t width>
[[gnu::always_inline]] inline void read_eight(const unsigned char* at, std::int64_t (&offsets)[8]) {
    if constexpr (width == 3) {
        std::uint64_t w[3];
        __builtin_memcpy(w, at, sizeof w);
        constexpr std::uint64_t mask = 0xFFFFFF;
        const std::uint64_t cut[8] = {
            w[0] & mask,         (w[0] >> 24) & mask, (w[0] >> 48) | (w[1] & 0xFF) << 16,
            (w[1] >> 8) & mask,  (w[1] >> 32) & mask, (w[1] >> 56) | (w[2] & 0xFFFF) << 8,
            (w[2] >> 16) & mask, w[2] >> 40};
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) offsets[k] = static_cast<std::int64_t>(cut[k]);
    } else {
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) offsets[k] = read_offset<width>(at + k * width);
    }
}

#if !defined(DATAMOVER_GATHERS)
template <std::int64_t bytes, std::int64_t width>
constexpr bool has_gather = false;
template <std::int64_t bytes, std::int64_t width>
inline void gather_eight(const unsigned char*, const char*, char*) {}
#endif

template <std::int64_t bytes, std::int64_t width, bool gathers>
void offset_row(const OffsetRow& r, const char* source, char* destination) {
    const bool packed = r.step == bytes && r.unit == bytes;
    auto move = [&](std::int64_t i, std::int64_t unit, std::int64_t step) {
        const std::int64_t offset = read_offset<width>(r.offsets + i * width) * unit;
        if constexpr (gathers)
            move_fixed<bytes>(destination + i * step, source + offset);
        else
            move_fixed<bytes>(destination + offset, source + i * step);
    };
    std::int64_t i = 0;
    if (packed) {
        for (; i + 8 <= r.n; i += 8) {
            if constexpr (gathers && has_gather<bytes, width>) {
                gather_eight<bytes, width>(r.offsets + i * width, source, destination + i * bytes);
                continue;
            }
            std::int64_t offsets[8];
            read_eight<width>(r.offsets + i * width, offsets);
#pragma GCC unroll 8
            for (int k = 0; k < 8; ++k) {
                if constexpr (gathers)
                    move_fixed<bytes>(destination + (i + k) * bytes, source + offsets[k] * bytes);
                else
                    move_fixed<bytes>(destination + offsets[k] * bytes, source + (i + k) * bytes);
            }
        }
        for (; i < r.n; ++i) move(i, bytes, bytes);
    } else {
        for (; i < r.n; ++i) move(i, r.unit, r.step);
    }
}

template <std::int64_t bytes, bool gathers>
void offset_loop(const OffsetRow& r, const char* source, char* destination) {
    with_width(r.width, [&]<std::int64_t width>() {
        offset_row<bytes, width, gathers>(r, source, destination);
    });
}

#include "scan_loops_body.hpp"

constexpr CopyLoops plain_loops(const char* level) {
    CopyLoops loops{};
    loops.level = level;
    loops.scan = scan_loops();
    loops.long_pieces = long_pieces;
    loops.pieces = pieces;
    [&]<std::size_t... bytes>(std::index_sequence<bytes...>) {
        ((loops.fixed_pieces[bytes + 1] = fixed_pieces<static_cast<std::int64_t>(bytes + 1)>), ...);
    }(std::make_index_sequence<longest_fixed_piece>{});
    [&]<std::size_t... k>(std::index_sequence<k...>) {
        ((loops.strided[k] = strided<class_bytes[k]>), ...);
        ((loops.tiles[k] = tiles<class_bytes[k], tile_edge>), ...);
        ((loops.low_tiles[k] = tiles<class_bytes[k], tile_edge / 2>), ...);
        ((loops.row[k] = row<class_bytes[k]>), ...);
        (fill_short_rows<class_bytes[k]>(loops.short_rows[k],
                                         std::make_index_sequence<longest_short_row - 1>{}),
         ...);
    }(std::make_index_sequence<size_classes>{});
    [&]<std::size_t... k>(std::index_sequence<k...>) {
        ((loops.gather[k] = offset_loop<class_bytes[k], true>), ...);
        ((loops.scatter[k] = offset_loop<class_bytes[k], false>), ...);
        ((loops.pairs[k] = pairs<class_bytes[k]>), ...);
    }(std::make_index_sequence<listed_classes>{});
    return loops;
}
