// SPDX-License-Identifier: BSD-3-Clause
// Memory for messages: segments that both ends of a stream can access on one machine, private
// memory, and a pool of it. A segment has no name: its file descriptor is passed over a connection.
// The system frees it when the last process that has it ends, whatever the reason.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "stream/wire/connection.hpp"

namespace datamover::stream {

/// Another process's segment, mapped for reading as long as this is kept.
using SegmentView = std::shared_ptr<const std::span<const std::byte>>;
/// The caller closes the file. Throws io where it is no such memory, or its owner could take it
/// away while it is read.
SegmentView view_of_segment(int file);

/// Memory for a message or an array: private, or a segment that a local receiver reads.
class Memory {
public:
    /// Shorter messages go over the connection: a segment would cost more than it saves.
    static constexpr std::size_t least_shared_bytes = 1 << 15;
    /// Segments of one connection, at the same time.
    static constexpr int max_segments = 256;

    /// Private: in large pages where there are many bytes and the system has such, so that loops
    /// over them miss fewer addresses. Throws no_memory.
    explicit Memory(std::size_t bytes);
    /// A segment; null where the system has no such memory, or no more of it. Its pages are
    /// reserved now.
    static std::unique_ptr<Memory> make_segment(std::size_t bytes);
    ~Memory();

    std::span<std::byte> bytes() const { return bytes_; }
    /// How many of its bytes, from the first on, have been packed and may be read: all, unless
    /// `set_packed` said otherwise. Called by who packs and by who sends.
    std::size_t packed() const { return packed_.load(std::memory_order_acquire); }
    void set_packed(std::size_t bytes) const { packed_.store(bytes, std::memory_order_release); }

    bool is_segment() const { return file_.get() >= 0; }
    /// Gives the memory of a segment to the system; the segment stays, and reads as zeros.
    void give_back() const;
    /// Has memory again; false where the system has no more of it.
    bool reserve() const;
    bool has_memory() const { return has_memory_; }
    /// Which of this process's segments it is.
    std::uint64_t number() const { return number_; }
    /// A new file descriptor, for the caller to close, by which the segment can be read, not
    /// written. Throws io.
    int open_for_reading() const;

private:
    Memory(Descriptor file, std::span<std::byte> bytes, std::uint64_t number)
        : file_(std::move(file)), bytes_(bytes), number_(number), packed_(bytes.size()) {}

    const Descriptor file_;  ///< of a segment
    const std::span<std::byte> bytes_;
    const std::uint64_t number_ = 0;
    mutable bool has_memory_ = true;
    mutable std::atomic<std::size_t> packed_;
};

using MemoryPtr = std::shared_ptr<const Memory>;

/// Memory that comes back when nobody has it any more; by any thread, also after the pool's end. In
/// a child that was forked meanwhile it goes to the system. A pool is kept by a shared pointer.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
public:
    /// Keeps at most so many of each size that nobody uses.
    explicit MemoryPool(std::size_t most_unused = SIZE_MAX);

    /// Such as was used before, where there is any; best of what came back last, which is in the
    /// processor's caches. Throws no_memory.
    MemoryPtr take(std::size_t bytes);
    std::shared_ptr<std::byte> take_bytes(std::size_t bytes) {
        const MemoryPtr memory = take(bytes);
        return {memory, memory->bytes().data()};
    }
    /// From now on what is long enough is taken of segments.
    void share();
    /// Gives what nobody uses to the system; until something is taken, also what comes back.
    void free_unused();
    /// Keeps nothing any more.
    void end();
    /// Of what is used, and of what is not.
    std::uint64_t bytes_held() const;

private:
    using Owned = std::unique_ptr<const Memory>;
    Owned take_unused(std::size_t bytes);
    bool takes_segments(std::size_t bytes) const;
    void give_back(Owned memory) noexcept;
    /// Frees memory that nobody uses. Segments stay, without memory: the receiver knows them, and
    /// would take no others in their place. Whether it stays.
    bool free(const Memory& memory);

    const std::size_t most_unused_;
    const pid_t process_;
    mutable std::mutex lock_;
    std::map<std::size_t, std::vector<Owned>> unused_;
    std::uint64_t held_bytes_ = 0;
    int segments_ = 0;
    bool keeps_memory_ = true, shares_memory_ = false, has_ended_ = false;
};

}  // namespace datamover::stream
