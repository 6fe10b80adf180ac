// SPDX-License-Identifier: BSD-3-Clause
// Shared segments: memory that processes of a node map; bells in them, which wake a process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace datamover::memory {

/// What another process needs in order to map a segment: the owner's process and descriptor, the
/// identity of the file behind it (which may have no name any more), so that a wrong file is never
/// taken for it, and the part of that file.
struct SegmentName {
    std::int64_t pid = 0;
    std::int64_t fd = -1;
    std::int64_t device = 0;
    std::int64_t inode = 0;
    std::int64_t offset_bytes = 0;
    std::int64_t bytes = 0;

    /// Whether the segment was mapped by somebody else than the library, on each process for
    /// itself.
    bool is_foreign() const { return fd < 0; }

    bool operator==(const SegmentName&) const = default;
    auto operator<=>(const SegmentName&) const = default;
};

/// A mapped piece of memory that other processes of the node can map too. All segments of a process
/// are parts of one file without a name in any file system: one descriptor, however many there are,
/// and nothing is left behind by a kill.
class SharedSegment {
public:
    /// Makes a segment with all its pages reserved; throws no_memory when there are not enough
    /// (or the limit DATAMOVER_SHARED_BYTES of this process is reached).
    static std::shared_ptr<SharedSegment> create(std::int64_t bytes);
    /// Maps another process's segment, touching none of its pages; throws no_memory when that
    /// cannot be done here.
    static std::shared_ptr<SharedSegment> open(const SegmentName& name);
    /// Memory of this process that somebody else has mapped, has to keep mapped as long as this
    /// lives, and may have mapped on other processes; throws invalid_argument where it is private.
    static std::shared_ptr<SharedSegment> foreign(std::byte* data, std::int64_t bytes);
    ~SharedSegment();
    SharedSegment(const SharedSegment&) = delete;
    SharedSegment& operator=(const SharedSegment&) = delete;

    std::byte* data() const { return data_; }
    std::int64_t bytes() const { return name_.bytes; }
    const SegmentName& name() const { return name_; }

private:
    SharedSegment(std::byte* data, const SegmentName& name);
    std::byte* data_ = nullptr;
    SegmentName name_;
    std::int64_t made_bytes_ = 0;  ///< which count against the limit; 0: another process's segment
};

/// Lies in memory that processes share, zeroed. Whoever has written something rings; whoever sleeps
/// meanwhile wakes, and looks whether it is what it waits for. What is written and looked at are
/// atomics, in one order for all (memory_order_seq_cst): either the ringer sees the sleeper, or the
/// sleeper what was written.
class Bell {
public:
    /// Wakes all who sleep. Where nobody does, it costs one load.
    void ring() noexcept {
        if (sleepers_.load() > 0) wake();
    }

    /// Sleeps until the bell rings, or `longest` has passed; not at all where `is_done` says so.
    template <class IsDone>
    void sleep(std::chrono::nanoseconds longest, IsDone&& is_done) {
        const std::uint32_t heard = rings_.load();
        sleepers_.fetch_add(1);
        if (!is_done()) sleep_unless_rung(heard, longest);
        sleepers_.fetch_sub(1);
    }

private:
    void wake() noexcept;
    void sleep_unless_rung(std::uint32_t heard, std::chrono::nanoseconds longest) noexcept;

    std::atomic<std::uint32_t> rings_{0}, sleepers_{0};
};

}  // namespace datamover::memory
