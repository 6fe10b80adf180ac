// SPDX-License-Identifier: BSD-3-Clause
// Digests of words and texts, which processes of different builds and standard libraries agree on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace datamover::geometry {

class WordDigest {
public:
    void put(std::int64_t word) {
        hash_ = (hash_ ^ static_cast<std::uint64_t>(word)) * 0x100000001B3;
        hash_ ^= hash_ >> 29;
    }
    /// The number of words, then the words.
    void put_all(std::span<const std::int64_t> words) {
        put(static_cast<std::int64_t>(words.size()));
        for (const std::int64_t word : words) put(word);
    }
    /// Never negative.
    std::int64_t value() const { return static_cast<std::int64_t>(hash_ >> 1); }

private:
    std::uint64_t hash_ = 0xCBF29CE484222325;
};

/// The digest of a text. Never negative.
inline std::int64_t text_digest(std::string_view text) {
    WordDigest digest;
    for (const char c : text) digest.put(static_cast<unsigned char>(c));
    return digest.value();
}

}  // namespace datamover::geometry
