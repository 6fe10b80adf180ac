// SPDX-License-Identifier: BSD-3-Clause
// Dtype of an array's elements, in the notation of NumPy's file headers. The input is not trusted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stream/json.hpp"

namespace datamover::stream {

inline constexpr std::int64_t max_elem_bytes = 1 << 16;

struct ArrayType {
    std::string text;  ///< as JSON: a word such as "<f8", or a list of fields; always written alike
    std::int64_t elem_bytes = 0;

    /// Throws io where it is no such type, or its elements have none or too many bytes.
    static ArrayType of_words(const Json& words);
    /// Of JSON. Throws as of_words.
    static ArrayType of_text(std::string_view text);
};

}  // namespace datamover::stream
