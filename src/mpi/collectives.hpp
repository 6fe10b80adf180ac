// SPDX-License-Identifier: BSD-3-Clause
// Comparison of values that all processes of a group must pass alike.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "process_group.hpp"

namespace datamover::mpi {

/// A value that a process passed: what it is, as a plural ("options"), and the value itself
/// (`op="add"`).
struct PassedValue {
    std::string what, value;
};

/// Throws mismatch, with the same message on all processes, if one of them passed another value
/// than process 0: `processes 0 and 2 passed different options: op="add" on process 0, ...`, where
/// `verb` replaces "passed". Values are compared by their digests; `describe(i)` is called on two
/// processes for the first that differs. If numbers of values may differ, a value before the first
/// that one process lacks must differ too. Collective.
void require_same(const ProcessGroup& group, std::span<const std::int64_t> digests,
                  const std::function<PassedValue(std::size_t)>& describe,
                  std::string_view verb = "passed");
/// The same for values that are compared as texts.
void require_same(const ProcessGroup& group, const std::vector<PassedValue>& values,
                  std::string_view verb = "passed");

}  // namespace datamover::mpi
