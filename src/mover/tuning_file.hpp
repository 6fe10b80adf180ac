// SPDX-License-Identifier: BSD-3-Clause
// The tuning file: measured choices kept for later programs.
#pragma once

#include <cstdint>
#include <string>

namespace datamover {

/// What DATAMOVER_TUNING_FILE names (nothing: no file), else datamover/tuning in the user's cache
/// folder. Empty where there is none.
std::string tuning_file_path();

/// The names that stand in the file for a key; empty where there are none, or no file that can be
/// read. Lines that are damaged count as missing.
std::string find_in_tuning_file(const std::string& path, std::int64_t key) noexcept;

/// Adds names, or replaces those of the key, by a new file that takes the place of the old one at
/// once. Where that cannot be, everything stays as it is.
void add_to_tuning_file(const std::string& path, std::int64_t key,
                        const std::string& transports) noexcept;

}  // namespace datamover
