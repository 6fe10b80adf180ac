// SPDX-License-Identifier: BSD-3-Clause
// How do processes of one node see the same memory?
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace datamover::memory {

/// What another process needs in order to map a segment: the owner's process and descriptor, and
/// the identity of the file behind it, so that a wrong file is never taken for it.
struct SegmentName {
    std::int64_t pid = 0;
    std::int64_t fd = -1;
    std::int64_t device = 0;
    std::int64_t inode = 0;
    std::int64_t bytes = 0;

    bool operator==(const SegmentName&) const = default;
    auto operator<=>(const SegmentName&) const = default;
};

/// A mapped piece of memory that other processes of the node can map too. It has no name in any
/// file system, so nothing is left behind by a kill.
class SharedSegment {
public:
    /// Makes a segment with all its pages reserved; throws no_memory when they are not to be had
    /// (or the limit DATAMOVER_SHARED_BYTES of this process is reached).
    static std::shared_ptr<SharedSegment> create(std::int64_t bytes);
    /// Maps another process's segment; throws no_memory when that cannot be done here.
    static std::shared_ptr<SharedSegment> open(const SegmentName& name);
    ~SharedSegment();
    SharedSegment(const SharedSegment&) = delete;
    SharedSegment& operator=(const SharedSegment&) = delete;

    std::byte* data() const { return data_; }
    std::int64_t bytes() const { return name_.bytes; }
    const SegmentName& name() const { return name_; }

private:
    SharedSegment() = default;
    std::byte* data_ = nullptr;
    SegmentName name_;
    std::int64_t counted_bytes_ = 0;  // against this process's limit
};

}  // namespace datamover::memory
