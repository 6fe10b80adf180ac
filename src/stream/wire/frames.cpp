// SPDX-License-Identifier: BSD-3-Clause
// Writing and reading of frames without waiting for the other end.
#include "stream/wire/frames.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "geometry/make_error.hpp"
#include "stream/wire/crc32c.hpp"

namespace datamover::stream {

std::string few_words(std::string words) {
    if (words.size() <= max_words) return words;
    std::size_t end = max_words;  // not within a character
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0) == 0x80) --end;
    words.resize(end);
    return words;
}

Error said_error(const Value& said) {
    const std::string& name = said.name("code");
    ErrorCode code = ErrorCode::peer_failed;
    for (int c = 1; c <= static_cast<int>(ErrorCode::unsupported); ++c)
        if (name == error_code_name(static_cast<ErrorCode>(c))) code = static_cast<ErrorCode>(c);
    std::string words = said.has("words") ? few_words(said.bytes("words")) : "";
    if (!is_plain_text(words, max_words))
        std::erase_if(words, [](char c) { return c != '\n' && (c < 0x20 || c >= 0x7f); });
    return Error(code, words);
}

namespace {

constexpr std::string_view magic = "DMF7";
constexpr std::size_t header_bytes = 16, checked_bytes = 12;
/// A consumer that takes no frames for so long has failed.
constexpr std::chrono::milliseconds frames_stalled_time{600'000};
/// What is read of frames at once.
constexpr std::size_t frame_read_bytes = 1 << 16;

std::span<const std::byte> bytes_of_text(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

std::uint32_t number_at(std::span<const std::byte> bytes) {
    std::uint32_t value = 0;
    for (std::size_t n = 0; n < 4; ++n) value = value << 8 | static_cast<std::uint32_t>(bytes[n]);
    return value;
}

std::uint32_t length_of(std::span<const std::byte> header, std::uint32_t max_bytes) {
    for (std::size_t n = 0; n < magic.size(); ++n)
        if (static_cast<char>(header[n]) != magic[n])
            throw Error(
                ErrorCode::io,
                "received bytes that are not a frame of this version of the stream protocol");
    // Else a longer length would be waited for, perhaps for ever.
    if (crc32c(header.first(checked_bytes)) != number_at(header.subspan(checked_bytes)))
        throw Error(ErrorCode::io, "the header of a frame arrived damaged");
    const std::uint32_t length = number_at(header.subspan(4));
    if (length > max_bytes)
        throw make_error(ErrorCode::io, "a frame has ", length, " bytes; at most ", max_bytes,
                         " are accepted");
    return length;
}

Value words_of(std::span<const std::byte> header, std::span<const std::byte> body) {
    if (crc32c(body) != number_at(header.subspan(8)))
        throw make_error(ErrorCode::io, "a frame of ", body.size(), " bytes arrived damaged");
    return Value::parse_record({reinterpret_cast<const char*>(body.data()), body.size()});
}

}  // namespace

std::string frame_of(std::string_view words) {
    std::string frame(magic);
    const auto add = [&frame](std::uint32_t value) {
        for (int n = 3; n >= 0; --n) frame += static_cast<char>(value >> 8 * n & 0xff);
    };
    add(static_cast<std::uint32_t>(words.size()));
    add(crc32c(bytes_of_text(words)));
    add(crc32c(bytes_of_text(frame)));
    frame += words;
    return frame;
}

Value read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline,
                 const Look& look) {
    std::array<std::byte, header_bytes> header;
    connection.read(header, deadline, look);
    std::vector<std::byte> body(length_of(header, max_bytes));
    connection.read(body, deadline, look);
    return words_of(header, body);
}

bool FrameLink::say(std::string_view words) {
    return unsent_.send(bytes_of_text(frame_of(words)));
}

std::vector<Value> FrameLink::receive(std::uint32_t max_bytes) {
    std::array<std::byte, frame_read_bytes> room;
    const auto come = connection_->receive(room);
    if (!come) return {};
    come_.insert(come_.end(), come->begin(), come->end());
    return take_frames(max_bytes);
}

std::vector<Value> FrameLink::take_frames(std::uint32_t max_bytes) {
    std::vector<Value> frames;
    std::span<const std::byte> rest = come_;
    std::size_t unfinished_bytes = 0;
    while (rest.size() >= header_bytes) {
        const std::size_t length = length_of(rest, max_bytes);
        if (rest.size() - header_bytes < length) {
            unfinished_bytes = header_bytes + length;
            break;
        }
        frames.push_back(words_of(rest, rest.subspan(header_bytes, length)));
        rest = rest.subspan(header_bytes + length);
    }
    if (come_.capacity() > frame_read_bytes && !frames.empty())
        come_ = std::vector<std::byte>(rest.begin(), rest.end());  // so much is rarely needed
    else
        come_.erase(come_.begin(), come_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    // Grown by doubling it would take up to three times as much.
    if (unfinished_bytes > come_.capacity()) come_.reserve(unfinished_bytes);
    if (come_.empty())
        begun_.reset();
    else if (!frames.empty() || !begun_)
        begun_ = Clock::now();
    return frames;
}

void FrameLink::finish(Clock::time_point deadline) {
    while (!unsent_.send_more() && Clock::now() <= deadline) {
        pollfd waiting{socket(), POLLOUT, 0};
        ::poll(&waiting, 1, 100);
    }
    connection_->end_sending();
}

ControlLink::ControlLink(std::shared_ptr<const Connection> connection)
    : link_(std::move(connection)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake_ >= 0 && may_keep(wake_)) return;
    if (wake_ >= 0) ::close(wake_);
    throw Error(ErrorCode::io, "cannot serve a connection: too many files are open");
}

ControlLink::~ControlLink() {
    ::close(wake_);
}

void ControlLink::say(std::string_view words) {
    if (!link_.say(words)) ::eventfd_write(wake_, 1);
}

/// How long the next bytes are waited for; -1 ms: for ever.
std::chrono::milliseconds ControlLink::patience() {
    using std::chrono::milliseconds;
    if (const auto begun = link_.begun()) {
        const auto end = *begun + milliseconds(frame_milliseconds.load());
        return std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(0));
    }
    return link_.unsent().is_empty() ? milliseconds(-1) : frames_stalled_time;
}

std::vector<Value> ControlLink::wait() {
    while (true) {
        const bool has_unsent = !link_.unsent().is_empty();
        std::array<pollfd, 2> waiting{
            pollfd{link_.socket(), static_cast<short>(has_unsent ? POLLIN | POLLOUT : POLLIN), 0},
            pollfd{wake_, POLLIN, 0}};
        const int found =
            ::poll(waiting.data(), waiting.size(), static_cast<int>(patience().count()));
        if (found == 0)
            throw Error(ErrorCode::timeout, "the other end of the connection sent nothing in time");
        if (found < 0 && errno != EINTR)
            throw Error(ErrorCode::peer_failed, "waiting for a connection failed");
        if (found < 0) continue;
        eventfd_t count = 0;
        if (waiting[1].revents != 0) ::eventfd_read(wake_, &count);
        if ((waiting[0].revents & POLLOUT) != 0) link_.unsent().send_more();
        std::vector<Value> frames = link_.receive(max_request_bytes);
        if (!frames.empty()) return frames;
    }
}

}  // namespace datamover::stream
