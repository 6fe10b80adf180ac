// SPDX-License-Identifier: BSD-3-Clause
// Memory of the system: how much is available, and large pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace datamover::memory {

/// What one large page holds, on systems whose small pages have 4 KiB.
constexpr std::int64_t large_page_bytes = std::int64_t{2} << 20;

/// madvise's word for "large pages, now"; older headers do not have its name.
#ifdef MADV_COLLAPSE
constexpr int collapse_advice = MADV_COLLAPSE;
#else
constexpr int collapse_advice = 25;
#endif

/// Maps a part of a file, shared, so that large pages of the file can be large pages here: a part
/// of at least one begins at a multiple of it. Null, with errno, where that cannot be done.
std::byte* map_shared(int fd, std::int64_t offset_bytes, std::int64_t bytes);

/// Puts large pages behind memory of map_shared that nobody has touched yet, as far as the system
/// can: what has none afterwards is as before. Linux 6.1 and later; nothing before.
///
/// By default Linux gives shared memory no large pages (`shmem_enabled` is `never`), but does so
/// for a program that asks for them: a page for each is touched, the rest comes with it. That takes
/// a third of the time of touching all small pages, loops with strides miss fewer addresses, and
/// processes that map the memory later have fewer pages to enter.
void use_large_pages(std::byte* data, std::int64_t bytes);

/// Bytes that can still be taken, of the system (with what it can swap out) and of this process's
/// control group (version 2); the largest number where neither tells.
std::int64_t available_bytes();

/// Throws no_memory where an allocation of so many bytes is large and more than is left: a system
/// that runs out while pages are touched kills processes.
void require_available(std::int64_t bytes);

}  // namespace datamover::memory
