// SPDX-License-Identifier: BSD-3-Clause
// Memory that the system has available.
#include "available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "geometry/make_error.hpp"

namespace datamover::memory {
namespace {

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
