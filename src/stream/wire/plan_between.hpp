// SPDX-License-Identifier: BSD-3-Clause
// Plans from the processes of one program to those of another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "datamover/layout.hpp"
#include "datamover/motion_plan.hpp"

namespace datamover::stream {

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
/// be read or is for another number of processes.
Layout layout_of_bytes(std::string_view bytes, std::int64_t nprocs);

}  // namespace datamover::stream
