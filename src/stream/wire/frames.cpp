// SPDX-License-Identifier: BSD-3-Clause
// Writing and reading of frames without waiting for the other end, and of their fields.
#include "stream/wire/frames.hpp"

#include <poll.h>

#include <array>
#include <cstring>

#include "geometry/make_error.hpp"
#include "stream/wire/headers.hpp"

namespace datamover::stream {
namespace {

constexpr std::int64_t max_port = 65535;
constexpr std::size_t frame_word_bytes = sizeof(std::int64_t);

/// A consumer that takes no frames for so long has failed.
constexpr std::chrono::milliseconds frames_stalled_time{600'000};
/// What is read of frames at once.
constexpr std::size_t frame_read_bytes = 1 << 16;

FrameHeader header_of(std::span<const std::byte> bytes, std::uint32_t max_bytes) {
    // Else a longer length would be waited for, perhaps for ever.
    const auto header = header_at<FrameHeader>(bytes);
    if (header.bytes > max_bytes)
        throw make_error(ErrorCode::io, "a frame has ", header.bytes, " bytes; at most ", max_bytes,
                         " are accepted");
    return header;
}

Frame frame_of(const FrameHeader& header, std::span<const std::byte> body, Frame::Type last) {
    if (memory::crc32c(body) != header.checksum)
        throw make_error(ErrorCode::io, "a frame of ", body.size(), " bytes arrived damaged");
    return Frame::read(body, last);
}

}  // namespace

void check_array_name(const std::string& name) {
    constexpr std::size_t max_name_bytes = 256;
    if (name.empty() || name.size() > max_name_bytes)
        throw make_error(ErrorCode::invalid_argument, "the name of an array has ", name.size(),
                         " bytes; it must have 1 to ", max_name_bytes);
    if (!is_plain_text(name))
        throw Error(ErrorCode::invalid_argument,
                    "the name of an array must be UTF-8 text without control characters");
}

Words& Frame::Sender::pass(Words& words) {
    return words.pass_name(host).pass(port, 1, max_port).pass_name(local_name);
}

Words& Frame::pass(Words& words) {
    words.pass(type, 0, static_cast<std::int64_t>(Type::failed));
    switch (type) {
        case Type::greeting:
            return words.pass(version);
        case Type::control:
            return words.pass_name(key).pass(nprocs, 1, max_processes).pass(rank, 0).pass(token);
        case Type::data:
            return words.pass_name(key).pass(rank, 0).pass(pathway, 0).pass(token);
        case Type::welcome:
            words.pass_name(key).pass(pathways, 1, max_pathways);
            words.pass(goes_ahead, 0, 1).pass(is_pressed, 0, 1).pass(tells_by_messages, 0, 1);
            return words.pass(senders, [&](Sender& one) { one.pass(words); }, max_processes);
        case Type::array:
            return array.pass(words);
        case Type::subscribe:
            words.pass(newest, 0, 1).pass(tells_by_messages, 0, 1);
            return words.pass(
                wanted,
                [&](WantedArray& one) { pass_layout(words.pass_name(one.name), one.layout); },
                max_array_number);
        case Type::credit:
            return words.pass(steps, 1);
        case Type::step:
            words.pass(place, 0).pass(number, 0).pass(dropped, 0);
            return words.pass(
                numbers, [&](std::uint32_t& one) { words.pass(one, 0, max_array_number); },
                max_array_number);
        case Type::done:
            return words.pass(place, 0);
        case Type::end:
            return words.pass(dropped, 0).pass(steps, 0);
        case Type::bye:
        case Type::failed:
            return words.pass(place, 0).pass(error, type == Type::failed);
        case Type::arrays:
        case Type::subscribed:
            break;
    }
    return words;
}

Frame Frame::read(std::span<const std::byte> body, Type last) {
    std::vector<std::int64_t> numbers(body.size() / frame_word_bytes);
    if (!numbers.empty())
        std::memcpy(numbers.data(), body.data(), numbers.size() * frame_word_bytes);
    const bool is_accepted = !numbers.empty() && numbers[0] <= static_cast<std::int64_t>(last);
    Words words(std::move(numbers), Words::Writer::anybody);
    if (!is_accepted || body.size() % frame_word_bytes != 0) words.refuse();
    Frame frame;
    frame.pass(words);
    words.require_end();
    return frame;
}

std::string Frame::bytes() {
    Words words(Words::Writer::anybody);
    pass(words);
    const auto body = std::as_bytes(std::span(words.numbers()));
    FrameHeader header;
    header.bytes = static_cast<std::uint32_t>(body.size());
    header.checksum = memory::crc32c(body);
    header = sealed(header);
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    return bytes.append(reinterpret_cast<const char*>(body.data()), body.size());
}

void send_frame(const Connection& connection, Frame frame) {
    const std::string bytes = frame.bytes();
    connection.send(std::as_bytes(std::span(bytes)));
}

Frame read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline,
                 const Look& look, Frame::Type last) {
    std::array<std::byte, sizeof(FrameHeader)> words;
    connection.read(words, deadline, look);
    const FrameHeader header = header_of(words, max_bytes);
    std::vector<std::byte> body(header.bytes);
    connection.read(body, deadline, look);
    return frame_of(header, body, last);
}

std::vector<Frame> FrameLink::receive(std::uint32_t max_bytes) {
    std::array<std::byte, frame_read_bytes> room;
    const auto come = connection_->receive(room);
    if (!come) return {};
    come_.insert(come_.end(), room.begin(), room.begin() + *come);
    std::vector<Frame> frames;
    std::span<const std::byte> rest = come_;
    std::size_t unfinished_bytes = 0;
    while (rest.size() >= sizeof(FrameHeader)) {
        const FrameHeader header = header_of(rest, max_bytes);
        const std::size_t frame_bytes = sizeof(FrameHeader) + header.bytes;
        if (rest.size() < frame_bytes) {
            unfinished_bytes = frame_bytes;
            break;
        }
        frames.push_back(
            frame_of(header, rest.subspan(sizeof(FrameHeader), header.bytes), Frame::Type::failed));
        rest = rest.subspan(frame_bytes);
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
    while (!send_more() && wait_for(socket(), POLLOUT, deadline)) {
    }
    connection_->end_sending();
}

void ControlLink::say(std::string_view frame) {
    if (!FrameLink::say(frame)) wake_.set();
}

std::vector<Frame> ControlLink::wait() {
    while (true) {
        const short events = has_unsent() ? POLLIN | POLLOUT : POLLIN;
        std::chrono::milliseconds patience(-1);  // for ever
        if (const auto since = begun())
            patience = time_until(*since + std::chrono::milliseconds(frame_milliseconds.load()));
        else if (events != POLLIN)
            patience = frames_stalled_time;
        const auto found = wake_.wait(socket(), events, patience);
        if (!found)
            throw Error(ErrorCode::timeout, "the other end of the connection sent nothing in time");
        if ((*found & POLLOUT) != 0) send_more();
        std::vector<Frame> frames = receive(max_request_bytes);
        if (!frames.empty()) return frames;
    }
}

}  // namespace datamover::stream
