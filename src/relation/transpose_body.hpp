// SPDX-License-Identifier: BSD-3-Clause
// Transposition tile by tile. Included once per instruction set level, after a `Tile<bytes>` has
// been defined: `edge` elements square, move<streaming>(s, source_row, d, destination_row), whose
// stores go around the caches if `streaming`. Here the source is contiguous along i and the
// destination along j: destination[i * destination_row + j] = source[j * source_row + i].
// No include guard: that is the point.

/// A corner that no whole tile fits.
template <std::int64_t bytes>
void transpose_corner(const char* s, std::int64_t source_row, char* d, std::int64_t destination_row,
                      std::int64_t ni, std::int64_t nj) {
    for (std::int64_t i = 0; i < ni; ++i)
        for (std::int64_t j = 0; j < nj; ++j)
            __builtin_memcpy(d + i * destination_row + j * bytes, s + j * source_row + i * bytes,
                             bytes);
}

/// A panel of a few tiles along j and many along i: few pages and few lines of the destination are
/// open at a time, which matters more than the length of the rows (measured).
template <std::int64_t bytes, bool streaming>
void transpose_panel(const char* s, std::int64_t source_row, char* d, std::int64_t destination_row,
                     std::int64_t ni, std::int64_t nj) {
    constexpr std::int64_t edge = Tile<bytes>::edge;
    const std::int64_t whole_i = ni - ni % edge;
    const std::int64_t whole_j = nj - nj % edge;
    for (std::int64_t i = 0; i < whole_i; i += edge) {
        for (std::int64_t j = 0; j < whole_j; j += edge)
            Tile<bytes>::template move<streaming>(s + j * source_row + i * bytes, source_row,
                                                  d + i * destination_row + j * bytes,
                                                  destination_row);
    }
    if (whole_j < nj)
        transpose_corner<bytes>(s + whole_j * source_row, source_row, d + whole_j * bytes,
                                destination_row, whole_i, nj - whole_j);
    if (whole_i < ni)
        transpose_corner<bytes>(s + whole_i * bytes, source_row, d + whole_i * destination_row,
                                destination_row, ni - whole_i, nj);
}

/// Elements up to which the destination's lines are cut, so that tiles start at whole lines.
template <std::int64_t bytes>
std::int64_t head_elems(const char* d, std::int64_t destination_row, std::int64_t nj) {
    const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(d) % 64);
    if (misaligned == 0 || destination_row % 64 != 0 || misaligned % bytes != 0) return 0;
    const std::int64_t head = (64 - misaligned) / bytes;
    return head < nj ? head : nj;
}

template <std::int64_t bytes, bool streaming>
void transpose_loop(const LoopShape& l, const char* s, char* d) {
    constexpr std::int64_t panel_i = 256;
    constexpr std::int64_t panel_j = Tile<bytes>::edge > 32 ? Tile<bytes>::edge : 32;
    const std::int64_t source_row = l.outer.stride.source;
    const std::int64_t destination_row = l.inner.stride.destination;
    const std::int64_t ni = l.inner.count;
    const std::int64_t head = head_elems<bytes>(d, destination_row, l.outer.count);
    if (head > 0) transpose_corner<bytes>(s, source_row, d, destination_row, ni, head);
    s += head * source_row;
    d += head * bytes;
    const std::int64_t nj = l.outer.count - head;
    for (std::int64_t j = 0; j < nj; j += panel_j)
        for (std::int64_t i = 0; i < ni; i += panel_i)
            transpose_panel<bytes, streaming>(s + j * source_row + i * bytes, source_row,
                                              d + i * destination_row + j * bytes, destination_row,
                                              ni - i < panel_i ? ni - i : panel_i,
                                              nj - j < panel_j ? nj - j : panel_j);
}

#include "streaming_body.hpp"

/// Straight from the tiles where these write whole lines, else by way of a stage.
template <std::int64_t bytes>
void transpose_streaming(const LoopShape& l, const char* s, char* d) {
    const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(d) % 64);
    if (!Tile<bytes>::streams || l.inner.stride.destination % 64 != 0 || misaligned % bytes != 0) {
        transpose_staged<bytes>(l, s, d);
        return;
    }
    transpose_loop<bytes, true>(l, s, d);
    memory::end_streaming();
}

constexpr CopyLoops with_transposes(CopyLoops loops) {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
        ((loops.transpose[k] = transpose_loop<class_bytes[k], false>), ...);
        if constexpr (stores_stream) {
            loops.pieces_streaming = stream_pieces;
            ((loops.rows_streaming[k] = stream_rows<class_bytes[k]>), ...);
            ((loops.transpose_streaming[k] = transpose_streaming<class_bytes[k]>), ...);
        }
    }(std::make_index_sequence<size_classes>{});
    return loops;
}
