// SPDX-License-Identifier: BSD-3-Clause
// Writing and reading of frames without waiting for the other end, and of their fields: a key is a
// byte for its length and its bytes; a value is a byte for its kind and a big-endian integer of 8
// bytes, or of 4 for the length of the text or list that follows.
#include "stream/wire/frames.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <locale>
#include <span>

#include "geometry/make_error.hpp"
#include "stream/wire/crc32c.hpp"
#include "stream/wire/message_words.hpp"

namespace datamover::stream {
namespace {

constexpr char integer_tag = 'i', text_tag = 't', list_tag = 'l';
constexpr int max_list_depth = 4;

[[noreturn]] void refuse_record() {
    throw Error(ErrorCode::io, "received a control message that is malformed");
}

void put_number(std::string& bytes, std::uint64_t value, int count) {
    for (int n = count; n-- > 0;) bytes += static_cast<char>(value >> 8 * n & 0xff);
}

}  // namespace

/// Reads values from the beginning of bytes.
class FieldReader {
public:
    explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

    Value record() {
        Value record;
        record.text_ = rest_;
        while (!rest_.empty()) {
            record.keys_.emplace_back(take(number(1)));
            record.items_.push_back(value(0));
        }
        return record;
    }

private:
    std::string_view take(std::size_t count) {
        if (rest_.size() < count) refuse_record();
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }
    std::uint64_t number(std::size_t count) {
        std::uint64_t value = 0;
        for (const char byte : take(count)) value = value << 8 | static_cast<unsigned char>(byte);
        return value;
    }
    Value value(int depth) {
        if (++items_ > Value::max_items || depth > max_list_depth) refuse_record();
        Value value;
        switch (take(1).front()) {
            case integer_tag:
                value.kind_ = Value::Kind::integer;
                value.integer_ = static_cast<std::int64_t>(number(8));
                break;
            case text_tag:
                value.kind_ = Value::Kind::text;
                value.text_ = take(number(4));
                break;
            case list_tag:
                value.kind_ = Value::Kind::list;
                for (std::uint64_t left = number(4); left > 0; --left)
                    value.items_.push_back(this->value(depth + 1));
                break;
            default:
                refuse_record();
        }
        return value;
    }

    std::string_view rest_;
    std::size_t items_ = 0;
};

bool is_plain_text(std::string_view text, std::size_t most_characters) {
    if (text.size() / 4 > most_characters) return false;  // a character has at most 4 bytes
    using Facet = std::codecvt<char32_t, char8_t, std::mbstate_t>;
    const auto* const begin = reinterpret_cast<const char8_t*>(text.data());
    const auto* const end = begin + text.size();
    std::u32string characters(text.size(), U' ');
    std::mbstate_t state{};
    const char8_t* read = begin;
    char32_t* written = characters.data();
    const auto result = std::use_facet<Facet>(std::locale::classic())
                            .in(state, begin, end, read, written, written + text.size(), written);
    characters.resize(static_cast<std::size_t>(written - characters.data()));
    const auto is_wrong = [](char32_t one) {  // for control, or a surrogate
        return one < 0x20 || (one >= 0x7f && one < 0xa0) || (one >= 0xd800 && one < 0xe000);
    };
    return result == Facet::ok && read == end && characters.size() <= most_characters &&
           std::ranges::none_of(characters, is_wrong);
}

void check_array_name(const std::string& name) {
    constexpr std::size_t max_name_bytes = 256;
    if (name.empty() || name.size() > max_name_bytes)
        throw make_error(ErrorCode::invalid_argument, "the name of an array has ", name.size(),
                         " bytes; it must have 1 to ", max_name_bytes);
    if (!is_plain_text(name))
        throw Error(ErrorCode::invalid_argument,
                    "the name of an array must be UTF-8 text without control characters");
}

Value Value::parse_record(std::string_view bytes) {
    return FieldReader(bytes).record();
}

const Value* Value::find(std::string_view key) const {
    for (std::size_t n = keys_.size(); n-- > 0;)
        if (keys_[n] == key) return &items_[n];
    return nullptr;
}

const Value& Value::at(std::string_view key) const {
    static const Value nothing;
    return has(key) ? *find(key) : nothing;
}

const std::string& Value::bytes(std::string_view key) const {
    if (at(key).kind_ != Kind::text)
        throw make_error(ErrorCode::io, "'", key, "' of a control message must be a text");
    return at(key).text_;
}

const std::vector<Value>& Value::list(std::string_view key, std::size_t most) const {
    const Value& found = at(key);
    if (found.kind_ != Kind::list || found.items_.size() > most)
        throw make_error(ErrorCode::io, "'", key,
                         "' of a control message must be a list of at most ", most, " items");
    return found.items_;
}

const std::string& Value::as_name(std::string_view what, std::size_t most_characters) const {
    if (kind_ != Kind::text || !is_plain_text(text_, most_characters))
        throw make_error(ErrorCode::io, "'", what,
                         "' of a control message must be a text of at most ", most_characters,
                         " characters");
    return text_;
}

std::int64_t Value::as_number(std::string_view what, std::int64_t least, std::int64_t most) const {
    if (kind_ != Kind::integer || integer_ < least || integer_ > most)
        throw make_error(ErrorCode::io, "'", what,
                         "' of a control message must be an integer from ", least, " to ", most);
    return integer_;
}

void put_value(std::string& bytes, std::string_view text) {
    bytes += text_tag;
    put_number(bytes, text.size(), 4);
    bytes += text;
}

void put_value(std::string& bytes, std::int64_t number) {
    bytes += integer_tag;
    put_number(bytes, static_cast<std::uint64_t>(number), 8);
}

void put_value(std::string& bytes, const ValueList& list) {
    bytes += list_tag;
    put_number(bytes, list.count_, 4);
    bytes += list.items_;
}

std::string few_words(std::string words) {
    if (words.size() <= max_words) return words;
    std::size_t end = max_words;  // not within a character
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0) == 0x80) --end;
    words.resize(end);
    return words;
}

Record failed_words(const Error& error) {
    return Record()
        .add("type", "failed")
        .add("code", error_code_name(error.code()))
        .add("words", few_words(error.what()));
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

/// A consumer that takes no frames for so long has failed.
constexpr std::chrono::milliseconds frames_stalled_time{600'000};
/// What is read of frames at once.
constexpr std::size_t frame_read_bytes = 1 << 16;

std::span<const std::byte> bytes_of_text(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

FrameHeader header_of(std::span<const std::byte> words, std::uint32_t max_bytes) {
    // Else a longer length would be waited for, perhaps for ever.
    const FrameHeader header = FrameHeader::read(words.first<FrameHeader::size_bytes>());
    if (header.bytes > max_bytes)
        throw make_error(ErrorCode::io, "a frame has ", header.bytes, " bytes; at most ", max_bytes,
                         " are accepted");
    return header;
}

Value words_of(const FrameHeader& header, std::span<const std::byte> body) {
    if (crc32c(body) != header.checksum)
        throw make_error(ErrorCode::io, "a frame of ", body.size(), " bytes arrived damaged");
    return Value::parse_record({reinterpret_cast<const char*>(body.data()), body.size()});
}

}  // namespace

std::string frame_of(std::string_view words) {
    const auto header =
        FrameHeader{static_cast<std::uint32_t>(words.size()), crc32c(bytes_of_text(words))}.write();
    return std::string(reinterpret_cast<const char*>(header.data()), header.size()) += words;
}

void send_frame(const Connection& connection, const Record& words) {
    connection.send(bytes_of_text(frame_of(words.bytes())));
}

Value read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline,
                 const Look& look) {
    std::array<std::byte, FrameHeader::size_bytes> words;
    connection.read(words, deadline, look);
    const FrameHeader header = header_of(words, max_bytes);
    std::vector<std::byte> body(header.bytes);
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
    while (rest.size() >= FrameHeader::size_bytes) {
        const FrameHeader header = header_of(rest, max_bytes);
        const std::size_t frame_bytes = FrameHeader::size_bytes + header.bytes;
        if (rest.size() < frame_bytes) {
            unfinished_bytes = frame_bytes;
            break;
        }
        frames.push_back(words_of(header, rest.subspan(FrameHeader::size_bytes, header.bytes)));
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
    while (!unsent_.send_more() && wait_for(socket(), POLLOUT, deadline)) {
    }
    connection_->end_sending();
}

void ControlLink::say(std::string_view words) {
    if (!FrameLink::say(words)) wake_.set();
}

/// How long the next bytes are waited for; -1 ms: for ever.
std::chrono::milliseconds ControlLink::patience() {
    using std::chrono::milliseconds;
    if (const auto since = begun())
        return time_until(*since + milliseconds(frame_milliseconds.load()));
    return unsent().is_empty() ? milliseconds(-1) : frames_stalled_time;
}

std::vector<Value> ControlLink::wait() {
    while (true) {
        const bool has_unsent = !unsent().is_empty();
        std::array<pollfd, 2> waiting{
            pollfd{socket(), static_cast<short>(has_unsent ? POLLIN | POLLOUT : POLLIN), 0},
            pollfd{wake_.file(), POLLIN, 0}};
        const int found =
            ::poll(waiting.data(), waiting.size(), static_cast<int>(patience().count()));
        if (found == 0)
            throw Error(ErrorCode::timeout, "the other end of the connection sent nothing in time");
        if (found < 0 && errno != EINTR)
            throw Error(ErrorCode::peer_failed, "waiting for a connection failed");
        if (found < 0) continue;
        if (waiting[1].revents != 0) wake_.clear();
        if ((waiting[0].revents & POLLOUT) != 0) unsent().send_more();
        std::vector<Value> frames = receive(max_request_bytes);
        if (!frames.empty()) return frames;
    }
}

}  // namespace datamover::stream
