// SPDX-License-Identifier: BSD-3-Clause
// Packing strided rows with streaming stores. Included once per instruction set level, after
// stream_line. A store that goes through them reads its line from memory first and drives out what
// lies there; where the source alone is more than caches hold, that is for nothing. No include
// guard: that is the point.

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
    for (std::int64_t o = 0; o < l.outer; ++o)
        stream_row<bytes>(source + o * l.outer_source, l.inner_source,
                          destination + o * l.outer_destination, l.inner);
    store_fence();
}
