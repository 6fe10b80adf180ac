// SPDX-License-Identifier: BSD-3-Clause
// Frames: control messages on a connection, and their fields. A frame begins with a header that
// contains its length, its CRC32C and the header's own CRC32C. The fields are named integers, texts
// and lists of these. The readers do not trust their input.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "stream/wire/connection.hpp"

namespace datamover::stream {

/// Whether a text is UTF-8 of at most so many characters, none of them for control.
bool is_plain_text(std::string_view text, std::size_t most_characters = 256);

/// Throws invalid_argument unless a frame can say the name of an array, and whoever reads it takes
/// it.
void check_array_name(const std::string& name);

/// A value that was received.
class Value {
public:
    enum class Kind { record, integer, text, list };
    /// Of records and lists together: a value takes more memory than its bytes.
    static constexpr std::size_t max_items = 1 << 16;

    /// Throws io unless the bytes are a record of at most max_items.
    static Value parse_record(std::string_view bytes);

    Kind kind() const { return kind_; }
    std::int64_t integer() const { return integer_; }
    /// Of a record the bytes that it was parsed from.
    const std::string& text() const { return text_; }
    const std::vector<Value>& items() const { return items_; }
    bool is(std::string_view text) const { return kind_ == Kind::text && text_ == text; }

    /// A field of a record; null if there is none.
    const Value* find(std::string_view key) const;
    /// Whether a record has a field that is a text: this one.
    bool is(std::string_view key, std::string_view text) const {
        return has(key) && find(key)->is(text);
    }
    bool has(std::string_view key) const { return find(key) != nullptr; }
    /// A field that must be an integer within limits. Throws io.
    std::int64_t number(std::string_view key, std::int64_t least = 0,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
        return at(key).as_number(key, least, most);
    }
    /// Whether there is a field that is not 0. Throws io if it is not an integer.
    bool flag(std::string_view key) const { return has(key) && number(key, 0, 1) != 0; }
    /// A field that must be a plain text. Throws io.
    const std::string& name(std::string_view key, std::size_t most_characters = 256) const {
        return at(key).as_name(key, most_characters);
    }
    /// A field that must be a text, of any bytes. Throws io.
    const std::string& bytes(std::string_view key) const;
    /// A field that must be a list of at most so many items. Throws io.
    const std::vector<Value>& list(std::string_view key, std::size_t most) const;

    /// Throws io unless this is a plain text, an integer within limits; `what` names it.
    const std::string& as_name(std::string_view what, std::size_t most_characters = 256) const;
    std::int64_t as_number(std::string_view what, std::int64_t least, std::int64_t most) const;

private:
    friend class FieldReader;
    const Value& at(std::string_view key) const;  ///< a record where there is none

    Kind kind_ = Kind::record;
    std::int64_t integer_ = 0;
    std::string text_;
    std::vector<std::string> keys_;  ///< of a record, as many as items
    std::vector<Value> items_;
};

class ValueList;

/// Appends a value as parse_record reads it.
void put_value(std::string& bytes, std::string_view text);
void put_value(std::string& bytes, std::int64_t number);
void put_value(std::string& bytes, const ValueList& list);

/// A list, put together item by item.
class ValueList {
public:
    template <class Item>
    ValueList& add(const Item& item) {
        put_value(items_, item);
        ++count_;
        return *this;
    }

private:
    friend void put_value(std::string& bytes, const ValueList& list);
    std::string items_;
    std::uint32_t count_ = 0;
};

/// A record, put together field by field. If a key is added twice, the last field counts.
class Record {
public:
    template <class Item>
    Record& add(std::string_view key, const Item& item) {
        bytes_ += static_cast<char>(key.size());
        bytes_ += key;
        put_value(bytes_, item);
        return *this;
    }
    /// What parse_record reads.
    const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

/// Most bytes of an error's words that are said, and read.
inline constexpr std::size_t max_words = 2000;

/// Words that are not too long, cut between characters.
std::string few_words(std::string words);
/// An error as a frame says it, and as it is read there: peer_failed where the code is none that is
/// known. Throws io.
Record failed_words(const Error& error);
Error said_error(const Value& said);

/// What both ends say first.
inline constexpr int protocol_version = 10;
/// Of a frame from somebody who has not said yet who they are, from a consumer, and from a stream,
/// which may describe long lists of indices.
inline constexpr std::uint32_t max_greeting_bytes = 1 << 14, max_request_bytes = 1 << 22,
                               max_frame_bytes = 1 << 24;

/// A frame with these words.
std::string frame_of(std::string_view words);
/// Sends a frame with these words; waits. Throws as Connection::send.
void send_frame(const Connection& connection, const Record& words);
/// Reads one frame, and nothing after it; `look` is called now and then meanwhile. Throws io where
/// what came is no frame, is too long or was damaged; peer_failed; timeout; what `look` throws.
Value read_frame(const Connection& connection, std::uint32_t max_bytes, Clock::time_point deadline,
                 const Look& look = {});

/// A connection over which frames go both ways. One thread reads, anybody sends. Nothing waits.
class FrameLink {
public:
    explicit FrameLink(std::shared_ptr<const Connection> connection)
        : connection_(std::move(connection)), unsent_(*connection_) {}

    /// Sends a frame. Where the connection has ended, whoever reads learns of it, not the caller.
    /// Whether the system took it all.
    bool say(std::string_view words);
    /// The frames that have come. Throws as read_frame, but for timeout.
    std::vector<Value> receive(std::uint32_t max_bytes);
    /// When the frame began to come that is not complete yet.
    std::optional<Clock::time_point> begun() const { return begun_; }
    /// Waits until all has been handed to the system, or the deadline; no more is sent.
    void finish(Clock::time_point deadline = Clock::now() + std::chrono::seconds(5));
    /// Ends the connection; what the system has taken still arrives.
    void end() const { connection_->end(); }
    int socket() const { return connection_->socket(); }
    Unsent& unsent() { return unsent_; }

private:
    std::vector<Value> take_frames(std::uint32_t max_bytes);

    const std::shared_ptr<const Connection> connection_;
    Unsent unsent_;
    std::vector<std::byte> come_;
    std::optional<Clock::time_point> begun_;
};

/// A frame of a consumer is complete within this time after its first byte. Changed by tests alone.
inline std::atomic<int> frame_milliseconds{30'000};

/// Such a connection with a thread that waits for what comes, at whose end the consumers are. What
/// the system does not take at once is left to that thread.
class ControlLink : public FrameLink {
public:
    /// Throws io where the system has no event for it.
    explicit ControlLink(std::shared_ptr<const Connection> connection)
        : FrameLink(std::move(connection)), wake_(true) {}

    /// As FrameLink::say.
    void say(std::string_view words);
    /// Waits for at least one frame of a consumer, as long as it takes; one that has begun must be
    /// complete in time. Throws as read_frame.
    std::vector<Value> wait();

private:
    std::chrono::milliseconds patience();

    const Event wake_;
};

}  // namespace datamover::stream
