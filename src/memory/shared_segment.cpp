// SPDX-License-Identifier: BSD-3-Clause
// How do processes of one node see the same memory?
#include "shared_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "datamover/error.hpp"

namespace datamover::memory {
namespace {

[[noreturn]] void no_memory(const std::string& what) {
    throw Error(ErrorCode::no_memory, what + ": " + std::strerror(errno));
}

/// Bytes of shared memory that this process may make, from the environment.
std::int64_t limit_bytes() {
    const char* text = std::getenv("DATAMOVER_SHARED_BYTES");
    return text ? std::strtoll(text, nullptr, 10) : std::numeric_limits<std::int64_t>::max();
}

std::atomic<std::int64_t> made_bytes{0};

void count_against_limit(std::int64_t bytes) {
    if (made_bytes.fetch_add(bytes) + bytes <= limit_bytes()) return;
    made_bytes.fetch_sub(bytes);
    throw Error(ErrorCode::no_memory, "a shared segment of " + std::to_string(bytes) +
                                          " bytes exceeds DATAMOVER_SHARED_BYTES");
}

/// Touches all pages now: a later first touch of a page that is not to be had would kill the
/// process.
bool reserve_pages(int fd, void* data, std::size_t bytes) {
    madvise(data, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
    if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return true;
    if (errno != EINVAL) return false;
#endif
    errno = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    return errno == 0;
}

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create(std::int64_t bytes) {
    count_against_limit(bytes);
    std::shared_ptr<SharedSegment> segment(new SharedSegment);
    segment->counted_bytes_ = bytes;
    segment->name_ = {getpid(), memfd_create("datamover", MFD_CLOEXEC), 0, 0, bytes};
    const int fd = static_cast<int>(segment->name_.fd);
    const auto size = static_cast<std::size_t>(bytes);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0)
        no_memory("a shared segment of " + std::to_string(bytes) + " bytes could not be made");
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) no_memory("a shared segment could not be mapped");
    segment->data_ = static_cast<std::byte*>(data);
    if (!reserve_pages(fd, data, size))
        no_memory("pages for a shared segment of " + std::to_string(bytes) + " bytes");
    struct stat status{};
    if (fstat(fd, &status) != 0) no_memory("a shared segment cannot be identified");
    segment->name_.device = static_cast<std::int64_t>(status.st_dev);
    segment->name_.inode = static_cast<std::int64_t>(status.st_ino);
    return segment;
}

std::shared_ptr<SharedSegment> SharedSegment::open(const SegmentName& name) {
    const std::string path = "/proc/" + std::to_string(name.pid) + "/fd/" + std::to_string(name.fd);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0)
        no_memory("shared memory of process " + std::to_string(name.pid) + " cannot be opened");
    struct stat status{};
    const bool same = fstat(fd, &status) == 0 &&
                      static_cast<std::int64_t>(status.st_dev) == name.device &&
                      static_cast<std::int64_t>(status.st_ino) == name.inode;
    if (!same) {
        close(fd);
        throw Error(ErrorCode::no_memory, path + " is not the segment that was announced");
    }
    void* data = mmap(nullptr, static_cast<std::size_t>(name.bytes), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, fd, 0);
    const int error = errno;
    close(fd);
    errno = error;
    if (data == MAP_FAILED) no_memory("shared memory of another process could not be mapped");
    std::shared_ptr<SharedSegment> segment(new SharedSegment);
    segment->data_ = static_cast<std::byte*>(data);
    segment->name_ = name;
    segment->name_.fd = -1;
    return segment;
}

SharedSegment::~SharedSegment() {
    if (data_) munmap(data_, static_cast<std::size_t>(name_.bytes));
    if (name_.fd >= 0) close(static_cast<int>(name_.fd));
    made_bytes.fetch_sub(counted_bytes_);
}

}  // namespace datamover::memory
