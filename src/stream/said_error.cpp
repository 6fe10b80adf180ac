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

Error said_error(const Json& said) {
    const std::string& name = said.name("code");
    ErrorCode code = ErrorCode::peer_failed;
    for (int c = 1; c <= static_cast<int>(ErrorCode::unsupported); ++c)
        if (name == error_code_name(static_cast<ErrorCode>(c))) code = static_cast<ErrorCode>(c);
    const Json* const words = said.find("words");
    return Error(code, few_words(words != nullptr ? words->text() : ""));
}

}  // namespace datamover::stream
