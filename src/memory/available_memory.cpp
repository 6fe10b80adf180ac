// SPDX-License-Identifier: BSD-3-Clause
// How much memory has the system left?
#include "available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "datamover/error.hpp"

namespace datamover::memory {
namespace {

constexpr std::int64_t worth_asking_bytes = std::int64_t{64} << 20;
constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();

std::int64_t of_system() {
    std::ifstream file("/proc/meminfo");
    std::string name, unit;
    std::int64_t kibibytes = 0, available = -1, swap = 0;
    while (file >> name >> kibibytes && std::getline(file, unit)) {
        if (name == "MemAvailable:") available = kibibytes;
        if (name == "SwapFree:") swap = kibibytes;
    }
    return available < 0 ? unknown : (available + swap) * 1024;
}

std::optional<std::int64_t> number_in(const std::string& path) {
    std::ifstream file(path);
    std::int64_t number = 0;
    if (file >> number) return number;
    return std::nullopt;
}

/// The control group's limit is a word, not a number, where there is none.
std::int64_t of_control_group() {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("0::")) continue;
        const std::string folder = "/sys/fs/cgroup" + line.substr(3);
        const auto limit = number_in(folder + "/memory.max");
        const auto used = number_in(folder + "/memory.current");
        if (limit && used) return std::max<std::int64_t>(0, *limit - *used);
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
        throw Error(ErrorCode::no_memory, "an allocation of " + std::to_string(bytes) +
                                              " bytes is more than the " + std::to_string(left) +
                                              " bytes that are left");
}

}  // namespace datamover::memory
