// SPDX-License-Identifier: BSD-3-Clause
// Memory for messages: segments that both ends of a stream can access on one machine, private
// memory, and a pool of it. A segment has no name: its file descriptor is passed over a connection.
// The system frees it when the last process that has it ends, whatever the reason.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace datamover::stream {

class Segment {
public:
    /// Shorter messages go over the connection: a segment would cost more than it saves.
    static constexpr std::size_t least_bytes = 1 << 15;
    /// Of one connection, at the same time.
    static constexpr int max_of_connection = 256;

    /// Null where the system has no such memory, or no more of it. Its pages are reserved now.
    static std::unique_ptr<Segment> make(std::size_t bytes);
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    std::span<std::byte> memory() const { return memory_; }
    /// Which of this process's segments it is.
    std::uint64_t number() const { return number_; }
    /// Gives the memory to the system; the segment stays, and reads as zeros.
    void give_memory_back();
    /// Has memory again; false where the system has no more of it.
    bool reserve();
    bool has_memory() const { return has_memory_; }
    /// A new file descriptor, for the caller to close, by which the memory can be read, not
    /// written. Throws io.
    int open_for_reading() const;

private:
    Segment(int file, std::span<std::byte> memory);

    int file_;
    std::span<std::byte> memory_;
    std::uint64_t number_;
    bool has_memory_ = true;
};

/// Another process's segment, mapped for reading.
class SegmentView {
public:
    /// The caller closes the file. Throws io where it is no such memory, or its owner could take it
    /// away while it is read.
    static std::shared_ptr<const SegmentView> of_file(int file);
    ~SegmentView();
    SegmentView(const SegmentView&) = delete;
    SegmentView& operator=(const SegmentView&) = delete;

    std::span<const std::byte> memory() const { return memory_; }

private:
    explicit SegmentView(std::span<const std::byte> memory) : memory_(memory) {}

    std::span<const std::byte> memory_;
};

struct FreeBytes {
    void operator()(std::byte* bytes) const { std::free(bytes); }
};
using OwnBytes = std::unique_ptr<std::byte[], FreeBytes>;

/// So many bytes, in large pages where there are many and the system has such: loops over them then
/// miss fewer addresses. Throws no_memory.
OwnBytes own_bytes(std::size_t bytes);

/// Memory that comes back when nobody has it any more; by any thread, also after the pool's end. In
/// a child that was forked meanwhile it goes to the system.
class MemoryPool {
public:
    /// Keeps at most so many of each size that nobody uses.
    explicit MemoryPool(std::size_t most_unused = SIZE_MAX)
        : kept_(std::make_shared<Kept>(most_unused)) {}

    /// Throws no_memory.
    std::shared_ptr<std::byte> take(std::size_t bytes);

private:
    struct Kept {
        explicit Kept(std::size_t most);
        OwnBytes take(std::size_t bytes);
        void give_back(OwnBytes memory, std::size_t bytes) noexcept;

        const std::size_t most_unused;
        const pid_t process;
        std::mutex lock;
        std::map<std::size_t, std::vector<OwnBytes>> unused;
    };

    std::shared_ptr<Kept> kept_;
};

}  // namespace datamover::stream
