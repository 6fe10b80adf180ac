// SPDX-License-Identifier: BSD-3-Clause
// Instruction set levels at which copy loops can be tested on this processor.
#pragma once

#include <vector>

#include "relation/copy_loops.hpp"

namespace datamover {

inline std::vector<const CopyLoops*> levels() {
    std::vector<const CopyLoops*> all{&portable_copy_loops()};
#if defined(DATAMOVER_X86_LEVELS)
    if (__builtin_cpu_supports("avx2")) all.push_back(&avx2_copy_loops());
    if (copy_loops().level == avx512_copy_loops().level) all.push_back(&avx512_copy_loops());
#endif
    return all;
}

}  // namespace datamover
