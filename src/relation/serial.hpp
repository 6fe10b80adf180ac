// SPDX-License-Identifier: BSD-3-Clause
// Words of a serialized relation, and their checks.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "encodings.hpp"

namespace datamover {

/// Word 0: magic and version; 1: encoding; 2, 3: element sizes; then what the encoding needs; the
/// last word is the checksum of all before it.
constexpr std::uint64_t serial_magic = 0x314C4552564F4D44;  // "DMOVREL1" in little-endian order

/// FNV-1a over the words' bytes, eight at a time.
std::uint64_t serial_checksum(std::span<const std::uint8_t> bytes);

/// Appends words.
class WordWriter {
public:
    void put(std::uint64_t word) { words_.push_back(word); }
    void put(std::int64_t word) { words_.push_back(static_cast<std::uint64_t>(word)); }
    void put_all(const std::vector<std::int64_t>& words) {
        for (const std::int64_t w : words) put(w);
    }
    std::vector<std::uint8_t> bytes() const;

private:
    std::vector<std::uint64_t> words_;
};

/// Reads words that may be anything; throws invalid_argument instead of reading past the end.
class WordReader {
public:
    explicit WordReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

    std::int64_t get();
    /// A number of items of `words` words each that can still follow.
    std::int64_t get_count(std::int64_t words_per_item);
    std::int64_t left() const { return static_cast<std::int64_t>(bytes_.size()) / 8; }

private:
    std::span<const std::uint8_t> bytes_;
};

/// Throws invalid_argument with `what`.
[[noreturn]] void refuse_serial(const char* what);

}  // namespace datamover
