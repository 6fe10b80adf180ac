// SPDX-License-Identifier: BSD-3-Clause
// The instruction sets of this processor.
#include "instruction_set.hpp"

#include <vector>

namespace datamover::geometry {

std::span<const std::string_view> usable_instruction_sets() {
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
