// SPDX-License-Identifier: BSD-3-Clause
// Bodies of the loops that distribute elements, compiled once per instruction set. Included once
// per instruction set level, inside a namespace of that level, after tile_body.hpp and
// `block_elems`, `matching`, `packed` and `most_packed` if it has them (DATAMOVER_PACKS). No
// include guard: that is the point.

template <class Target>
bool encode_targets(const std::byte* targets, std::int64_t n, std::uint8_t* codes, int nprocs) {
    using Bits = std::make_unsigned_t<Target>;
    constexpr std::uint8_t dropped = 0xff;  // last byte of -1, and of no rank below 255
    const auto last = static_cast<Bits>(nprocs - 1);
    Bits signs = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        Bits target;
        __builtin_memcpy(&target, targets + i * static_cast<std::int64_t>(sizeof target),
                         sizeof target);
        signs |= (target + 1) | (last - target);  // negative: below -1, above the last rank
        const auto code = static_cast<std::uint8_t>(target);
        codes[i] = code == dropped ? static_cast<std::uint8_t>(nprocs) : code;
    }
    return static_cast<Target>(signs) < 0;
}

inline void count_codes(const std::uint8_t* codes, std::int64_t n, std::int64_t* counts,
                        int values) {
    constexpr std::int64_t lanes = 64;
    for (int k = 0; k < values; ++k) {
        const auto value = static_cast<std::uint8_t>(k);
        std::int64_t found = 0;
        std::int64_t i = 0;
#if defined(DATAMOVER_MASKED_MOVES)
        const __m512i all = _mm512_set1_epi8(static_cast<char>(k));
        for (; i + lanes <= n; i += lanes)
            found +=
                __builtin_popcountll(_mm512_cmpeq_epi8_mask(_mm512_loadu_si512(codes + i), all));
#endif
        while (i + lanes <= n) {
            // One byte per lane, which holds up to 255.
            std::uint8_t few[lanes] = {};
            for (int turn = 0; turn < 255 && i + lanes <= n; ++turn, i += lanes)
                for (std::int64_t l = 0; l < lanes; ++l)
                    few[l] = static_cast<std::uint8_t>(few[l] + (codes[i + l] == value));
            std::uint16_t sum = 0;
            for (const std::uint8_t lane : few) sum = static_cast<std::uint16_t>(sum + lane);
            found += sum;
        }
        for (; i < n; ++i) found += codes[i] == value;
        counts[k] += found;
    }
}

#if defined(DATAMOVER_PACKS)

/// Packs the elements of one target in registers, block by block, and stores whole vectors at its
/// place: what is written beyond the packed elements is overwritten by those that follow, so the
/// last ones of a target are copied one by one. The number of targets is a constant so that the
/// places stay in registers: in memory, each would be loaded after stores to addresses that the
/// processor does not know yet.
template <std::int64_t bytes, std::uint32_t targets>
void fan_out_packed(const CodedElems& elems, std::byte** places) {
    constexpr int lanes = sizeof(Vector) / bytes, vectors = block_elems / lanes;
    std::int64_t counts[targets] = {};
    count_codes(elems.codes, elems.n, counts, targets);
    std::byte* next[targets];
    std::int64_t end[targets];  // address from which on no whole block fits
    const auto address = [](std::byte* at) { return reinterpret_cast<std::int64_t>(at); };
    for (std::uint32_t t = 0; t < targets; ++t) {
        next[t] = places[t];
        end[t] = address(next[t]) + (counts[t] - block_elems + 1) * bytes;
    }
    const std::byte* source = elems.source;
    const std::int64_t whole = elems.n / block_elems * block_elems;
    for (std::int64_t i = 0; i < whole; i += block_elems) {
        Vector block[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            block[v] = load_vector(reinterpret_cast<const char*>(source) + i * bytes +
                                   v * static_cast<int>(sizeof(Vector)));
#pragma GCC unroll 8
        for (std::uint32_t t = 0; t < targets; ++t) {
            const unsigned mine = matching(elems.codes + i, t);
            if (address(next[t]) >= end[t]) [[unlikely]] {
                for (unsigned left = mine; left != 0; left &= left - 1) {
                    __builtin_memcpy(next[t], source + (i + __builtin_ctz(left)) * bytes, bytes);
                    next[t] += bytes;
                }
                continue;
            }
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                const unsigned lanes_mine = mine >> v * lanes & ((1u << lanes) - 1);
                store_vector(reinterpret_cast<char*>(next[t]), packed<bytes>(block[v], lanes_mine));
                next[t] += bytes * __builtin_popcount(lanes_mine);
            }
        }
    }
    for (std::uint32_t t = 0; t < targets; ++t) places[t] = next[t];
    for (std::int64_t i = whole; i < elems.n; ++i)
        if (const std::uint8_t code = elems.codes[i]; code < targets) {
            __builtin_memcpy(places[code], source + i * bytes, bytes);
            places[code] += bytes;
        }
}

template <std::int64_t bytes, std::uint32_t most>
bool fan_out_few(const CodedElems& elems, std::byte** places) {
    return [&]<std::uint32_t... t>(std::integer_sequence<std::uint32_t, t...>) {
        return ((elems.targets == t + 1 && (fan_out_packed<bytes, t + 1>(elems, places), true)) ||
                ...);
    }(std::make_integer_sequence<std::uint32_t, most>{});
}

#else

template <std::int64_t bytes, std::uint32_t most>
bool fan_out_few(const CodedElems&, std::byte**) {
    return false;
}
template <std::int64_t bytes>
constexpr std::uint32_t most_packed = 0;

#endif

constexpr CopyLoops with_partition(CopyLoops loops) {
    loops.partition = {fan_out_few<4, most_packed<4>>, fan_out_few<8, most_packed<8>>,
                       encode_targets<std::int32_t>, encode_targets<std::int64_t>, count_codes};
    return loops;
}
