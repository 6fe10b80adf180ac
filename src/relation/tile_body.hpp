// SPDX-License-Identifier: BSD-3-Clause
// Transposition of one tile in registers. Included once per instruction set level, after a
// `Vector` of 16, 32 or 64 bytes has been defined by its 128-bit lanes, and whether its
// `stream_vector` goes around the caches, as `stores_stream`. No include guard: that is the point.
//
// A lane holds 16 / bytes elements. Interleaving the lower with the upper half of as many rows as a
// lane has elements moves every index bit up by one; repeated until row and column bits have
// changed places, it transposes each lane. A last exchange of whole lanes completes the tile.

[[gnu::always_inline]] inline Vector load_vector(const char* p) {
    Vector v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
[[gnu::always_inline]] inline void store_vector(char* p, Vector v) {
    __builtin_memcpy(p, &v, sizeof v);
}

/// The elements of the lower or the upper half of each lane, of a and b in turn.
template <std::int64_t bytes, bool upper, int... k>
[[gnu::always_inline]] inline Vector interleave(Vector a, Vector b,
                                                std::integer_sequence<int, k...>) {
    typedef Unsigned<bytes> Elems __attribute__((vector_size(sizeof(Vector))));
    constexpr int n = 16 / bytes, first = upper ? n / 2 : 0;
    return reinterpret_cast<Vector>(__builtin_shufflevector(
        reinterpret_cast<Elems>(a), reinterpret_cast<Elems>(b),
        (k / n * n + first + k % n / 2 + k % 2 * static_cast<int>(sizeof...(k)))...));
}

template <std::int64_t bytes>
[[gnu::always_inline]] inline void transpose_lanes(Vector (&rows)[16 / bytes]) {
    constexpr int n = 16 / bytes;
#pragma GCC unroll 4
    for (int stage = 1; stage < n; stage *= 2) {
        Vector next[n];
#pragma GCC unroll 8
        for (int i = 0; i < n / 2; ++i) {
            if constexpr (n > 1) {
                constexpr std::make_integer_sequence<int, vector_lanes * n> all{};
                next[2 * i] = interleave<bytes, false>(rows[i], rows[i + n / 2], all);
                next[2 * i + 1] = interleave<bytes, true>(rows[i], rows[i + n / 2], all);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < n; ++i) rows[i] = next[i];
    }
}

template <std::int64_t bytes, bool streaming>
[[gnu::always_inline]] inline void vector_tile(const char* s, std::int64_t source_row, char* d,
                                               std::int64_t destination_row) {
    constexpr int n = 16 / bytes;
    Vector groups[vector_lanes][n];
#pragma GCC unroll 4
    for (int g = 0; g < vector_lanes; ++g) {
#pragma GCC unroll 16
        for (int r = 0; r < n; ++r) groups[g][r] = load_vector(s + (g * n + r) * source_row);
        transpose_lanes<bytes>(groups[g]);
    }
#pragma GCC unroll 16
    for (int q = 0; q < n; ++q) {
        Vector out[vector_lanes];
#pragma GCC unroll 4
        for (int g = 0; g < vector_lanes; ++g) out[g] = groups[g][q];
        exchange_lanes(out);
#pragma GCC unroll 4
        for (int k = 0; k < vector_lanes; ++k) {
            char* to = d + (k * n + q) * destination_row;
            if constexpr (streaming)
                stream_vector(to, out[k]);
            else
                store_vector(to, out[k]);
        }
    }
}

/// A tile whose rows are whole cache lines of 64 bytes on both sides.
template <std::int64_t bytes>
struct Tile {
    static constexpr std::int64_t edge = 64 / bytes;
    /// Lines that are streamed in several parts only pay for wide elements (measured).
    static constexpr bool streams = vector_lanes * 16 == 64 || bytes >= 8;

    template <bool streaming>
    static void move(const char* s, std::int64_t source_row, char* d,
                     std::int64_t destination_row) {
        constexpr std::int64_t part = vector_lanes * 16 / bytes;
        for (std::int64_t i = 0; i < edge; i += part)
            for (std::int64_t j = 0; j < edge; j += part)
                vector_tile<bytes, streaming>(s + j * source_row + i * bytes, source_row,
                                              d + i * destination_row + j * bytes, destination_row);
    }
};
