// SPDX-License-Identifier: BSD-3-Clause
// Serialization of layouts and plans to words, with validated reading.
#pragma once

#include <concepts>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "relation/serial.hpp"

namespace datamover::plan {

/// Word 0: magic and version; the last word is the checksum of all before it.
constexpr std::uint64_t plan_magic = 0x344E4C50564F4D44;  // "DMOVPLN4" in little-endian order

/// Appends words and what they are made of.
class PlanWriter : public WordWriter {
public:
    PlanWriter() : WordWriter(plan_magic) {}

    using WordWriter::put;
    void put(std::same_as<bool> auto flag) { put(std::int64_t{flag}); }
    /// Their number, then they, a word each; also of axes, flags, and the characters of a text.
    template <std::ranges::range Values>
    void put(const Values& values) {
        put(static_cast<std::int64_t>(values.size()));
        for (const auto value : values) put(static_cast<std::int64_t>(value));
    }
    void put(const Point& point) { put(point.to_vector()); }
    void put(const Region& region) { put_each(region.lo(), region.hi()); }
    template <class... Values>
    void put_each(const Values&... values) {
        (put(values), ...);
    }
    /// A checksum of what was put, never negative.
    std::int64_t digest() const;
};

/// Reads words that may be anything; throws invalid_argument instead of reading past the end.
class PlanReader : public WordReader {
public:
    explicit PlanReader(std::span<const std::uint8_t> bytes)
        : WordReader(bytes, plan_magic, "these bytes are no plan: ") {}

    using WordReader::get;
    /// A value that must lie in [lowest, highest].
    std::int64_t get(std::int64_t lowest, std::int64_t highest, const char* what);
    bool get_flag() { return get(0, 1, "a flag") == 1; }
    std::vector<std::int64_t> get_all();
    Point get_point();
    Region get_region();
    std::string get_text();

    void read(std::int64_t& value) { value = get(); }
    void read(bool& flag) { flag = get_flag(); }
    void read(Point& point) { point = get_point(); }
    void read(Region& region) { region = get_region(); }
    template <class Value>
    void read(std::vector<Value>& values) {
        for (const std::int64_t word : get_all()) {
            values.push_back(static_cast<Value>(word));
            if (values.back() != word) refuse(concat("an axis or a flag of ", word));
        }
    }
};

/// Digests of the source layout, the destination layout and each term of a plan, none negative:
/// equal plans have equal ones, and different plans almost surely different ones. Kept in the plan:
/// O(1) at the second call for copies of one plan, from any thread.
const std::vector<std::int64_t>& plan_digests(const MotionPlan& plan);

}  // namespace datamover::plan
