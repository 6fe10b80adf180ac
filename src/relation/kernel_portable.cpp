// SPDX-License-Identifier: BSD-3-Clause
// Copy loops for every processor.
#include <array>
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
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>
#define DATAMOVER_PACKS 1
#endif

namespace datamover {
namespace {

constexpr std::int64_t inline_piece_bytes = 256;

#include "copy_loops_body.hpp"

// One lane, as in SSE2 and NEON; without either, the compiler splits it into scalars.
typedef long long Vector __attribute__((vector_size(16)));
constexpr int vector_lanes = 1;

#if defined(__SSE2__)
constexpr bool stores_stream = true;
[[gnu::always_inline]] inline void stream_vector(char* p, Vector v) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(p), v);
}
#else
constexpr bool stores_stream = false;
[[gnu::always_inline]] inline void stream_vector(char* p, Vector v) {
    __builtin_memcpy(p, &v, sizeof v);
}
#endif
[[gnu::always_inline]] inline void exchange_lanes(Vector (&)[1]) {}

#if defined(DATAMOVER_PACKS)

constexpr int block_elems = 8;
/// The bits of the codes of a block that are `value`.
[[gnu::always_inline]] inline std::uint32_t matching(const std::uint8_t* codes,
                                                     std::uint32_t value) {
    const uint8x8_t equal = vceq_u8(vld1_u8(codes), vdup_n_u8(static_cast<std::uint8_t>(value)));
    const uint8x8_t bits = vcreate_u8(0x8040201008040201);
    return vaddv_u8(vand_u8(equal, bits));
}
/// The elements of a set at the front.
template <std::int64_t bytes>
[[gnu::always_inline]] inline Vector packed(Vector v, unsigned set) {
    const uint8x16_t order = vld1q_u8(packing_orders<16 / bytes, bytes>[set].data());
    return reinterpret_cast<Vector>(vqtbl1q_u8(reinterpret_cast<uint8x16_t>(v), order));
}
/// As with AVX2; not measured.
template <std::int64_t bytes>
constexpr std::uint32_t most_packed = bytes == 4 ? 7 : 4;

#endif

#include "tile_body.hpp"

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
