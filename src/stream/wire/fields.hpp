// SPDX-License-Identifier: BSD-3-Clause
// Fields: the contents of a control message, as named integers, texts and lists of these. The
// reader does not trust its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace datamover::stream {

/// Whether a text is UTF-8 of at most so many characters, none of them for control.
bool is_plain_text(std::string_view text, std::size_t most_characters = 256);

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
    const std::string& text() const { return text_; }
    const std::vector<Value>& items() const { return items_; }
    bool is(std::string_view text) const { return kind_ == Kind::text && text_ == text; }

    /// A field of a record; null if there is none.
    const Value* find(std::string_view key) const;
    bool has(std::string_view key) const { return find(key) != nullptr; }
    /// A field that must be an integer within limits. Throws io.
    std::int64_t number(std::string_view key, std::int64_t least = 0,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
    /// Whether there is a field that is not 0. Throws io if it is not an integer.
    bool flag(std::string_view key) const { return has(key) && number(key, 0, 1) != 0; }
    /// A field that must be a plain text. Throws io.
    const std::string& name(std::string_view key, std::size_t most_characters = 256) const;
    /// A field that must be a text, of any bytes. Throws io.
    const std::string& bytes(std::string_view key) const;
    /// A field that must be a list of at most so many items. Throws io.
    const std::vector<Value>& list(std::string_view key, std::size_t most) const;

    /// Throws io unless this is a plain text, an integer within limits; `what` names it.
    const std::string& as_name(std::string_view what, std::size_t most_characters = 256) const;
    std::int64_t as_number(std::string_view what, std::int64_t least, std::int64_t most) const;

private:
    friend class FieldReader;
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

}  // namespace datamover::stream
