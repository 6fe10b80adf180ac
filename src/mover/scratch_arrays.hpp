// SPDX-License-Identifier: BSD-3-Clause
// Scratch arrays that replace a mover's arrays during tuning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "binding.hpp"
#include "memory/segment_pool.hpp"

namespace datamover {

/// Memory of the same shape, alignment and kind as the arrays of a mover. Where arrays overlap, or
/// are the same, what stands in for them does and is too.
class ScratchArrays {
public:
    /// Memory that some of the arrays lie in, and what stands in for it.
    struct Span {
        std::byte* user = nullptr;
        std::int64_t bytes = 0;
        bool shared = false;
        memory::AllocationPtr memory;
        std::byte* scratch = nullptr;  ///< stands in for `user`
    };

    ScratchArrays() = default;
    /// All zero at first. Local. Throws no_memory.
    explicit ScratchArrays(const std::vector<Moves>& phases);

    /// Bytes that this takes. Local.
    static std::int64_t bytes_for(const std::vector<Moves>& phases);

    /// The moves between what stands in.
    std::vector<Moves> stand_in(std::vector<Moves> phases) const;

private:
    const Span& span_at(const std::byte* user) const;
    void stand_in(ArrayPart& part) const;

    std::vector<Span> spans_;  ///< ascending, apart from each other
};

}  // namespace datamover
