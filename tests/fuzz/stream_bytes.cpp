// SPDX-License-Identifier: BSD-3-Clause
// Fuzzing of what the ends of a stream read: any bytes are either rejected or the fields, grants
// and headers that they say.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "datamover/error.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/headers.hpp"
#include "stream/wire/plan_between.hpp"

using namespace datamover;
using namespace datamover::stream;

namespace {

/// A header of the bytes, with a right seal, so that what lies behind it is reached.
template <class Header>
void read_header(std::span<const std::uint8_t> data) {
    Header header;
    std::memcpy(&header, data.data(), std::min(data.size(), sizeof header));
    header = sealed(header);
    try {
        if (header_at<Header>(bytes_of_header(header)).seal != header.seal) __builtin_trap();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::io) __builtin_trap();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span bytes(data, size);
    read_header<Grant>(bytes);
    read_header<FrameHeader>(bytes);
    read_header<ChunkHeader>(bytes);
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        Frame frame = Frame::read(std::as_bytes(bytes));
        const std::string written = frame.bytes(), words = written.substr(sizeof(FrameHeader));
        if (Frame::read(std::as_bytes(std::span(words))).bytes() != written) __builtin_trap();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::io) __builtin_trap();
    }
    try {
        const Layout layout = layout_of_bytes(text);
        if (!(layout_of_bytes(bytes_of_layout(layout)) == layout)) __builtin_trap();
    } catch (const Error&) {  // refused, or too large to be written
    }
    return 0;
}
