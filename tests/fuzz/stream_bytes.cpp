// SPDX-License-Identifier: BSD-3-Clause
// Fuzzing of what the ends of a stream read: any bytes are either rejected or the fields, grants
// and headers that they say.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "datamover/error.hpp"
#include "stream/wire/crc32c.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/message_words.hpp"
#include "stream/wire/plan_between.hpp"

using namespace datamover;
using namespace datamover::stream;

namespace {

/// Fixed words of the bytes, with a right checksum, so that what lies behind it is reached.
template <class Words>
void read_words(std::span<const std::uint8_t> data) {
    constexpr std::size_t size = Words::size_bytes, before = size - 4;
    std::array<std::byte, size> words{};
    std::memcpy(words.data(), data.data(), std::min(data.size(), before));
    const std::uint32_t sum = crc32c(std::span(words).first(before));
    for (std::size_t n = 0; n < 4; ++n)
        words[before + n] = static_cast<std::byte>(sum >> (24 - 8 * n));
    try {
        if (Words::read(words).write() != words) __builtin_trap();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::io && error.code() != ErrorCode::peer_failed)
            __builtin_trap();
    }
}

void use_value(const Value& value) {
    is_plain_text(value.text());
    if (value.items().size() > Value::max_items) __builtin_trap();
    for (const Value& item : value.items()) use_value(item);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span bytes(data, size);
    read_words<Grant>(bytes);
    read_words<ChunkHeader>(bytes);
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        use_value(Value::parse_record(text));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::io) __builtin_trap();
    }
    try {
        const Layout layout = layout_of_bytes(text, 1);
        if (!(layout_of_bytes(bytes_of_layout(layout), 1) == layout)) __builtin_trap();
    } catch (const Error&) {  // refused, or too large to be written
    }
    return 0;
}
