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

/// Reads a dictionary as Python writes it: of words, True, False and tuples of numbers.
class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    bool takes(std::string_view word) {
        skip_spaces();
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }
    void expect(std::string_view word) {
        if (!takes(word)) refuse(concat("is damaged: '", word, "' is missing"));
    }
    std::string word() {
        skip_spaces();
        const char quote = at_ < text_.size() ? text_[at_] : ' ';
        if (quote != '\'' && quote != '"') refuse("is damaged: a word is missing");
        const std::size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) refuse("is damaged: a word does not end");
        const std::string found(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return found;
    }
    bool truth() {
        if (takes("True")) return true;
        expect("False");
        return false;
    }
    Point tuple() {
        std::vector<std::int64_t> extents;
        expect("(");
        while (!takes(")")) {
            extents.push_back(number());
            if (!takes(",")) {
                expect(")");
                break;
            }
        }
        if (extents.size() > static_cast<std::size_t>(max_dims))
            throw make_error(ErrorCode::unsupported, "the array in the file has ", extents.size(),
                             " dimensions; at most 8 can be moved");
        return Point(std::span<const std::int64_t>(extents));
    }
    /// Passes over a list in brackets, of anything; false where there is none.
    bool skips_list() {
        if (!takes("[")) return false;
        for (int open = 1; open > 0; ++at_) {
            if (at_ >= text_.size()) refuse("is damaged: a list does not end");
            if (text_[at_] == '[') ++open;
            if (text_[at_] == ']') --open;
        }
        return true;
    }

private:
    std::int64_t number() {
        skip_spaces();
        std::int64_t value = 0;
        const char* const begin = text_.data() + at_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (error != std::errc() || value < 0) refuse("is damaged: no extent is where one belongs");
        at_ += static_cast<std::size_t>(end - begin);
        takes("L");  // of Python 2
        return value;
    }
    void skip_spaces() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

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
    Reader reader(
        std::string_view(bytes).substr(begin, static_cast<std::size_t>(header.bytes) - begin));
    bool has_descr = false, has_order = false, has_shape = false;
    reader.expect("{");
    while (!reader.takes("}")) {
        const std::string key = reader.word();
        reader.expect(":");
        if (key == "descr" && !std::exchange(has_descr, true)) {
            if (!reader.skips_list()) header.descr = reader.word();
        } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
            header.fortran_order = reader.truth();
        } else if (key == "shape" && !std::exchange(has_shape, true)) {
            header.shape = reader.tuple();
        } else {
            refuse("is damaged: it has the entry '" + key + "'");
        }
        if (!reader.takes(",")) {
            reader.expect("}");
            break;
        }
    }
    if (!has_descr || !has_order || !has_shape) refuse("is damaged: an entry is missing");
    return header;
}

}  // namespace datamover::io
