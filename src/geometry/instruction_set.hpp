// SPDX-License-Identifier: BSD-3-Clause
// The instruction sets that loops are compiled for, and the choice of one.
#pragma once

#include <span>
#include <string_view>

// Clang has no pragma for the target of the functions that follow.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DATAMOVER_X86_LEVELS 1
#endif

namespace datamover::geometry {

/// Forces an instruction set: the name of one of `usable_instruction_sets`.
constexpr const char* simd_variable = "DATAMOVER_SIMD";

/// The names of those that this processor has, the best first, "portable" last. O(1); the first
/// call looks at the processor.
std::span<const std::string_view> usable_instruction_sets();

}  // namespace datamover::geometry
