// SPDX-License-Identifier: BSD-3-Clause
// Non-temporal stores of pieces and packed rows: equal those of a plain loop at any alignment, and
// a relation of many pieces uses them.
#include <gtest/gtest.h>

#include "relation/copy_loops.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

/// Gives memory that begins at a line, or so many bytes behind it.
char* at_line(std::vector<char>& memory, std::int64_t shift) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    return memory.data() + (64 - at % 64) % 64 + shift;
}

}  // namespace

TEST(RelationStreamedPieces, EveryLevelShapeAndAlignment) {
    Engine random(61);
    for (int k = 0; k < 200; ++k) {
        LoopShape l{};
        l.bytes = k % 2 == 0 ? 64 * between(random, 1, 16) : between(random, 1, 1100);
        l.outer.count = between(random, 1, 5);
        l.inner.count = between(random, 1, 9);
        l.inner.stride.source = l.bytes + between(random, 0, 100);
        l.outer.stride.source = l.inner.count * l.inner.stride.source + between(random, 0, 100);
        const std::int64_t step = k % 2 == 0 ? 64 : between(random, 1, 64);
        l.inner.stride.destination = l.bytes + step * between(random, 0, 3);
        l.outer.stride.destination =
            l.inner.count * l.inner.stride.destination + step * between(random, 0, 3);
        const std::int64_t shift = between(random, 0, 1) * between(random, 1, 63);
        const std::vector<char> source =
            random_bytes(random, l.outer.count * l.outer.stride.source);
        const std::vector<char> before =
            random_bytes(random, l.outer.count * l.outer.stride.destination + 200);
        for (const CopyLoops* loops : usable_copy_loops()) {
            if (loops->pieces_streaming == nullptr) continue;
            std::vector<char> actual = before;
            loops->pieces_streaming(l, source.data(), at_line(actual, shift));
            std::vector<char> expected = before;
            copy_plainly(l, source.data(),
                         expected.data() + (at_line(actual, shift) - actual.data()));
            ASSERT_TRUE(actual == expected) << loops->level << ", case " << k;
        }
    }
}

TEST(RelationStreamedPieces, ManyByARelation) {
    Engine random(62);
    constexpr std::int64_t piece = 128, rows = 40, across = 8192;
    const auto axis = [](std::int64_t n) {
        return std::make_shared<AxisTable>(AxisTable::interval(0, 0, n));
    };
    Product product;  // packed at the source, every other piece of the destination
    product.axes.push_back({axis(rows), across * piece, across * 2 * piece});
    product.axes.push_back({axis(across), piece, 2 * piece});
    product.axes.push_back({axis(piece / 8), 8, 8});
    const AddressRelation relation = AddressRelation::from_products({product}, 8, 8);
    const std::vector<char> some = random_bytes(random, 4 * across * piece);
    std::vector<char> source, actual(static_cast<std::size_t>(rows * across * 2 * piece + 64));
    for (std::int64_t i = 0; i < rows / 4; ++i)
        source.insert(source.end(), some.begin(), some.end());
    char* to = at_line(actual, 0);
    relation.copy(source.data(), to);
    for (std::int64_t i = 0; i < rows * across; ++i) {
        ASSERT_EQ(std::memcmp(to + i * 2 * piece, source.data() + i * piece, piece), 0) << i;
        ASSERT_EQ(to[i * 2 * piece + piece], 0) << i;
    }
    const bool streams = copy_loops().pieces_streaming != nullptr;
    const std::string loops = relation.kernel().describe();
    EXPECT_EQ(loops.find("streamed pieces of 128 B") != std::string::npos, streams) << loops;
}

TEST(RelationStreamedRows, EveryLevelSizeStrideAndAlignment) {
    Engine random(63);
    for (int k = 0; k < 200; ++k) {
        LoopShape l{};
        l.bytes = std::int64_t{1} << between(random, 0, 4);
        l.outer.count = between(random, 1, 4);
        l.inner.count = between(random, 1, 700);
        l.inner.stride.source = l.bytes * between(random, 0, 5) + between(random, 0, 1);
        l.outer.stride.source = l.inner.count * l.inner.stride.source + between(random, 0, 100);
        l.inner.stride.destination = l.bytes;
        l.outer.stride.destination = l.inner.count * l.bytes + between(random, 0, 100);
        const std::int64_t shift = between(random, 0, 63);
        const std::vector<char> source =
            random_bytes(random, l.outer.count * l.outer.stride.source + l.inner.count * l.bytes);
        const std::vector<char> before =
            random_bytes(random, l.outer.count * l.outer.stride.destination + 200);
        for (const CopyLoops* loops : usable_copy_loops()) {
            const ShapeLoop loop = loops->rows_streaming[size_class(l.bytes)];
            if (loop == nullptr) continue;
            std::vector<char> actual = before;
            loop(l, source.data(), at_line(actual, shift));
            std::vector<char> expected = before;
            copy_plainly(l, source.data(),
                         expected.data() + (at_line(actual, shift) - actual.data()));
            ASSERT_TRUE(actual == expected) << loops->level << ", case " << k;
        }
    }
}

namespace {

/// Copies n elements between strides in elements, by a relation whose loops are `expected`.
void expect_long_row(std::int64_t n, std::int64_t from, std::int64_t to, const char* expected) {
    Product product;
    product.axes.push_back(
        {std::make_shared<AxisTable>(AxisTable::interval(0, 0, n)), 8 * from, 8 * to});
    const AddressRelation relation = AddressRelation::from_products({product}, 8, 8);
    std::vector<std::int64_t> source(static_cast<std::size_t>(n * from));
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::int64_t>(i) + 1;
    std::vector<std::int64_t> actual(static_cast<std::size_t>(n * to));
    relation.copy(source.data(), actual.data());
    for (std::int64_t i = 0; i < n * to; ++i)
        ASSERT_EQ(actual[static_cast<std::size_t>(i)], i % to == 0 ? i / to * from + 1 : 0) << i;
    const std::string loops = relation.kernel().describe();
    EXPECT_NE(loops.find(expected), std::string::npos) << loops;
}

}  // namespace

TEST(RelationStreamedRows, LongOnesByARelation) {
    const bool streams = copy_loops().rows_streaming[3] != nullptr;
    expect_long_row(600'003, 4, 1, streams ? "streamed rows" : "strided");
    expect_long_row(600'004, 1, 4, "several at once");
    expect_long_row(600'003, 1, 4, "strided 8 B");
}
