// SPDX-License-Identifier: BSD-3-Clause
// Memory of the system: how much is available, and large pages.
#include "large_pages.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "geometry/make_error.hpp"

namespace datamover::memory {
namespace {

/// Asked for at once: where there are no more large pages, the rest is not tried.
constexpr std::int64_t step_bytes = 16 * large_page_bytes;

std::byte* map_at(void* place, int flags, int fd, std::int64_t offset_bytes, std::int64_t bytes) {
    void* data = mmap(place, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_SHARED | flags, fd, static_cast<off_t>(offset_bytes));
    return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

std::byte* next_large_page(std::byte* address) {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    const auto page = static_cast<std::uintptr_t>(large_page_bytes);
    return address + (page - value % page) % page;
}

void unmap(std::byte* begin, std::byte* end) {
    if (end > begin) munmap(begin, static_cast<std::size_t>(end - begin));
}

/// Maps at a multiple of a large page, among addresses that nothing else is mapped to.
std::byte* map_aligned(int fd, std::int64_t offset_bytes, std::int64_t bytes) {
    const std::int64_t free_bytes = bytes + large_page_bytes;
    void* free = mmap(nullptr, static_cast<std::size_t>(free_bytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(free);
    std::byte* const place = next_large_page(begin);
    std::byte* data = map_at(place, MAP_FIXED, fd, offset_bytes, bytes);
    // After a failure the place may be unmapped, or mapped by another thread: it is left alone.
    unmap(begin, place);
    unmap(place + bytes, begin + free_bytes);
    return data;
}

/// One small page of each large one: the system makes a large page only where there is something.
bool touch_one_of_each([[maybe_unused]] std::byte* data, [[maybe_unused]] std::int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
    for (std::int64_t i = 0; i < bytes; i += large_page_bytes)
        if (madvise(data + i, 1, MADV_POPULATE_WRITE) != 0) return false;
    return true;
#else
    return false;
#endif
}

constexpr std::int64_t worth_asking_bytes = std::int64_t{64} << 20;
constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();

/// The sum of the numbers that stand behind some names in a file of lines "name number …".
std::optional<std::int64_t> sum_in(const std::string& path, const std::set<std::string>& names) {
    std::ifstream file(path);
    std::string name, rest;
    std::optional<std::int64_t> sum;
    std::int64_t number = 0;
    while (file >> name >> number && std::getline(file, rest))
        if (names.contains(name)) sum = sum.value_or(0) + number;
    return sum;
}

std::optional<std::int64_t> number_in(const std::string& path) {
    std::ifstream file(path);
    std::int64_t number = 0;
    if (file >> number) return number;
    return std::nullopt;
}

std::int64_t of_system() {
    const auto kibibytes = sum_in("/proc/meminfo", {"MemAvailable:", "SwapFree:"});
    return kibibytes ? *kibibytes * 1024 : unknown;
}

/// What files fill is given back when it is wanted. The limit is a word, not a number, where there
/// is none.
std::int64_t of_control_group() {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("0::")) continue;
        const std::string folder = "/sys/fs/cgroup" + line.substr(3);
        const auto limit = number_in(folder + "/memory.max");
        const auto used = number_in(folder + "/memory.current");
        const auto files = sum_in(folder + "/memory.stat", {"active_file", "inactive_file"});
        if (limit && used) return std::max<std::int64_t>(0, *limit - *used + files.value_or(0));
    }
    return unknown;
}

}  // namespace

std::byte* map_shared(int fd, std::int64_t offset_bytes, std::int64_t bytes) {
    std::byte* data = nullptr;
    if (bytes >= large_page_bytes && offset_bytes % large_page_bytes == 0)
        data = map_aligned(fd, offset_bytes, bytes);
    return data ? data : map_at(nullptr, 0, fd, offset_bytes, bytes);
}

void use_large_pages(std::byte* data, std::int64_t bytes) {
    madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    const std::int64_t whole_bytes = bytes / large_page_bytes * large_page_bytes;
    for (std::int64_t i = 0; i < whole_bytes; i += step_bytes) {
        const std::int64_t step = std::min(step_bytes, whole_bytes - i);
        if (!touch_one_of_each(data + i, step)) return;
        if (madvise(data + i, static_cast<std::size_t>(step), collapse_advice) != 0) return;
    }
}

std::int64_t available_bytes() {
    return std::min(of_system(), of_control_group());
}

void require_available(std::int64_t bytes) {
    if (bytes <= worth_asking_bytes) return;
    const std::int64_t left = available_bytes();
    if (bytes > left)
        throw make_error(ErrorCode::no_memory, "an allocation of ", bytes,
                         " bytes is more than the ", left, " bytes that are left");
}

}  // namespace datamover::memory
