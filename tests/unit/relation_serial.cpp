// SPDX-License-Identifier: BSD-3-Clause
// Serialized relations: equal the original when they are read, and damaged bytes are rejected.
#include <gtest/gtest.h>

#include "../fuzz/relation_bytes.cpp"
#include "relation_oracle.hpp"

using namespace relation_oracle;

namespace {

AddressRelation random_relation(Engine& random, int i) {
    const Case c = i % 2 ? random_product(random, 4, 8, 3, 500) : random_pairs(random, 8, 4, 100);
    return c.relation.encode(all_encodings[i % 6]);
}

}  // namespace

TEST(RelationSerial, ThereAndBackIsTheSame) {
    Engine random(31);
    for (int i = 0; i < 600; ++i) {
        const AddressRelation relation = random_relation(random, i);
        const std::vector<std::uint8_t> bytes = relation.to_bytes();
        const AddressRelation back = AddressRelation::from_bytes(bytes);
        Addresses s, d, s2, d2;
        relation.to_pairs(s, d);
        back.to_pairs(s2, d2);
        EXPECT_EQ(s, s2);
        EXPECT_EQ(d, d2);
        EXPECT_EQ(back.encoding(), relation.encoding());
        EXPECT_EQ(back.source_elem_bytes(), relation.source_elem_bytes());
        EXPECT_EQ(back.destination_elem_bytes(), relation.destination_elem_bytes());
        EXPECT_EQ(back.to_bytes(), bytes);
    }
}

TEST(RelationSerial, ChangedOrCutBytesAreRefused) {
    Engine random(32);
    for (int i = 0; i < 600; ++i) {
        std::vector<std::uint8_t> bytes = random_relation(random, i).to_bytes();
        if (i % 3 == 0)
            bytes.resize(static_cast<std::size_t>(
                between(random, 0, static_cast<std::int64_t>(bytes.size()) - 1)));
        else
            bytes[static_cast<std::size_t>(
                between(random, 0, static_cast<std::int64_t>(bytes.size()) - 1))] ^=
                static_cast<std::uint8_t>(between(random, 1, 255));
        EXPECT_THROW(AddressRelation::from_bytes(bytes), Error);
    }
}

TEST(RelationSerial, DamageBehindARightChecksumDoesNoHarm) {
    Engine random(33);
    for (int i = 0; i < 6000; ++i) {
        std::vector<std::uint8_t> bytes = random_relation(random, i).to_bytes();
        for (std::int64_t k = between(random, 1, 3); k > 0; --k) {
            const auto at = static_cast<std::size_t>(
                between(random, 0, static_cast<std::int64_t>(bytes.size()) / 8 - 1));
            std::int64_t word = 0;
            std::memcpy(&word, bytes.data() + 8 * at, 8);
            const std::int64_t kind = between(random, 0, 3);
            if (kind == 0) word = static_cast<std::int64_t>(random());
            if (kind == 1) word += between(random, -3, 3);
            if (kind == 2) word = -word;
            if (kind == 3) word = between(random, -2, 9);
            std::memcpy(bytes.data() + 8 * at, &word, 8);
        }
        EXPECT_EQ(LLVMFuzzerTestOneInput(bytes.data(), bytes.size() - 8), 0);
    }
}

TEST(RelationPieces, EitherSideAsAList) {
    Engine random(34);
    for (int i = 0; i < 200; ++i) {
        const Case c = i % 2 ? random_product(random, 4, 8, 3, 500) : random_pairs(random, 4, 8);
        char memory[1];
        std::size_t k = 0;
        for (const MemoryPiece& piece : c.relation.source_pieces(memory))
            for (std::size_t at = 0; at < piece.bytes; at += 4, ++k)
                ASSERT_EQ(static_cast<char*>(piece.data) + at, memory + c.source[k]);
        EXPECT_EQ(k, c.source.size());
        k = 0;
        for (const MemoryPiece& piece : c.relation.destination_pieces(memory))
            for (std::size_t at = 0; at < piece.bytes; at += 8, ++k)
                ASSERT_EQ(static_cast<char*>(piece.data) + at, memory + c.destination[k]);
        EXPECT_EQ(k, c.destination.size());
    }
}
