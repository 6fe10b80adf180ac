// SPDX-License-Identifier: BSD-3-Clause
// The instruction sets that loops are compiled for, and those that this processor has.
#pragma once

#include <span>
#include <string_view>
#include <vector>

// Clang has no pragma for the target of the functions that follow.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DATAMOVER_X86_LEVELS 1
#endif

namespace datamover::geometry {

/// Forces an instruction set: the name of one of `usable_instruction_sets`.
constexpr const char* simd_variable = "DATAMOVER_SIMD";

/// The names of those that this processor has, the best first, "portable" last. O(1); the first
/// call looks at the processor.
inline std::span<const std::string_view> usable_instruction_sets() {
    static const std::vector<std::string_view> usable = [] {
        std::vector<std::string_view> found;
#if defined(DATAMOVER_X86_LEVELS)
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("bmi2"))
            found.push_back("avx512");
        if (__builtin_cpu_supports("avx2")) found.push_back("avx2");
#endif
        found.push_back("portable");
        return found;
    }();
    return usable;
}

}  // namespace datamover::geometry
