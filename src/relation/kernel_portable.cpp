// SPDX-License-Identifier: BSD-3-Clause
// Copy loops for every processor.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "copy_loops.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace datamover {
namespace {

constexpr std::int64_t inline_piece_bytes = 256;

#include "copy_loops_body.hpp"

#if defined(__SSE2__)

using Vector = __m128i;
constexpr int vector_lanes = 1;

[[gnu::always_inline]] inline void stream_vector(char* p, Vector v) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(p), v);
}
[[gnu::always_inline]] inline void exchange_lanes(Vector (&)[1]) {}

#include "tile_body.hpp"

#else

/// Without vectors: element by element within a tile that the first-level cache holds.
template <std::int64_t bytes>
struct Tile {
    static constexpr std::int64_t edge = 64 / bytes;
    static constexpr bool streams = false;

    template <bool streaming>
    static void move(const char* s, std::int64_t source_row, char* d,
                     std::int64_t destination_row) {
        for (std::int64_t i = 0; i < edge; ++i)
            for (std::int64_t j = 0; j < edge; ++j)
                __builtin_memcpy(d + i * destination_row + j * bytes,
                                 s + j * source_row + i * bytes, bytes);
    }
};

#endif

#include "partition_loops_body.hpp"
#include "transpose_body.hpp"

constexpr CopyLoops loops = with_partition(with_transposes(plain_loops("portable")));

}  // namespace

const CopyLoops& portable_copy_loops() {
    return loops;
}

std::span<const CopyLoops* const> usable_copy_loops() {
    static const std::vector<const CopyLoops*> usable = [] {
        std::vector<const CopyLoops*> found;
        for (const std::string_view name : geometry::usable_instruction_sets()) {
#if defined(DATAMOVER_X86_LEVELS)
            if (name == "avx512") found.push_back(&avx512_copy_loops());
            if (name == "avx2") found.push_back(&avx2_copy_loops());
#endif
            if (name == "portable") found.push_back(&loops);
        }
        return found;
    }();
    return usable;
}

const CopyLoops& copy_loops() {
    static const CopyLoops& chosen = []() -> const CopyLoops& {
        const char* forced = std::getenv(geometry::simd_variable);
        for (const CopyLoops* usable : usable_copy_loops())
            if (forced && usable->level == std::string_view(forced)) return *usable;
        return *usable_copy_loops().front();
    }();
    return chosen;
}

}  // namespace datamover
