// SPDX-License-Identifier: BSD-3-Clause
// Small JSON objects, the messages of control connections. The parser does not trust its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace datamover::stream {

/// A value of JSON. Of numbers only integers of 64 bits are kept.
class Json {
public:
    enum class Kind { null, boolean, integer, other_number, text, list, object };
    /// Of lists, objects and their members together: what JSON becomes takes more memory than its
    /// text.
    static constexpr std::size_t max_items = 1 << 16;
    static constexpr std::int64_t max_name_characters = 256;

    /// Throws io unless the text is one object, in UTF-8, of at most max_items.
    static Json parse_object(std::string_view text);

    Kind kind() const { return kind_; }
    std::int64_t integer() const { return integer_; }
    const std::string& text() const { return text_; }
    const std::vector<Json>& items() const { return items_; }
    bool is(std::string_view text) const { return kind_ == Kind::text && text_ == text; }
    bool is_true() const { return kind_ == Kind::boolean && integer_ == 1; }

    /// A member of an object; null for none.
    const Json* find(std::string_view key) const;
    /// A member that must be an integer within limits. Throws io.
    std::int64_t number(std::string_view key, std::int64_t least = 0,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
    /// A member that must be a text of so many characters at most, none of them for control. Throws
    /// io.
    const std::string& name(std::string_view key) const;
    /// Throws io unless this is such a text; `what` names it.
    const std::string& as_name(std::string_view what) const;
    /// A member that must be a list of so many items at most. Throws io.
    const std::vector<Json>& list(std::string_view key, std::size_t most) const;

private:
    friend class JsonReader;
    Kind kind_ = Kind::null;
    std::int64_t integer_ = 0;
    std::string text_;
    std::vector<std::string> keys_;  ///< of an object, as many as items
    std::vector<Json> items_;
};

/// A text as JSON writes it.
std::string json_text(std::string_view text);

/// An object, put together member by member.
class JsonObject {
public:
    JsonObject& add(std::string_view key, std::string_view text) {
        return add_json(key, json_text(text));
    }
    JsonObject& add(std::string_view key, std::int64_t number) {
        return add_json(key, std::to_string(number));
    }
    /// A value that is JSON already.
    JsonObject& add_json(std::string_view key, std::string_view value);
    std::string text() const { return "{" + members_ + "}"; }

private:
    std::string members_;
};

}  // namespace datamover::stream
