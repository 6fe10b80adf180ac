// SPDX-License-Identifier: BSD-3-Clause
// Strided copies in tiles of every element size, shape and stride: equal a plain loop, at every
// instruction set level of this processor.
#include <gtest/gtest.h>

#include "relation/copy_loops.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

/// Rows outside or inside, gaps between elements, either side's axes in either direction.
LoopShape random_shape(Engine& random) {
    LoopShape l;
    l.bytes = std::int64_t{1} << between(random, 0, 4);
    l.outer.count = between(random, 1, 35);
    l.inner.count = between(random, 1, 35);
    const auto strides = [&](std::int64_t& outer, std::int64_t& inner) {
        const bool by_rows = between(random, 0, 1) == 0;
        const std::int64_t near = l.bytes * between(random, 1, 4);
        const std::int64_t far =
            near * (by_rows ? l.inner.count : l.outer.count) + between(random, 0, 9);
        outer = (by_rows ? far : near) * (between(random, 0, 1) * 2 - 1);
        inner = (by_rows ? near : far) * (between(random, 0, 1) * 2 - 1);
    };
    strides(l.outer.stride.source, l.inner.stride.source);
    strides(l.outer.stride.destination, l.inner.stride.destination);
    if (between(random, 0, 9) == 0) l.inner.stride.source = 0;
    return l;
}

void expect_copied(const LoopShape& l, ShapeLoop loop, const char* name, Engine& random) {
    constexpr std::int64_t origin = std::int64_t{1} << 18;
    const std::vector<char> source = random_bytes(random, 2 * origin);
    std::vector<char> expected = random_bytes(random, 2 * origin);
    std::vector<char> actual = expected;
    copy_plainly(l, source.data() + origin, expected.data() + origin);
    loop(l, source.data() + origin, actual.data() + origin);
    EXPECT_TRUE(actual == expected)
        << name << ": " << l.outer.count << " x " << l.inner.count << " of " << l.bytes
        << " B, from " << l.outer.stride.source << ", " << l.inner.stride.source << " to "
        << l.outer.stride.destination << ", " << l.inner.stride.destination;
}

}  // namespace

TEST(RelationTiles, EveryLevelSizeAndStride) {
    Engine random(53);
    for (int k = 0; k < 60; ++k) {
        const LoopShape l = random_shape(random);
        const int size = size_class(l.bytes);
        for (const CopyLoops* loops : usable_copy_loops()) {
            expect_copied(l, loops->tiles[size], loops->level, random);
            expect_copied(l, loops->low_tiles[size], loops->level, random);
        }
        if (HasFailure()) FAIL() << "case " << k;
    }
}

/// Both sides strided along different axes, over more than the second-level cache, by relations.
TEST(RelationTiles, LargeOnesByRelations) {
    Engine random(54);
    for (const std::int64_t elem : {2, 8}) {
        const std::int64_t ni = 301;
        const std::int64_t nj = 1203;
        const auto axis = [](std::int64_t n) {
            return std::make_shared<AxisTable>(AxisTable::interval(0, 0, n));
        };
        Product product;
        product.axes.push_back({axis(nj), 3 * ni * elem, 2 * elem});
        product.axes.push_back({axis(ni), 3 * elem, 2 * nj * elem});
        const AddressRelation relation = AddressRelation::from_products({product}, elem, elem);
        const std::vector<char> source = random_bytes(random, 3 * ni * nj * elem);
        std::vector<char> expected(static_cast<std::size_t>(2 * ni * nj * elem));
        std::vector<char> actual(expected.size());
        for (std::int64_t i = 0; i < ni; ++i)
            for (std::int64_t j = 0; j < nj; ++j)
                std::memcpy(expected.data() + 2 * (i * nj + j) * elem,
                            source.data() + 3 * (j * ni + i) * elem,
                            static_cast<std::size_t>(elem));
        relation.copy(source.data(), actual.data());
        EXPECT_TRUE(actual == expected) << relation.kernel().describe();
    }
}
