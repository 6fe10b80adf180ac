// SPDX-License-Identifier: BSD-3-Clause
// Parsing of an error that the other end of a stream reports.
#include "stream/said_error.hpp"

namespace datamover::stream {

std::string few_words(std::string words) {
    if (words.size() <= max_words) return words;
    std::size_t end = max_words;  // not within a character
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0) == 0x80) --end;
    words.resize(end);
    return words;
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

}  // namespace datamover::stream
