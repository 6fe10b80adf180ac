// SPDX-License-Identifier: BSD-3-Clause
// Check that a segment of another process is sealed, so that it cannot shrink while it is read.
#include "stream/segment_view.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "geometry/make_error.hpp"

namespace datamover::stream {
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
