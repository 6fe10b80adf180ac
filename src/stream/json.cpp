// SPDX-License-Identifier: BSD-3-Clause
// JSON parser for untrusted input: limited size, no duplicate names.
#include "stream/json.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

constexpr int max_json_depth = 32;

[[noreturn]] void refuse(const char* why) {
    throw Error(ErrorCode::io, why);
}

bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// The character that begins at `at`, which is moved behind it; throws io where there is none.
std::uint32_t take_character(std::string_view text, std::size_t& at) {
    const auto first = static_cast<unsigned char>(text[at++]);
    if (first < 0x80) return first;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    std::uint32_t character = first & (0x3f >> more);
    for (int n = 0; n < more; ++n) {
        if (at == text.size() || !is_continuation(text[at])) refuse("a frame is not UTF-8");
        character = character << 6 | (static_cast<unsigned char>(text[at++]) & 0x3f);
    }
    const bool is_surrogate = character >= 0xd800 && character < 0xe000;
    if (first < 0xc2 || first > 0xf4 || character < least[more] || character > 0x10ffff ||
        is_surrogate)
        refuse("a frame is not UTF-8");
    return character;
}

void put_character(std::string& text, std::uint32_t character) {
    if (character < 0x80) {
        text += static_cast<char>(character);
        return;
    }
    const int more = character >= 0x10000 ? 3 : character >= 0x800 ? 2 : 1;
    constexpr std::uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    text += static_cast<char>(lead[more] | character >> 6 * more);
    for (int n = more; n-- > 0;) text += static_cast<char>(0x80 | (character >> 6 * n & 0x3f));
}

}  // namespace

/// Reads one value from the beginning of a text.
class JsonReader {
public:
    explicit JsonReader(std::string_view text) : text_(text) {}

    Json whole() {
        Json value = read(0);
        skip_space();
        if (at_ != text_.size()) refuse("a frame is not JSON");
        return value;
    }

private:
    char peek() const {
        if (at_ == text_.size()) refuse("a frame is not JSON");
        return text_[at_];
    }
    bool take(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    void skip_space() {
        while (at_ < text_.size() &&
               std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos)
            ++at_;
    }

    Json read(int depth) {
        if (depth > max_json_depth) refuse("a frame has JSON that is nested too deeply");
        skip_space();
        Json value;
        const char c = peek();
        if (c == '{') {
            read_object(value, depth);
        } else if (c == '[') {
            read_list(value, depth);
        } else if (c == '"') {
            value.kind_ = Json::Kind::text;
            value.text_ = read_text();
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            read_number(value);
        } else {
            read_word(value);
        }
        return value;
    }

    void read_object(Json& value, int depth) {
        value.kind_ = Json::Kind::object;
        read_members('{', '}', [&] {
            if (peek() != '"') refuse("a frame is not JSON");
            std::string key = read_text();
            skip_space();
            if (!take(':')) refuse("a frame is not JSON");
            value.keys_.push_back(std::move(key));
            value.items_.push_back(read(depth + 1));
        });
    }

    void read_list(Json& value, int depth) {
        value.kind_ = Json::Kind::list;
        read_members('[', ']', [&] { value.items_.push_back(read(depth + 1)); });
    }

    template <class ReadMember>
    void read_members(char opening, char closing, const ReadMember& read_member) {
        take(opening);
        skip_space();
        if (take(closing)) return;
        while (true) {
            skip_space();
            read_member();
            skip_space();
            if (take(closing)) return;
            if (!take(',')) refuse("a frame is not JSON");
        }
    }

    std::string read_text() {
        std::string text;
        ++at_;
        while (!take('"')) {
            if (take('\\')) {
                read_escaped(text);
                continue;
            }
            if (static_cast<unsigned char>(peek()) < 0x20) refuse("a frame is not JSON");
            put_character(text, take_character(text_, at_));
        }
        return text;
    }

    void read_escaped(std::string& text) {
        constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
        const char c = peek();
        ++at_;
        if (const auto found = letters.find(c); found != std::string_view::npos) {
            text += meant[found];
            return;
        }
        if (c != 'u') refuse("a frame is not JSON");
        std::uint32_t character = read_hexadecimal();
        if (character >= 0xd800 && character < 0xdc00 && take('\\') && take('u')) {
            const std::uint32_t low = read_hexadecimal();
            if (low < 0xdc00 || low >= 0xe000) refuse("a frame has text that is not Unicode");
            character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
        }
        if (character >= 0xd800 && character < 0xe000)
            refuse("a frame has text that is not Unicode");
        put_character(text, character);
    }

    std::uint32_t read_hexadecimal() {
        std::uint32_t value = 0;
        const char* const begin = text_.data() + at_;
        if (text_.size() - at_ < 4 || std::from_chars(begin, begin + 4, value, 16).ptr != begin + 4)
            refuse("a frame is not JSON");
        at_ += 4;
        return value;
    }

    void read_number(Json& value) {
        const std::size_t begin = at_;
        while (at_ < text_.size() &&
               std::string_view("+-.eE0123456789").find(text_[at_]) != std::string_view::npos)
            ++at_;
        const std::string_view digits = text_.substr(begin, at_ - begin);
        const char* const end = digits.data() + digits.size();
        const auto found = std::from_chars(digits.data(), end, value.integer_);
        const bool is_integer = found.ec == std::errc() && found.ptr == end;
        value.kind_ = is_integer ? Json::Kind::integer : Json::Kind::other_number;
    }

    void read_word(Json& value) {
        for (const std::string_view word : {"null", "true", "false"}) {
            if (text_.substr(at_, word.size()) != word) continue;
            at_ += word.size();
            value.kind_ = word == "null" ? Json::Kind::null : Json::Kind::boolean;
            value.integer_ = word == "true";
            return;
        }
        refuse("a frame is not JSON");
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

Json Json::parse_object(std::string_view text) {
    const auto items =
        std::ranges::count_if(text, [](char c) { return c == '[' || c == '{' || c == ','; });
    if (static_cast<std::size_t>(items) > max_items)
        throw make_error(ErrorCode::io, "a frame has more than ", max_items, " items");
    Json value = JsonReader(text).whole();
    if (value.kind_ != Kind::object) refuse("a frame is not a JSON object");
    return value;
}

const Json* Json::find(std::string_view key) const {
    for (std::size_t n = keys_.size(); n-- > 0;)
        if (keys_[n] == key) return &items_[n];
    return nullptr;
}

std::int64_t Json::number(std::string_view key, std::int64_t least, std::int64_t most) const {
    const Json* const found = find(key);
    if (found == nullptr || found->kind_ != Kind::integer || found->integer_ < least ||
        found->integer_ > most)
        throw make_error(ErrorCode::io, "'", key, "' of a frame must be an integer from ", least,
                         " to ", most);
    return found->integer_;
}

const std::string& Json::name(std::string_view key) const {
    static const Json nothing;
    const Json* const found = find(key);
    return (found != nullptr ? *found : nothing).as_name(key);
}

const std::string& Json::as_name(std::string_view what) const {
    std::int64_t characters = 0;
    bool is_name = kind_ == Kind::text;
    for (std::size_t at = 0; at < text_.size(); ++characters) {
        const std::uint32_t character = take_character(text_, at);
        is_name = is_name && character >= 0x20 && (character < 0x7f || character >= 0xa0);
    }
    if (!is_name || characters > max_name_characters)
        throw make_error(ErrorCode::io, "'", what, "' of a frame must be a text of at most ",
                         max_name_characters, " characters");
    return text_;
}

const std::vector<Json>& Json::list(std::string_view key, std::size_t most) const {
    const Json* const found = find(key);
    if (found == nullptr || found->kind_ != Kind::list || found->items_.size() > most)
        throw make_error(ErrorCode::io, "'", key, "' of a frame must be a list of at most ", most,
                         " items");
    return found->items_;
}

std::string json_text(std::string_view text) {
    std::string written = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            written += '\\';
            written += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
            written += escaped;
        } else {
            written += c;
        }
    }
    return written + "\"";
}

JsonObject& JsonObject::add_json(std::string_view key, std::string_view value) {
    if (!members_.empty()) members_ += ',';
    members_ += json_text(key);
    members_ += ':';
    members_ += value;
    return *this;
}

}  // namespace datamover::stream
