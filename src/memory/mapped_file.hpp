// SPDX-License-Identifier: BSD-3-Clause
// The file behind a mapping that another library made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace datamover::memory {

/// A part of a file, known by its identity: the file may have no name any more.
struct FilePart {
    std::int64_t device = 0;
    std::int64_t inode = 0;
    std::int64_t offset_bytes = 0;
    std::int64_t bytes = 0;
};

/// The part of a file that is mapped, shared and writable, at a range of addresses of this process;
/// none where another kind of memory lies there. Reads /proc/self/maps: O(mappings).
std::optional<FilePart> file_at(const std::byte* begin, std::int64_t bytes);

/// Where all of a part is mapped here, shared and writable; null where it is not. As long as
/// file_at.
std::byte* address_of(const FilePart& part);

}  // namespace datamover::memory
