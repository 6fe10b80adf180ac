// SPDX-License-Identifier: BSD-3-Clause
// Encoding of fields: a key is a byte for its length and its bytes; a value is a byte for its kind
// and a big-endian integer of 8 bytes, or of 4 for the length of the text or list that follows.
#include "stream/wire/fields.hpp"

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

constexpr char integer_tag = 'i', text_tag = 't', list_tag = 'l';
constexpr int max_list_depth = 4;

[[noreturn]] void refuse_record() {
    throw Error(ErrorCode::io, "received a control message that is malformed");
}

/// The character that begins at `at`, which is moved behind it; -1 if there is none.
std::int64_t take_character(std::string_view text, std::size_t& at) {
    const auto first = static_cast<unsigned char>(text[at++]);
    if (first < 0x80) return first;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    constexpr std::int64_t least[] = {0, 0x80, 0x800, 0x10000};
    std::int64_t character = first & (0x3f >> more);
    for (int n = 0; n < more; ++n) {
        if (at == text.size() || (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80) return -1;
        character = character << 6 | (static_cast<unsigned char>(text[at++]) & 0x3f);
    }
    const bool is_surrogate = character >= 0xd800 && character < 0xe000;
    const bool is_wrong = first < 0xc2 || first > 0xf4 || character < least[more];
    return is_wrong || character > 0x10ffff || is_surrogate ? -1 : character;
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
    std::size_t characters = 0;
    for (std::size_t at = 0; at < text.size(); ++characters) {
        const std::int64_t character = take_character(text, at);
        if (character < 0x20 || (character >= 0x7f && character < 0xa0)) return false;
    }
    return characters <= most_characters;
}

Value Value::parse_record(std::string_view bytes) {
    return FieldReader(bytes).record();
}

const Value* Value::find(std::string_view key) const {
    for (std::size_t n = keys_.size(); n-- > 0;)
        if (keys_[n] == key) return &items_[n];
    return nullptr;
}

std::int64_t Value::number(std::string_view key, std::int64_t least, std::int64_t most) const {
    return (has(key) ? *find(key) : Value()).as_number(key, least, most);
}

const std::string& Value::name(std::string_view key, std::size_t most_characters) const {
    static const Value nothing;
    return (has(key) ? *find(key) : nothing).as_name(key, most_characters);
}

const std::string& Value::bytes(std::string_view key) const {
    const Value* const found = find(key);
    if (found == nullptr || found->kind_ != Kind::text)
        throw make_error(ErrorCode::io, "'", key, "' of a control message must be a text");
    return found->text_;
}

const std::vector<Value>& Value::list(std::string_view key, std::size_t most) const {
    const Value* const found = find(key);
    if (found == nullptr || found->kind_ != Kind::list || found->items_.size() > most)
        throw make_error(ErrorCode::io, "'", key,
                         "' of a control message must be a list of at most ", most, " items");
    return found->items_;
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

}  // namespace datamover::stream
