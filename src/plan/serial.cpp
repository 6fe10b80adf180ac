// SPDX-License-Identifier: BSD-3-Clause
// Serialization of plans to words, with validated reading.
#include "serial.hpp"

#include <algorithm>
#include <cstring>

#include "datamover/error.hpp"
#include "geometry/make_error.hpp"
#include "geometry/word_digest.hpp"
#include "relation/serial.hpp"

namespace datamover::plan {
namespace {

[[noreturn]] void refuse(const std::string& what) {
    throw make_error(ErrorCode::invalid_argument, "these bytes are no plan: ", what);
}

std::vector<std::uint8_t> bytes_of(const std::vector<std::uint64_t>& words) {
    std::vector<std::uint8_t> bytes(words.size() * 8);
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return bytes;
}

std::uint64_t word_at(std::span<const std::uint8_t> bytes, std::size_t begin) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + begin, 8);
    return word;
}

}  // namespace

void PlanWriter::put_all(std::span<const std::int64_t> words) {
    put(static_cast<std::int64_t>(words.size()));
    for (const std::int64_t word : words) put(word);
}

void PlanWriter::put(const Point& point) {
    put_all(point.to_vector());
}

void PlanWriter::put(const Region& region) {
    put(region.lo());
    put(region.hi());
}

void PlanWriter::put(const std::string& text) {
    put(static_cast<std::int64_t>(text.size()));
    for (std::size_t i = 0; i < text.size(); i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
        words_.push_back(word);
    }
}

std::vector<std::uint8_t> PlanWriter::finish() {
    words_.push_back(serial_checksum(bytes_of(words_)));
    return bytes_of(words_);
}

std::int64_t PlanWriter::digest() const {
    geometry::WordDigest digest;
    for (const std::uint64_t word : words_) digest.put(static_cast<std::int64_t>(word));
    return digest.value();
}

PlanReader::PlanReader(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < 16 || bytes.size() % 8 != 0) refuse("cut off");
    if (word_at(bytes, 0) != plan_magic) refuse("another format, version or byte order");
    const std::size_t end = bytes.size() - 8;
    if (word_at(bytes, end) != serial_checksum(bytes.first(end)))
        refuse("changed since they were written");
    bytes_ = bytes.subspan(8, end - 8);
}

std::int64_t PlanReader::get() {
    if (bytes_.empty()) refuse("cut off");
    const auto word = static_cast<std::int64_t>(word_at(bytes_, 0));
    bytes_ = bytes_.subspan(8);
    return word;
}

std::int64_t PlanReader::get(std::int64_t lowest, std::int64_t highest, const char* what) {
    const std::int64_t value = get();
    if (value < lowest || value > highest) refuse(concat(what, " of ", value));
    return value;
}

std::int64_t PlanReader::get_count(std::int64_t items_per_word) {
    const auto left = static_cast<std::int64_t>(bytes_.size() / 8) - 1;
    return get(0, std::max<std::int64_t>(left, 0) * items_per_word, "a list's length");
}

std::vector<std::int64_t> PlanReader::get_all() {
    std::vector<std::int64_t> words(static_cast<std::size_t>(get_count(1)));
    for (std::int64_t& word : words) word = get();
    return words;
}

Point PlanReader::get_point() {
    return Point(std::span<const std::int64_t>(get_all()));
}

Region PlanReader::get_region() {
    const Point lo = get_point();
    const Point hi = get_point();
    return lo.dims() == 0 && hi.dims() == 0 ? Region{} : Region(lo, hi);
}

std::string PlanReader::get_text() {
    std::string text(static_cast<std::size_t>(get_count(8)), ' ');
    for (std::size_t i = 0; i < text.size(); i += 8) {
        const std::int64_t word = get();
        std::memcpy(text.data() + i, &word, std::min<std::size_t>(8, text.size() - i));
    }
    // It may stand in the text of an error.
    if (std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; }))
        refuse("a text of other characters than ASCII's");
    return text;
}

void PlanReader::finish() const {
    if (!bytes_.empty()) refuse("more than a plan");
}

}  // namespace datamover::plan
