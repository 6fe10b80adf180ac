// SPDX-License-Identifier: BSD-3-Clause
// Size in bytes of a dtype in NumPy's notation.
#include "stream/array_type.hpp"

#include <charconv>

#include "datamover/error.hpp"
#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

constexpr int max_type_depth = 8;
constexpr std::int64_t utf32_bytes = 4;

[[noreturn]] void refuse(const std::string& why) {
    throw make_error(ErrorCode::io, "cannot read a dtype: ", why);
}

/// Such as "<f8", "|S16", "<U3" or "<M8[ns]".
std::int64_t bytes_of_word(const std::string& word) {
    constexpr std::string_view orders = "<>|=", kinds = "biufcmMSUV";
    const bool has_order = !word.empty() && orders.find(word[0]) != std::string_view::npos;
    const std::string_view rest = std::string_view(word).substr(has_order ? 1 : 0);
    if (rest.size() < 2 || kinds.find(rest[0]) == std::string_view::npos) refuse(word);
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), count);
    const bool has_unit = rest[0] == 'm' || rest[0] == 'M';
    const bool is_whole = end == rest.data() + rest.size() || (has_unit && *end == '[');
    if (error != std::errc() || !is_whole || count < 0 || count > max_elem_bytes) refuse(word);
    return rest[0] == 'U' ? utf32_bytes * count : count;
}

ArrayType read(const Json& words, int depth);

/// A name, a type and perhaps a shape.
ArrayType read_field(const Json& field, int depth) {
    const auto& parts = field.items();
    if (field.kind() != Json::Kind::list || parts.size() < 2 || parts.size() > 3)
        refuse("a field must be a name, a type and optionally a shape");
    std::string text;
    if (parts[0].kind() == Json::Kind::text) {
        text = json_text(parts[0].text());
    } else if (parts[0].kind() == Json::Kind::list && parts[0].items().size() == 2) {
        const auto& titled = parts[0].items();
        for (const Json& part : titled)
            if (part.kind() != Json::Kind::text) refuse("a name is not a string");
        text = "[" + json_text(titled[0].text()) + "," + json_text(titled[1].text()) + "]";
    } else {
        refuse("a name is not a string");
    }
    ArrayType type = read(parts[1], depth + 1);
    text += "," + type.text;
    if (parts.size() == 3) {
        std::string shape;
        if (parts[2].kind() != Json::Kind::list) refuse("a shape is not a list");
        for (const Json& extent : parts[2].items()) {
            if (extent.kind() != Json::Kind::integer || extent.integer() < 0 ||
                extent.integer() > max_elem_bytes)
                refuse("a shape is not a list of sizes");
            type.elem_bytes *= extent.integer();
            if (type.elem_bytes > max_elem_bytes) refuse("too many bytes");
            shape += concat(shape.empty() ? "" : ",", extent.integer());
        }
        text += ",[" + shape + "]";
    }
    type.text = "[" + text + "]";
    return type;
}

ArrayType read(const Json& words, int depth) {
    if (words.kind() == Json::Kind::text)
        return {json_text(words.text()), bytes_of_word(words.as_name("dtype"))};
    if (words.kind() != Json::Kind::list || depth > max_type_depth)
        refuse("it must be a string or a list of fields");
    ArrayType type;
    for (const Json& field : words.items()) {
        const ArrayType one = read_field(field, depth);
        type.text += (type.text.empty() ? "" : ",") + one.text;
        type.elem_bytes += one.elem_bytes;
        if (type.elem_bytes > max_elem_bytes) refuse("too many bytes");
    }
    type.text = "[" + type.text + "]";
    return type;
}

}  // namespace

ArrayType ArrayType::of_words(const Json& words) {
    ArrayType type = read(words, 0);
    if (type.elem_bytes < 1 || type.elem_bytes > max_elem_bytes)
        refuse(
            concat("elements of ", type.elem_bytes, " bytes; 1 to ", max_elem_bytes, " are read"));
    return type;
}

ArrayType ArrayType::of_text(std::string_view text) {
    return of_words(*Json::parse_object(concat("{\"dtype\":", text, "}")).find("dtype"));
}

}  // namespace datamover::stream
