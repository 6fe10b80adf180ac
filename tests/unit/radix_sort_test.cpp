// SPDX-License-Identifier: BSD-3-Clause
// Sort digit by digit: any numbers, any lengths, and what is equal keeps its order.
#include "geometry/radix_sort.hpp"

#include <limits>

#include "layout_oracle.hpp"

namespace datamover::geometry {
namespace {

struct Record {
    std::int64_t key = 0, number = 0;
    bool operator==(const Record&) const = default;
};

TEST(RadixSort, IsAStableSort) {
    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t i = 0; i < layout_oracle::cases(60); ++i) {
        layout_oracle::Random random(layout_oracle::seed_of(i));
        const std::int64_t spread = std::int64_t{1} << random.integer(0, 61);
        std::vector<Record> records(static_cast<std::size_t>(random.integer(0, 5000)));
        for (std::int64_t number = 0; Record& r : records)
            r = {random.integer(-spread, spread), number++};
        if (!records.empty() && random.chance(30)) records.back().key = least;
        if (!records.empty() && random.chance(30)) records.front().key = most;
        std::vector<Record> expected = records;
        std::ranges::stable_sort(expected, {}, &Record::key);
        sort_by(std::span(records), &Record::key);
        EXPECT_EQ(records, expected);
    }
}

}  // namespace
}  // namespace datamover::geometry
