// SPDX-License-Identifier: BSD-3-Clause
// Digests of texts: the same numbers on every machine and with every standard library.
#include "geometry/digest.hpp"

#include <gtest/gtest.h>

namespace datamover::geometry {
namespace {

TEST(TextDigest, IsTheSameEverywhere) {
    EXPECT_EQ(text_digest(""), 7347990519673328018);
    EXPECT_EQ(text_digest("a"), 6319093594834569076);
    EXPECT_EQ(text_digest("ab"), 1359785667115463899);
    EXPECT_EQ(text_digest("ba"), 1360092980611926676);
    EXPECT_EQ(text_digest("path=\"u.npy\""), 5831085292729205103);
    EXPECT_EQ(text_digest("\xc3\xa4"), 1470377845467003951);
}

}  // namespace
}  // namespace datamover::geometry
