// SPDX-License-Identifier: BSD-3-Clause
// Numbers in error messages: written in the usual notation.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "geometry/make_error.hpp"

namespace {

using datamover::concat;

TEST(MakeError, WholeNumbersHaveAllDigits) {
    EXPECT_EQ(concat("at ", std::numeric_limits<std::int64_t>::min(), '.'),
              "at -9223372036854775808.");
    EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
}

TEST(MakeError, FractionsHaveThoseThatCount) {
    EXPECT_EQ(concat(0.3, " s"), "0.3 s");
    EXPECT_EQ(concat(0.1 + 0.2), "0.3");
    EXPECT_EQ(concat(60.0), "60");
    EXPECT_EQ(concat(1e-7), "1e-07");
    EXPECT_EQ(concat(-1.5F), "-1.5");
    EXPECT_EQ(concat(std::numeric_limits<double>::quiet_NaN()), "nan");
}

}  // namespace
