// SPDX-License-Identifier: BSD-3-Clause
// Words of a serialized relation, and their checks.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace datamover {

/// Word 0: magic and version; 1: encoding; 2, 3: element sizes; then what the encoding needs; the
/// last word is the checksum of all before it.
constexpr std::uint64_t serial_magic = 0x314C4552564F4D44;  // "DMOVREL1" in little-endian order

/// FNV-1a over the words' bytes, eight at a time.
std::uint64_t serial_checksum(std::span<const std::uint8_t> bytes);

/// Appends words. The first holds magic and version, the last the checksum of all before it.
class WordWriter {
public:
    explicit WordWriter(std::uint64_t magic) : words_{magic} {}

    void put(std::uint64_t word) { words_.push_back(word); }
    void put(std::int64_t word) { words_.push_back(static_cast<std::uint64_t>(word)); }
    void put_all(const std::vector<std::int64_t>& words) {
        for (const std::int64_t w : words) put(w);
    }
    /// Adds the checksum, and gives the bytes.
    std::vector<std::uint8_t> finish();

protected:
    std::vector<std::uint64_t> words_;
};

/// Reads words that may be anything; throws invalid_argument instead of reading past the end.
class WordReader {
public:
    /// Throws when the bytes are cut off, changed, or begin with another magic. `refusal` begins
    /// the texts of errors.
    WordReader(std::span<const std::uint8_t> bytes, std::uint64_t magic, const char* refusal);

    std::int64_t get();
    /// A number of items of so many words each, or so many to a word, that can still follow.
    std::int64_t get_count(std::int64_t words_per_item, std::int64_t items_per_word = 1);
    std::int64_t left() const { return static_cast<std::int64_t>(bytes_.size()) / 8; }
    [[noreturn]] void refuse(const std::string& what) const;

private:
    std::span<const std::uint8_t> bytes_;
    const char* refusal_;
};

/// Throws invalid_argument with `what`.
[[noreturn]] void refuse_serial(const char* what);

}  // namespace datamover
