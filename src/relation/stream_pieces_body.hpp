// SPDX-License-Identifier: BSD-3-Clause
// Streaming stores of pieces, line by line. Included once per instruction set level, after
// stream_line. A store that goes through them reads its line from memory first; where much more is
// moved than caches hold, that is a third of the traffic. No include guard: that is the point.

inline void stream_piece(char* d, const char* s, std::int64_t n) {
    // Where memory lies is known only now.
    const auto into = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(d) % 64);
    std::int64_t k = 0;
    if (into != 0) {
        k = n < least_streamed_piece ? n : 64 - into;
        move_piece(d, s, k);
    }
    for (; k + 64 <= n; k += 64) stream_line(d + k, s + k);
    if (k < n) move_piece(d + k, s + k, n - k);
}

void stream_pieces(const LoopShape& l, const char* source, char* destination) {
    for (std::int64_t o = 0; o < l.outer; ++o) {
        const char* s = source + o * l.outer_source;
        char* d = destination + o * l.outer_destination;
        for (std::int64_t i = 0; i < l.inner; ++i)
            stream_piece(d + i * l.inner_destination, s + i * l.inner_source, l.bytes);
    }
    store_fence();
}
