// SPDX-License-Identifier: BSD-3-Clause
// Digests of texts, the same with every standard library: processes of different builds agree.
#pragma once

#include <cstdint>
#include <string_view>

#include "geometry/word_digest.hpp"

namespace datamover::geometry {

/// Never negative.
inline std::int64_t text_digest(std::string_view text) {
    WordDigest digest;
    for (const char c : text) digest.put(static_cast<unsigned char>(c));
    return digest.value();
}

}  // namespace datamover::geometry
