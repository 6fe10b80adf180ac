// SPDX-License-Identifier: BSD-3-Clause
// Creation of memory that another process can read and that cannot shrink while it does.
#include "stream/wire/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "geometry/make_error.hpp"
#include "stream/wire/connection.hpp"

namespace datamover::stream {

namespace {

/// Reserves the pages, so that none is missing at the first touch, and fixes the size for ever.
bool reserve_and_seal(int file, std::size_t bytes) {
    return ::posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0 &&
           ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

std::atomic<std::uint64_t> segments_made{0};

}  // namespace

std::unique_ptr<Segment> Segment::make(std::size_t bytes) {
    const int file = ::memfd_create("datamover", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) return nullptr;
    void* memory = MAP_FAILED;
    if (may_keep(file) && reserve_and_seal(file, bytes))
        memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        ::close(file);
        return nullptr;
    }
    return std::unique_ptr<Segment>(new Segment(file, {static_cast<std::byte*>(memory), bytes}));
}

Segment::Segment(int file, std::span<std::byte> memory)
    : file_(file), memory_(memory), number_(segments_made++) {}

Segment::~Segment() {
    ::munmap(memory_.data(), memory_.size());
    ::close(file_);
}

void Segment::give_memory_back() const {
    ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(memory_.size()));
}

bool Segment::reserve() const {
    return ::posix_fallocate(file_, 0, static_cast<off_t>(memory_.size())) == 0;
}

int Segment::open_for_reading() const {
    const std::string name = concat("/proc/self/fd/", file_);
    const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        throw make_error(ErrorCode::io,
                         "cannot hand over a shared memory segment: ", std::strerror(errno));
    return file;
}

namespace {

constexpr int seals_needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void refuse() {
    throw make_error(ErrorCode::io, "cannot map a shared memory segment: ", std::strerror(errno));
}

}  // namespace

std::shared_ptr<const SegmentView> SegmentView::of_file(int file) {
    const int seals = ::fcntl(file, F_GET_SEALS);
    if (seals < 0) refuse();
    if ((seals & seals_needed) != seals_needed)
        throw Error(ErrorCode::io, "the shared memory segment is not sealed against shrinking");
    struct stat found{};
    if (::fstat(file, &found) != 0) refuse();
    const auto bytes = static_cast<std::size_t>(found.st_size);
    void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) refuse();
    return std::shared_ptr<const SegmentView>(
        new SegmentView({static_cast<const std::byte*>(memory), bytes}));
}

SegmentView::~SegmentView() {
    ::munmap(const_cast<std::byte*>(memory_.data()), memory_.size());
}

}  // namespace datamover::stream
