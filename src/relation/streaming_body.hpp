// SPDX-License-Identifier: BSD-3-Clause
// Streaming stores of whole lines: transposition through a staging buffer, pieces, packed rows.
// Included once per instruction set level after the tiles. No include guard: that is the point.
//
// A store that goes through the caches reads its line from memory first and drives out what lies
// there; where much more is moved than caches hold, that is for nothing: a third of the traffic.

// ---------------------------------------------------------------- transposition
//
// For rows that do not start at cache lines or tiles that write partial lines. Tiles go to a small
// stage; from there whole aligned lines are streamed, and what is left of a row's line waits in the
// stage for the next tiles of that row.

using memory::line_bytes;
constexpr std::int64_t staged_rows = 128;
constexpr std::int64_t staged_bytes = 256;  ///< of a row, at a time
/// A row of the stage: room for a carried line, the bytes of a panel, one line apart.
constexpr std::int64_t stage_row_bytes = line_bytes + staged_bytes + line_bytes;

inline void stream_line(char* to, const char* from) {
    for (std::int64_t at = 0; at < line_bytes; at += vector_lanes * 16)
        stream_vector(to + at, load_vector(from + at));
}

/// Where a row of the destination stands: its carried bytes lie just before the staged ones.
struct StagedRow {
    char* to;              ///< the line that is written next
    std::int64_t carried;  ///< bytes of it that wait in the stage
    std::int64_t foreign;  ///< of these, bytes before the row's beginning, not to be written
};

/// Writes the whole lines of a staged row of n fresh bytes, and carries the rest.
inline void flush_row(StagedRow& row, char* fresh, std::int64_t n) {
    const char* from = fresh - row.carried;
    std::int64_t total = row.carried + n;
    if (row.foreign > 0 && total >= line_bytes) {
        move_piece(row.to + row.foreign, from + row.foreign, line_bytes - row.foreign);
        row.foreign = 0;
        row.to += line_bytes;
        from += line_bytes;
        total -= line_bytes;
    }
    for (; total >= line_bytes; total -= line_bytes, from += line_bytes, row.to += line_bytes)
        stream_line(row.to, from);
    __builtin_memmove(fresh - total, from, static_cast<std::size_t>(total));
    row.carried = total;
}

/// Writes what a row still carries.
inline void finish_row(const StagedRow& row, const char* fresh) {
    if (row.carried > row.foreign)
        move_piece(row.to + row.foreign, fresh - row.carried + row.foreign,
                   row.carried - row.foreign);
}

/// Transposes ni (whole tiles, at most staged_rows) by nj (whole tiles) elements.
template <std::int64_t bytes>
void transpose_rows_staged(const char* s, std::int64_t source_row, char* d,
                           std::int64_t destination_row, std::int64_t ni, std::int64_t nj) {
    constexpr std::int64_t edge = Tile<bytes>::edge;
    constexpr std::int64_t panel = staged_bytes / bytes;
    alignas(64) char stage[staged_rows * stage_row_bytes];
    StagedRow rows[staged_rows];
    for (std::int64_t i = 0; i < ni; ++i) {
        char* to = d + i * destination_row;
        const auto into = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) %
                                                    static_cast<std::uintptr_t>(line_bytes));
        rows[i] = {to - into, into, into};
    }
    for (std::int64_t j = 0; j < nj; j += panel) {
        const std::int64_t n = nj - j < panel ? nj - j : panel;
        for (std::int64_t k = 0; k < n; k += edge)
            for (std::int64_t i = 0; i < ni; i += edge)
                Tile<bytes>::template move<false>(
                    s + (j + k) * source_row + i * bytes, source_row,
                    stage + i * stage_row_bytes + line_bytes + k * bytes, stage_row_bytes);
        for (std::int64_t i = 0; i < ni; ++i)
            flush_row(rows[i], stage + i * stage_row_bytes + line_bytes, n * bytes);
    }
    for (std::int64_t i = 0; i < ni; ++i)
        finish_row(rows[i], stage + i * stage_row_bytes + line_bytes);
}

template <std::int64_t bytes>
void transpose_staged(const LoopShape& l, const char* s, char* d) {
    constexpr std::int64_t edge = Tile<bytes>::edge;
    const std::int64_t source_row = l.outer.stride.source;
    const std::int64_t destination_row = l.inner.stride.destination;
    const std::int64_t whole_i = l.inner.count - l.inner.count % edge;
    const std::int64_t whole_j = l.outer.count - l.outer.count % edge;
    for (std::int64_t i = 0; i < whole_i; i += staged_rows)
        transpose_rows_staged<bytes>(
            s + i * bytes, source_row, d + i * destination_row, destination_row,
            whole_i - i < staged_rows ? whole_i - i : staged_rows, whole_j);
    memory::end_streaming();
    transpose_corner<bytes>(s + whole_j * source_row, source_row, d + whole_j * bytes,
                            destination_row, whole_i, l.outer.count - whole_j);
    transpose_corner<bytes>(s + whole_i * bytes, source_row, d + whole_i * destination_row,
                            destination_row, l.inner.count - whole_i, l.outer.count);
}

// ---------------------------------------------------------------- pieces, line by line

inline void stream_piece(char* d, const char* s, std::int64_t n) {
    // The alignment is known only at run time.
    const auto into = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(d) % 64);
    std::int64_t k = 0;
    if (into != 0) {
        k = n < least_streamed_piece ? n : 64 - into;
        move_piece(d, s, k);
    }
    for (; k + 64 <= n; k += 64) stream_line(d + k, s + k);
    if (k < n) move_piece(d + k, s + k, n - k);
}

inline void stream_pieces(const LoopShape& l, const char* source, char* destination) {
    for (std::int64_t o = 0; o < l.outer.count; ++o) {
        const char* s = source + o * l.outer.stride.source;
        char* d = destination + o * l.outer.stride.destination;
        for (std::int64_t i = 0; i < l.inner.count; ++i)
            stream_piece(d + i * l.inner.stride.destination, s + i * l.inner.stride.source,
                         l.bytes);
    }
    memory::end_streaming();
}

// ---------------------------------------------------------------- strided rows that become packed
//
// Used if the source alone is larger than the caches.

/// A part of a row, packed in the first-level cache before it leaves.
constexpr std::int64_t packed_stage_bytes = 1024;

template <std::int64_t bytes>
void stream_row(const char* s, std::int64_t step, char* d, std::int64_t n) {
    const auto into = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(d) % 64);
    const std::int64_t to_line = into % bytes != 0 ? n : (64 - into) % 64 / bytes;
    const std::int64_t head = to_line < n ? to_line : n;
    row<bytes>(s, step, d, bytes, head);
    std::int64_t i = head;
    alignas(64) char stage[packed_stage_bytes];
    for (std::int64_t part = 0; n - i >= 64 / bytes; i += part) {
        part = packed_stage_bytes / bytes;
        if (n - i < part) part = (n - i) * bytes / 64 * 64 / bytes;
        row<bytes>(s + i * step, step, stage, bytes, part);
        for (std::int64_t k = 0; k < part * bytes; k += 64)
            stream_line(d + i * bytes + k, stage + k);
    }
    row<bytes>(s + i * step, step, d + i * bytes, bytes, n - i);
}

template <std::int64_t bytes>
void stream_rows(const LoopShape& l, const char* source, char* destination) {
    for (std::int64_t o = 0; o < l.outer.count; ++o)
        stream_row<bytes>(source + o * l.outer.stride.source, l.inner.stride.source,
                          destination + o * l.outer.stride.destination, l.inner.count);
    memory::end_streaming();
}
