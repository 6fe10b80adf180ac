// SPDX-License-Identifier: BSD-3-Clause
// NumPy's .npy header: reading and writing.
#include "npy_header.hpp"

#include <bit>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"

namespace datamover::io {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
constexpr std::int64_t most_header_bytes = 1 << 20;

[[noreturn]] void refuse(const std::string& why) {
    throw make_error(ErrorCode::io, "NumPy's header ", why);
}

/// NumPy's letter for the kind of a scalar; V for what it has no word for.
char kind_of(ScalarType type) {
    if (type == ScalarType::opaque || type > ScalarType::float16) return 'V';
    if (type == ScalarType::boolean) return 'b';
    if (type <= ScalarType::int64) return 'i';
    if (type <= ScalarType::uint64) return 'u';
    return type == ScalarType::complex64 || type == ScalarType::complex128 ? 'c' : 'f';
}

/// Bytes of an element of a simple type; 0 where the word is another.
std::int64_t elem_bytes_of(const std::string& descr) {
    if (descr.size() < 3) return 0;
    std::int64_t bytes = 0;
    const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), bytes);
    if (error != std::errc() || end != descr.data() + descr.size() || bytes < 0) return 0;
    return descr[1] == 'U' ? 4 * bytes : bytes;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view spaces = " \n";
    const std::size_t begin = text.find_first_not_of(spaces);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

/// The keys and values of a dictionary as Python writes it: words, lists and tuples.
std::vector<std::string_view> entries_of(std::string_view text) {
    std::vector<std::string_view> found;
    text = trimmed(text);
    if (!text.starts_with('{')) refuse("is damaged: '{' is missing");
    int open = 0;  // brackets
    for (std::size_t at = 0, begin = 1; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '\'' || c == '"') at = text.find(c, at + 1);
        if (at == std::string_view::npos) break;
        open += c == '{' || c == '[' || c == '(' ? 1 : c == '}' || c == ']' || c == ')' ? -1 : 0;
        if (open != 0 && (open != 1 || (c != ':' && c != ','))) continue;
        const std::string_view entry = trimmed(text.substr(begin, at - begin));
        begin = at + 1;
        if (open != 0 || !entry.empty()) found.push_back(entry);
        const bool is_key = c == ':';
        if (is_key != (found.size() % 2 == 1)) refuse("is damaged: a key has no value");
        if (open == 0 && c != '}') refuse("is damaged: '}' is missing");
        if (open == 0) return found;
    }
    refuse("is damaged: it does not end");
}

std::string_view unquoted(std::string_view word) {
    const bool is_quoted = word.size() > 1 && word.front() == word.back() &&
                           (word.front() == '\'' || word.front() == '"');
    if (!is_quoted) refuse(concat("is damaged: ", word, " is not a quoted word"));
    return word.substr(1, word.size() - 2);
}

Point shape_of(std::string_view text) {
    if (!text.starts_with('(') || !text.ends_with(')')) refuse("is damaged: it has no shape");
    text = trimmed(text.substr(1, text.size() - 2));
    std::vector<std::int64_t> extents;
    while (!text.empty()) {
        std::int64_t extent = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
        if (error != std::errc() || extent < 0)
            refuse("is damaged: no extent is where one belongs");
        extents.push_back(extent);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        if (text.starts_with('L')) text.remove_prefix(1);  // of Python 2
        text = trimmed(text);
        if (!text.empty() && !text.starts_with(',')) refuse("is damaged: ',' is missing");
        text = trimmed(text.substr(text.empty() ? 0 : 1));
    }
    if (extents.size() > static_cast<std::size_t>(max_dims))
        throw make_error(ErrorCode::unsupported, "the array in the file has ", extents.size(),
                         " dimensions; at most 8 can be moved");
    return Point(std::span<const std::int64_t>(extents));
}

std::uint32_t byte_of(const std::string& bytes, std::size_t k) {
    return static_cast<unsigned char>(bytes[k]);
}

}  // namespace

std::string npy_descr(ScalarType type, std::int64_t elem_bytes) {
    const char kind = kind_of(type);
    const char order = elem_bytes == 1 || kind == 'V' ? '|' : native;
    return concat(std::string{order, kind}, elem_bytes);
}

ScalarType stored_type(const std::string& descr, ScalarType type, std::int64_t elem_bytes) {
    // Each converts to those behind it: what NumPy calls "same_kind".
    constexpr std::string_view kinds = "buifc";
    const bool is_named = kind_of(type) != 'V';
    const bool fits = elem_bytes_of(descr) == elem_bytes &&
                      (type == ScalarType::opaque || (!is_named && descr[1] == 'V'));
    if (fits) return type;
    if (is_named)
        for (int k = 1; k < scalar_type_count; ++k) {
            const auto found = static_cast<ScalarType>(k);
            if (kind_of(found) != 'V' && npy_descr(found, scalar_bytes(found)) == descr &&
                kinds.find(kind_of(found)) <= kinds.find(kind_of(type)))
                return found;
        }
    throw make_error(ErrorCode::wrong_type, "the file holds elements of type '",
                     descr.empty() ? "[...]" : descr, "', the array has ", elem_bytes, " bytes of ",
                     scalar_name(type));
}

std::string npy_header(const std::string& descr, const Point& shape) {
    std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
    for (int d = 0; d < shape.dims(); ++d)
        text += concat(shape[d], d + 1 < shape.dims() || d == 0 ? ", " : "");
    if (shape.dims() == 1) text.pop_back();
    text += "), }";
    // Magic, version 1.0, and the length of what follows in two bytes.
    constexpr std::size_t fixed = 10, granule = 64;
    const std::size_t bytes = (fixed + text.size() + 1 + granule - 1) / granule * granule;
    text.resize(bytes - fixed - 1, ' ');
    text += '\n';
    std::string header(magic);
    header += {1, 0, static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
    return header + text;
}

std::int64_t npy_header_bytes(const std::string& begin) {
    if (begin.size() < 12 || !begin.starts_with(magic)) refuse("is missing: this is no .npy file");
    const std::uint32_t version = byte_of(begin, 6);
    if (version < 1 || version > 3) refuse(concat("has version ", version));
    std::int64_t length = byte_of(begin, 8) + (byte_of(begin, 9) << 8);
    if (version > 1)
        length += (byte_of(begin, 10) << 16) + std::int64_t{byte_of(begin, 11)} * (1 << 24);
    const std::int64_t bytes = (version == 1 ? 10 : 12) + length;
    if (length < 2 || bytes > most_header_bytes) refuse("has an impossible length");
    return bytes;
}

NpyHeader parsed_npy_header(const std::string& bytes) {
    NpyHeader header;
    header.bytes = npy_header_bytes(bytes);
    if (static_cast<std::int64_t>(bytes.size()) < header.bytes) refuse("is cut off");
    const std::size_t begin = byte_of(bytes, 6) == 1 ? 10 : 12;
    const auto text =
        std::string_view(bytes).substr(begin, static_cast<std::size_t>(header.bytes) - begin);
    bool has_descr = false, has_order = false, has_shape = false;
    const std::vector<std::string_view> entries = entries_of(text);
    for (std::size_t k = 0; k < entries.size(); k += 2) {
        const std::string_view key = unquoted(entries[k]), value = entries[k + 1];
        if (key == "descr" && !std::exchange(has_descr, true)) {
            if (!value.starts_with('[')) header.descr = unquoted(value);
        } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
            header.fortran_order = value == "True";
            if (value != "True" && value != "False") refuse("is damaged: it has no order");
        } else if (key == "shape" && !std::exchange(has_shape, true)) {
            header.shape = shape_of(value);
        } else {
            refuse(concat("is damaged: it has the entry '", key, "'"));
        }
    }
    if (!has_descr || !has_order || !has_shape) refuse("is damaged: an entry is missing");
    return header;
}

}  // namespace datamover::io
