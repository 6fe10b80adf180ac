// SPDX-License-Identifier: BSD-3-Clause
// The file behind a mapping that another library made.
#include "mapped_file.hpp"

#include <sys/sysmacros.h>

#include <cinttypes>
#include <fstream>
#include <string>

namespace datamover::memory {
namespace {

/// A line of /proc/self/maps.
struct Mapping {
    std::uint64_t begin = 0, end = 0, offset_bytes = 0, inode = 0;
    std::int64_t device = 0;

    std::uint64_t bytes() const { return end - begin; }
};

/// None where the memory is private or read-only.
std::optional<Mapping> parse(const std::string& line) {
    Mapping m;
    char rights[5] = {};
    unsigned int major_number = 0, minor_number = 0;
    const int fields = std::sscanf(
        line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &m.begin, &m.end,
        rights, &m.offset_bytes, &major_number, &minor_number, &m.inode);
    constexpr int all_fields = 7;
    if (fields != all_fields || rights[0] != 'r' || rights[1] != 'w' || rights[3] != 's') return {};
    m.device = static_cast<std::int64_t>(makedev(major_number, minor_number));
    return m;
}

/// The first shared mapping that `wanted` accepts.
template <typename Wanted>
std::optional<Mapping> find_mapping(const Wanted& wanted) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (const auto mapping = parse(line); mapping && wanted(*mapping)) return mapping;
    return {};
}

}  // namespace

std::optional<FilePart> file_at(const std::byte* begin, std::int64_t bytes) {
    const auto first = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(begin));
    const auto length = static_cast<std::uint64_t>(bytes);
    const auto mapping = find_mapping([&](const Mapping& m) {
        return m.begin <= first && first < m.end && length <= m.end - first;
    });
    if (!mapping) return {};
    return FilePart{mapping->device, static_cast<std::int64_t>(mapping->inode),
                    static_cast<std::int64_t>(mapping->offset_bytes + (first - mapping->begin)),
                    bytes};
}

std::byte* address_of(const FilePart& part) {
    const auto offset = static_cast<std::uint64_t>(part.offset_bytes);
    const auto length = static_cast<std::uint64_t>(part.bytes);
    const auto mapping = find_mapping([&](const Mapping& m) {
        return m.device == part.device && m.inode == static_cast<std::uint64_t>(part.inode) &&
               m.offset_bytes <= offset && offset - m.offset_bytes < m.bytes() &&
               length <= m.bytes() - (offset - m.offset_bytes);
    });
    if (!mapping) return nullptr;
    return reinterpret_cast<std::byte*>(
        static_cast<std::uintptr_t>(mapping->begin + (offset - mapping->offset_bytes)));
}

}  // namespace datamover::memory
