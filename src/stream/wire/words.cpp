// SPDX-License-Identifier: BSD-3-Clause
// Texts and errors as words. What anybody has written is not trusted.
#include "stream/wire/words.hpp"

#include <algorithm>
#include <cstring>
#include <locale>

#include "geometry/make_error.hpp"

namespace datamover::stream {

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

namespace {

/// Cut between characters.
std::string few_words(std::string words) {
    std::size_t end = max_words;
    if (words.size() <= end) return words;
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0) == 0x80) --end;
    words.resize(end);
    return words;
}

}  // namespace

void Words::refuse() const {
    if (writer_ == Writer::same_end)
        throw Error(ErrorCode::mismatch, "another process of the stream makes another call");
    throw Error(ErrorCode::io, "received a control message that is malformed");
}

std::int64_t Words::within(std::int64_t number, std::int64_t least, std::int64_t most) const {
    if (number >= least && number <= most) return number;
    if (writer_ == Writer::same_end) refuse();
    throw make_error(ErrorCode::io, "received a control message with a value of ", number,
                     "; it must be ", least, " to ", most);
}

Words& Words::pass(std::string& text) {
    std::size_t bytes = text.size();
    pass(bytes);
    const std::size_t count = bytes / 8 + (bytes % 8 != 0);
    if (!reads_) numbers_.resize(numbers_.size() + count, 0);
    const std::size_t at = reads_ ? next(count) : numbers_.size() - count;
    if (reads_) text.resize(bytes);
    if (bytes == 0) return *this;
    if (reads_)
        std::memcpy(text.data(), numbers_.data() + at, bytes);
    else
        std::memcpy(numbers_.data() + at, text.data(), bytes);
    return *this;
}

Words& Words::pass_name(std::string& text, std::size_t most_characters) {
    pass(text);
    if (reads_ && !is_plain_text(text, most_characters)) refuse();
    return *this;
}

Words& Words::pass(Error& error) {
    auto code = static_cast<std::int64_t>(error.code());
    // Cut by the writer too: a longer frame would be refused, with all else that it has.
    std::string text = writer_ == Writer::anybody ? few_words(error.what()) : error.what();
    pass(code).pass(text);
    if (!reads_) return *this;
    const bool is_known = code >= 1 && code <= static_cast<std::int64_t>(ErrorCode::unsupported);
    if (writer_ == Writer::anybody) text = few_words(std::move(text));
    if (writer_ == Writer::anybody && !is_plain_text(text, max_words))
        std::erase_if(text, [](char c) { return c != '\n' && (c < 0x20 || c >= 0x7f); });
    error = Error(is_known ? static_cast<ErrorCode>(code) : ErrorCode::peer_failed, text);
    return *this;
}

Words& Words::pass(std::optional<Error>& error, bool is_needed) {
    bool is_there = error.has_value();
    pass(is_there, is_needed, 1);
    if (reads_) error.reset();
    if (!is_there) return *this;
    if (reads_) error.emplace(ErrorCode::peer_failed, "");
    return pass(*error);
}

}  // namespace datamover::stream
