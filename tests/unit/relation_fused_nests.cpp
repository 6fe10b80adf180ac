// SPDX-License-Identifier: BSD-3-Clause
// Fused loop nests: ghosts at both ends of a block's rows, from one neighbor or two, become one
// loop, and all elements arrive as with a plain loop.
#include <gtest/gtest.h>

#include "relation/product_builder.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

constexpr std::int64_t elem = 8;

/// Blocks of rows with ghosts at both ends, each somewhere in one piece of memory.
struct Blocks {
    std::int64_t rows, columns, width;
    Addresses at;  ///< where each begins, in bytes

    std::int64_t row_bytes() const { return (columns + 2 * width) * elem; }
    std::int64_t nbytes() const { return rows * row_bytes(); }
};

Blocks blocks_apart(Engine& random, std::int64_t blocks, bool evenly) {
    Blocks b{between(random, 1, 20), between(random, 3, 9), between(random, 1, 2), {}};
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < blocks; ++i) {
        b.at.push_back(next);
        next += b.nbytes() + (evenly ? 64 : between(random, 0, 50) * elem);
    }
    return b;
}

/// Rows of `width` elements that begin at these addresses.
Product face(const Blocks& b, std::int64_t source, std::int64_t destination) {
    const auto axis = [](std::int64_t n) {
        return std::make_shared<AxisTable>(AxisTable::interval(0, 0, n));
    };
    Product product{source, destination, {}};
    product.axes.push_back({axis(b.rows), b.row_bytes(), b.row_bytes()});
    product.axes.push_back({axis(b.width), elem, elem});
    return product;
}

/// The low and high ghosts of every block, from the blocks at these distances.
std::vector<Product> ghosts(const Blocks& b, std::int64_t low, std::int64_t high) {
    std::vector<Product> faces;
    const auto n = static_cast<std::int64_t>(b.at.size());
    for (std::int64_t i = 0; i < n; ++i) {
        const auto from = [&](std::int64_t k) { return b.at[static_cast<std::size_t>(k % n)]; };
        const std::int64_t to = b.at[static_cast<std::size_t>(i)];
        faces.push_back(face(b, from(i + low) + b.columns * elem, to));
        faces.push_back(
            face(b, from(i + high) + b.width * elem, to + (b.columns + b.width) * elem));
    }
    return faces;
}

std::int64_t fused(const std::vector<Product>& faces) {
    ProductBuilder builder({elem, elem});
    for (const Product& f : faces) builder.append(f);
    const auto product = with_fused_nests(*builder.finish());
    return product == nullptr ? 0 : static_cast<std::int64_t>(product->nests.size());
}

}  // namespace

TEST(RelationFusedNests, BothEndsOfTheRowsOfABlockAreOne) {
    Engine random(71);
    for (const std::int64_t blocks : {1, 2, 7, 100, 3000}) {
        const Blocks b = blocks_apart(random, blocks, true);
        std::vector<Product> faces = ghosts(b, 1, blocks + 2);
        std::shuffle(faces.begin(), faces.end(), random);
        if (b.rows == 1) continue;  // the ghosts are pieces then, not rows of them
        EXPECT_EQ(fused(faces), blocks) << b.rows << " " << b.columns << " " << b.width;
    }
}

TEST(RelationFusedNests, LoopsForEverNewDistancesAreNotMade) {
    Engine random(72);
    Blocks b{4, 5, 1, {}};
    for (std::int64_t i = 0; i < 3000; ++i)
        b.at.push_back((2 * i * i + i) * b.nbytes());  // no distance occurs twice
    EXPECT_EQ(fused(ghosts(b, 1, 2)), 0);
}

TEST(RelationFusedNests, GhostsOfBlocksAnywhere) {
    Engine random(73);
    for (int repeat = 0; repeat < 200; ++repeat) {
        const std::int64_t blocks = between(random, 1, 30);
        const Blocks b = blocks_apart(random, blocks, between(random, 0, 1) == 0);
        std::vector<Product> faces =
            ghosts(b, between(random, 0, blocks), between(random, 0, blocks));
        std::shuffle(faces.begin(), faces.end(), random);
        faces.resize(
            static_cast<std::size_t>(between(random, 1, static_cast<std::int64_t>(faces.size()))));
        const std::vector<char> source = random_bytes(random, b.at.back() + b.nbytes());
        std::vector<char> actual = random_bytes(random, b.at.back() + b.nbytes());
        std::vector<char> expected = actual, unpacked = actual;
        for (const Product& f : faces)
            for (std::int64_t row = 0; row < b.rows; ++row)
                std::memcpy(expected.data() + f.destination_offset_bytes + row * b.row_bytes(),
                            source.data() + f.source_offset_bytes + row * b.row_bytes(),
                            static_cast<std::size_t>(b.width * elem));
        const auto relation = AddressRelation::from_products(faces, elem, elem);
        relation.copy(source.data(), actual.data());
        EXPECT_TRUE(actual == expected) << relation.kernel().describe();
        std::vector<char> message(static_cast<std::size_t>(relation.size() * elem));
        relation.source_half().copy(source.data(), message.data());
        relation.destination_half().copy(message.data(), unpacked.data());
        EXPECT_TRUE(unpacked == expected);
    }
}
