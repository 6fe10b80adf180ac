// SPDX-License-Identifier: BSD-3-Clause
// How does a file appear under its name only when all of it is there?
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace datamover::plan {

/// Writes the bytes to a new file of a name that nobody can foresee beside `path`, brings them to
/// the disk, and renames it: under `path` stands what stood there before, or all of the bytes, also
/// after a crash. A symbolic link at `path` is replaced, not followed. Throws io, and leaves
/// nothing behind then.
void write_whole_file(const std::string& path, std::span<const std::uint8_t> bytes);

/// All bytes of a regular file. Throws io, also for anything else than a regular file.
std::vector<std::uint8_t> read_whole_file(const std::string& path);

}  // namespace datamover::plan
