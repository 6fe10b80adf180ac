// SPDX-License-Identifier: BSD-3-Clause
// SegmentView: read access to memory that a sending process on the same machine shares. Its content
// is not trusted.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace datamover::stream {

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
