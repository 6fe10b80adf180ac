// SPDX-License-Identifier: BSD-3-Clause
// Shared segments: memory that processes of a node map; bells in them, which wake a process.
#include "shared_segment.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>

#include "cache_lines.hpp"
#include "environment_number.hpp"
#include "geometry/make_error.hpp"
#include "large_pages.hpp"

namespace datamover::memory {
namespace {

[[noreturn]] void no_memory(const std::string& what) {
    throw make_error(ErrorCode::no_memory, what, ": ", std::strerror(errno));
}

/// Bytes of shared memory that this process has made and not given back.
std::atomic<std::int64_t> made_bytes{0};

/// The file in memory that holds this process's segments. It only grows: the pages of a part that
/// is given back go, its place is never used again.
class SegmentFile {
public:
    static SegmentFile& of_process() {
        static auto* file = new SegmentFile;
        return *file;
    }

    /// The name of a new part, without pages yet.
    SegmentName append(std::int64_t bytes) {
        const std::lock_guard lock(mutex_);
        // A child that was forked needs a file of its own: the parent's grows without it.
        if (name_.pid != getpid()) open_file();
        // Where large pages fit, they need an aligned beginning.
        const std::int64_t page_bytes = sysconf(_SC_PAGESIZE);
        SegmentName name = name_;
        name.offset_bytes =
            bytes < large_page_bytes ? end_bytes_ : rounded_up(end_bytes_, large_page_bytes);
        name.bytes = bytes;
        const std::int64_t end = rounded_up(name.offset_bytes + bytes, page_bytes);
        if (ftruncate(static_cast<int>(name_.fd), static_cast<off_t>(end)) != 0)
            no_memory(concat("a shared segment of ", bytes, " bytes could not be made"));
        end_bytes_ = end;
        return name;
    }

private:
    void open_file() {
        const int fd = memfd_create("datamover", MFD_CLOEXEC);
        struct stat status{};
        if (fd < 0 || fstat(fd, &status) != 0) {
            const int error = errno;
            if (fd >= 0) close(fd);
            errno = error;
            no_memory("a file for shared segments could not be made");
        }
        name_ = {getpid(),
                 fd,
                 static_cast<std::int64_t>(status.st_dev),
                 static_cast<std::int64_t>(status.st_ino),
                 0,
                 0};
        end_bytes_ = 0;
    }

    std::mutex mutex_;
    SegmentName name_;
    std::int64_t end_bytes_ = 0;
};

void give_back_pages(const SegmentName& name) {
    fallocate(static_cast<int>(name.fd), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(name.offset_bytes), static_cast<off_t>(name.bytes));
}

/// Touches all pages now: a later first touch of a page that does not exist would kill the process.
bool reserve_pages(const SegmentName& name, std::byte* data) {
    [[maybe_unused]] const auto bytes = static_cast<std::size_t>(name.bytes);
    use_large_pages(data, name.bytes);
#ifdef MADV_POPULATE_WRITE
    if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return true;
    if (errno != EINVAL) return false;
#endif
    errno = posix_fallocate(static_cast<int>(name.fd), static_cast<off_t>(name.offset_bytes),
                            static_cast<off_t>(name.bytes));
    return errno == 0;
}

// ---------------------------------------------------------------- segments that others have mapped

/// A line of /proc/self/maps.
struct Mapping {
    std::int64_t begin = 0, end = 0, offset_bytes = 0, device = 0, inode = 0;

    bool has(std::int64_t address, std::int64_t bytes) const {
        return begin <= address && address < end && bytes <= end - address;
    }
};

/// None where the memory is private or read-only.
std::optional<Mapping> parse(const std::string& line) {
    Mapping m;
    std::string rights;
    char between = 0;
    unsigned int major_number = 0, minor_number = 0;
    std::istringstream words(line);
    words >> std::hex >> m.begin >> between >> m.end >> rights >> m.offset_bytes;
    words >> major_number >> between >> minor_number >> std::dec >> m.inode;
    if (!words || !rights.starts_with("rw") || rights.back() != 's') return {};
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

/// The segment that is mapped, shared and writable, at a range of addresses of this process; none
/// where another kind of memory lies there. Reads /proc/self/maps: O(mappings).
std::optional<SegmentName> foreign_at(const std::byte* data, std::int64_t bytes) {
    const auto begin = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data));
    const auto found = find_mapping([&](const Mapping& m) { return m.has(begin, bytes); });
    if (!found) return {};
    const std::int64_t offset_bytes = found->offset_bytes + (begin - found->begin);
    return SegmentName{getpid(), -1, found->device, found->inode, offset_bytes, bytes};
}

/// Where all of a foreign segment is mapped here, shared and writable. As long as foreign_at.
std::byte* address_of(const SegmentName& name) {
    const auto address_in = [&](const Mapping& m) {
        return m.begin + (name.offset_bytes - m.offset_bytes);
    };
    const auto found = find_mapping([&](const Mapping& m) {
        return m.device == name.device && m.inode == name.inode && m.has(address_in(m), name.bytes);
    });
    if (!found)
        throw make_error(ErrorCode::no_memory,
                         "this process has not mapped the shared memory of process ", name.pid);
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address_in(*found)));
}

/// Maps a segment of another process by its descriptor there.
std::byte* map_file_of(const SegmentName& name) {
    const std::string path = concat("/proc/", name.pid, "/fd/", name.fd);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) no_memory(concat("shared memory of process ", name.pid, " cannot be opened"));
    struct stat status{};
    const bool same = fstat(fd, &status) == 0 &&
                      static_cast<std::int64_t>(status.st_dev) == name.device &&
                      static_cast<std::int64_t>(status.st_ino) == name.inode;
    std::byte* data = same ? map_shared(fd, name.offset_bytes, name.bytes) : nullptr;
    const int error = errno;
    close(fd);
    if (!same)
        throw make_error(ErrorCode::no_memory, path, " is not the segment that was announced");
    errno = error;
    if (!data) no_memory("shared memory of another process could not be mapped");
    return data;
}

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create(std::int64_t bytes) {
    require_available(bytes);
    const std::shared_ptr<SharedSegment> segment(new SharedSegment(nullptr, {}));
    segment->made_bytes_ = bytes;
    const auto limit = environment_number("DATAMOVER_SHARED_BYTES");
    if (const std::int64_t all = made_bytes.fetch_add(bytes) + bytes; limit && all > *limit)
        throw make_error(ErrorCode::no_memory, "a shared segment of ", bytes,
                         " bytes exceeds DATAMOVER_SHARED_BYTES");
    const SegmentName name = SegmentFile::of_process().append(bytes);
    segment->name_ = name;
    segment->data_ = map_shared(static_cast<int>(name.fd), name.offset_bytes, bytes);
    if (!segment->data_) no_memory("a shared segment could not be mapped");
    if (!reserve_pages(name, segment->data_))
        no_memory(concat("pages for a shared segment of ", bytes, " bytes"));
    return segment;
}

std::shared_ptr<SharedSegment> SharedSegment::foreign(std::byte* data, std::int64_t bytes) {
    const auto name = foreign_at(data, bytes);
    if (!name)
        throw make_error(ErrorCode::invalid_argument, "the ", bytes,
                         " bytes do not lie in one piece of memory that processes share");
    return std::shared_ptr<SharedSegment>(new SharedSegment(data, *name));
}

std::shared_ptr<SharedSegment> SharedSegment::open(const SegmentName& name) {
    std::byte* data = name.is_foreign() ? address_of(name) : map_file_of(name);
    return std::shared_ptr<SharedSegment>(new SharedSegment(data, name));
}

SharedSegment::SharedSegment(std::byte* data, const SegmentName& name) : data_(data), name_(name) {}

SharedSegment::~SharedSegment() {
    if (data_ && !name_.is_foreign()) munmap(data_, static_cast<std::size_t>(name_.bytes));
    made_bytes.fetch_sub(made_bytes_);
    if (made_bytes_ > 0 && name_.pid == getpid()) give_back_pages(name_);
}

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

void Bell::wake() noexcept {
    rings_.fetch_add(1);
    ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::sleep_unless_rung(std::uint32_t heard, std::chrono::nanoseconds longest) noexcept {
    using std::chrono::seconds;
    const auto whole = std::chrono::duration_cast<seconds>(longest);
    const timespec time{static_cast<std::time_t>(whole.count()),
                        static_cast<long>((longest - whole).count())};
    ::syscall(SYS_futex, &rings_, FUTEX_WAIT, heard, &time, nullptr, 0);
}

}  // namespace datamover::memory
