// SPDX-License-Identifier: BSD-3-Clause
// Segments: memory for messages that both ends of a stream can access on one machine. The memory
// has no name: its file descriptor is passed over a connection. The system frees it when the last
// process that has it ends, whatever the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

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
    void give_memory_back() const;
    /// Has memory again; false where the system has no more of it.
    bool reserve() const;
    /// A new file descriptor, for the caller to close, by which the memory can be read, not
    /// written. Throws io.
    int open_for_reading() const;

private:
    Segment(int file, std::span<std::byte> memory);

    int file_;
    std::span<std::byte> memory_;
    std::uint64_t number_;
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

}  // namespace datamover::stream
