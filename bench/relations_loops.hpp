// SPDX-License-Identifier: BSD-3-Clause
// Hand-written loops, each for one pattern, that relations are compared with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "relations_contest.hpp"
#include "relations_patterns.hpp"

namespace baseline_loops {
#include "relations_loops_body.hpp"
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DATAMOVER_BENCH_AVX512 1
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,bmi2")
namespace avx512_loops {
#include "relations_loops_body.hpp"
}
#pragma GCC pop_options
#endif

namespace bench {

/// All loops for a pattern; rows that are contiguous on both sides also by memcpy.
template <class T>
void add_loops(Contest& contest, const T* from, T* to, const Pattern& p) {
    baseline_loops::add_loops(contest, "", from, to, p);
#if defined(DATAMOVER_BENCH_AVX512)
    if (__builtin_cpu_supports("avx512bw"))
        avx512_loops::add_loops(contest, "-avx512", from, to, p);
#endif
    if (p.fi == 1 && p.ti == 1)
        contest.add("loop:memcpy-rows", [=] {
            for (std::int64_t j = 0; j < p.nj; ++j)
                std::memcpy(to + j * p.tj, from + j * p.fj,
                            static_cast<std::size_t>(p.ni) * sizeof(T));
        });
}

}  // namespace bench
