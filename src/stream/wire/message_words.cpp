// SPDX-License-Identifier: BSD-3-Clause
// Writing and reading of data connection headers. No input is trusted.
#include "stream/wire/message_words.hpp"

#include <algorithm>

#include "geometry/make_error.hpp"
#include "stream/wire/crc32c.hpp"

namespace datamover::stream {
namespace {

constexpr std::uint32_t frame_magic = 0x444d4637;   // "DMF7"
constexpr std::uint32_t grant_magic = 0x444d4737;   // "DMG7"
constexpr std::uint32_t chunk_magic = 0x444d4337;   // "DMC7"
constexpr std::uint32_t shared_magic = 0x444d5337;  // "DMS7"

/// Passes integers to bytes, or from them.
class Passing {
public:
    Passing(std::byte* at, bool reads) : at_(at), reads_(reads) {}

    template <class... Integers>
    void operator()(Integers&... values) {
        (pass(values), ...);
    }

private:
    template <class Integer>
    void pass(Integer& value) {
        for (std::size_t n = sizeof(Integer); n-- > 0; ++at_)
            if (reads_)
                value = static_cast<Integer>(value << 8 | static_cast<Integer>(*at_));
            else
                *at_ = static_cast<std::byte>(value >> 8 * n);
    }

    std::byte* at_;
    const bool reads_;
};

void pass_fields(Passing& pass, FrameHeader& header) {
    std::uint32_t magic = frame_magic;
    pass(magic, header.bytes, header.checksum);
}

void pass_fields(Passing& pass, Grant& grant) {
    std::uint32_t magic = grant_magic, alone = grant.alone;
    pass(magic, alone, grant.taken, grant.may);
    if (magic != grant_magic || alone > 1)
        throw make_error(ErrorCode::io, "received bytes that are not a grant: ", magic, " ", alone);
    grant.alone = alone != 0;
}

void pass_fields(Passing& pass, ChunkHeader& header) {
    std::uint32_t magic = header.is_shared ? shared_magic : chunk_magic;
    auto number = static_cast<std::uint64_t>(header.number);
    pass(magic, header.checksum, header.array, header.place, header.offset, header.bytes,
         header.segment, header.position, number);
    if (magic != chunk_magic && magic != shared_magic)
        throw Error(
            ErrorCode::peer_failed,
            "it sent bytes that are not the header of a message; install the same version of "
            "datamover at both ends");
    header.is_shared = magic == shared_magic;
    header.number = static_cast<std::int64_t>(number);
}

constexpr std::size_t checksum_bytes = 4;

template <class Header>
std::array<std::byte, Header::size_bytes> written(Header header) {
    std::array<std::byte, Header::size_bytes> words{};
    Passing pass(words.data(), false);
    pass_fields(pass, header);
    std::uint32_t checksum = crc32c(std::span(words).first(words.size() - checksum_bytes));
    pass(checksum);
    return words;
}

template <class Header>
Header read_undamaged(std::span<const std::byte, Header::size_bytes> words, const char* what) {
    std::array<std::byte, Header::size_bytes> bytes;
    std::ranges::copy(words, bytes.begin());
    std::uint32_t checksum = 0;
    Passing(bytes.data() + bytes.size() - checksum_bytes, true)(checksum);
    if (crc32c(std::span(bytes).first(bytes.size() - checksum_bytes)) != checksum)
        throw make_error(ErrorCode::io, what, " arrived damaged");
    Header header;
    Passing pass(bytes.data(), true);
    pass_fields(pass, header);
    return header;
}

}  // namespace

FrameHeader FrameHeader::read(std::span<const std::byte, size_bytes> words) {
    const auto right = FrameHeader().write();
    if (!std::equal(words.begin(), words.begin() + sizeof frame_magic, right.begin()))
        throw Error(ErrorCode::io,
                    "received bytes that are not a frame of this version of the stream protocol");
    return read_undamaged<FrameHeader>(words, "the header of a frame");
}

std::array<std::byte, FrameHeader::size_bytes> FrameHeader::write() const {
    return written(*this);
}

Grant Grant::read(std::span<const std::byte, size_bytes> words) {
    return read_undamaged<Grant>(words, "a grant");
}

std::array<std::byte, Grant::size_bytes> Grant::write() const {
    return written(*this);
}

ChunkHeader ChunkHeader::read(std::span<const std::byte, size_bytes> words) {
    return read_undamaged<ChunkHeader>(words, "the header of a part of a message");
}

std::array<std::byte, ChunkHeader::size_bytes> ChunkHeader::write() const {
    return written(*this);
}

std::pair<std::uint64_t, std::uint64_t> share_of(std::uint64_t message_bytes, int pathway,
                                                 int pathways) {
    const auto count = static_cast<std::uint64_t>(pathways);
    const auto which = static_cast<std::uint64_t>(pathway);
    const std::uint64_t even = message_bytes / count + (message_bytes % count != 0 ? 1 : 0);
    const std::uint64_t units = std::max<std::uint64_t>((even + share_bytes - 1) / share_bytes, 1);
    const std::uint64_t begin = which * units * share_bytes;
    return {std::min(begin, message_bytes), std::min(begin + units * share_bytes, message_bytes)};
}

}  // namespace datamover::stream
