// SPDX-License-Identifier: BSD-3-Clause
// Arrays as a stream describes them, and plans from the processes of one program to those of
// another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "datamover/layout.hpp"
#include "datamover/motion_plan.hpp"
#include "stream/wire/words.hpp"

namespace datamover::stream {

inline constexpr std::int64_t max_elem_bytes = 1 << 16, max_array_number = 1 << 12,
                              max_processes = 1 << 16;

/// An array that a stream sends: the same in every step.
struct SentArray {
    int number = 0;
    std::string name;
    /// In the notation of NumPy's file headers, as JSON. Nothing but the elements' size is known of
    /// it here: who makes sense of the text checks that it says the same.
    std::string dtype;
    Layout layout;  ///< of the sending processes
    std::int64_t elem_bytes = 0;

    /// Throws as pass_layout.
    Words& pass(Words& words);
};

/// An array that a process wants its part of, in every step. The stream hears of its name and
/// layout alone.
struct WantedArray {
    std::string name;
    Layout layout;  ///< of the receiving processes
    /// The type that it must have, as JSON; empty: any.
    std::string dtype{};
    /// Whether it comes in memory of its own in each step, which is `dense_memory`'s.
    bool comes_in_new_memory = false;
};

/// An ordinary redistribution. Its ranks are processes of the sending program where they send and
/// of the receiving one where they receive; the smaller program is filled up with processes that
/// hold nothing. Both ends derive it by themselves, and with it the order of every message. Throws
/// mismatch if the destination needs indices outside the domain of the source.
MotionPlan plan_between(const Layout& source, const Layout& destination);

/// The layout of the same indices of which one process holds all.
Layout whole_of(const Layout& layout);

/// A layout as bytes: those of the plan from it to itself. Throws unsupported where no process
/// knows all of it.
std::string bytes_of_layout(const Layout& layout);

/// The layout of which these are the bytes; nothing in them is trusted. Throws io where it cannot
/// be read.
Layout layout_of_bytes(std::string_view bytes);

/// Writes or reads a layout as bytes. Throws as these.
Words& pass_layout(Words& words, Layout& layout);

}  // namespace datamover::stream
