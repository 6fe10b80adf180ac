// SPDX-License-Identifier: BSD-3-Clause
// Serialization of layouts and plans to words, with validated reading.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datamover/motion_plan.hpp"

namespace datamover::plan {

/// Word 0: magic and version; the last word is the checksum of all before it.
constexpr std::uint64_t plan_magic = 0x324E4C50564F4D44;  // "DMOVPLN2" in little-endian order

/// Appends words and what they are made of.
class PlanWriter {
public:
    void put(std::int64_t word) { words_.push_back(static_cast<std::uint64_t>(word)); }
    void put_all(std::span<const std::int64_t> words);  ///< their number, then they
    void put(const Point& point);
    void put(const Region& region);
    void put(const std::string& text);
    /// The bytes, with their checksum.
    std::vector<std::uint8_t> finish();
    /// A checksum of what was put, never negative.
    std::int64_t digest() const;

private:
    std::vector<std::uint64_t> words_{plan_magic};
};

/// Reads words that may be anything; throws invalid_argument instead of reading past the end.
class PlanReader {
public:
    /// Throws when the bytes are cut off, changed or of another format.
    explicit PlanReader(std::span<const std::uint8_t> bytes);

    std::int64_t get();
    /// A value that must lie in [lowest, highest].
    std::int64_t get(std::int64_t lowest, std::int64_t highest, const char* what);
    bool get_flag() { return get(0, 1, "a flag") == 1; }
    std::vector<std::int64_t> get_all();
    Point get_point();
    Region get_region();
    std::string get_text();
    /// Throws when anything is left.
    void finish() const;

private:
    std::int64_t get_count(std::int64_t items_per_word);
    std::span<const std::uint8_t> bytes_;
};

/// Digests of the source layout, the destination layout and each term of a plan, none negative.
/// Kept in the plan: O(1) at the second call for copies of one plan, from any thread.
const std::vector<std::int64_t>& plan_digests(const MotionPlan& plan);
/// All of them in one number, never negative: equal plans have equal ones, and different plans
/// almost surely different ones. As cheap.
std::int64_t plan_digest(const MotionPlan& plan);

}  // namespace datamover::plan
