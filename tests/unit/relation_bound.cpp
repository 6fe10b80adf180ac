// SPDX-License-Identifier: BSD-3-Clause
// Bound copies: move the elements of the pairs, and the values that a relation caches are right and
// thread-safe.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "datamover/error.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

/// `n` distinct places of `places`, in any order.
Addresses distinct(Engine& random, std::int64_t n, std::int64_t places) {
    Addresses all(static_cast<std::size_t>(places));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(static_cast<std::size_t>(n));
    return all;
}

AddressBounds bytes(const std::vector<std::int32_t>& memory) {
    return {0, 4 * static_cast<std::int64_t>(memory.size())};
}

}  // namespace

TEST(RelationBound, MovesWhatPairsSayAgainAndAgain) {
    Engine random(51);
    for (int round = 0; round < 120; ++round) {
        constexpr std::int64_t places = 300;
        const std::int64_t n = between(random, 0, places);
        const Addresses source = distinct(random, n, places);
        const Addresses destination = distinct(random, n, places);
        const AddressRelation relation =
            AddressRelation::from_pairs(source, destination, 4, 4).encode(all_encodings[round % 6]);
        std::vector<std::int32_t> from(places);
        std::vector<std::int32_t> buffer(static_cast<std::size_t>(n));
        std::vector<std::int32_t> to(places, -1);
        const BoundCopy gather =
            relation.bind_gather(from.data(), bytes(from), buffer.data(), bytes(buffer));
        const BoundCopy scatter =
            relation.bind_scatter(buffer.data(), bytes(buffer), to.data(), bytes(to));
        std::vector<std::int32_t> at_once(places, -1);
        const BoundCopy copy =
            relation.bind(from.data(), bytes(from), at_once.data(), bytes(at_once));
        for (int again = 0; again < 3; ++again) {
            std::iota(from.begin(), from.end(), 1000 * again);
            std::vector<std::int32_t> expected(places, -1);
            for (std::size_t i = 0; i < source.size(); ++i)
                expected[static_cast<std::size_t>(destination[i])] =
                    from[static_cast<std::size_t>(source[i])];
            gather();
            for (std::size_t i = 0; i < source.size(); ++i)
                ASSERT_EQ(buffer[i], from[static_cast<std::size_t>(source[i])]);
            scatter();
            copy();
            EXPECT_EQ(to, expected);
            EXPECT_EQ(at_once, expected);
        }
    }
}

TEST(RelationBound, OutlivesTheRelation) {
    BoundCopy copy;
    std::vector<std::int32_t> from{4, 5, 6, 7, 8, 9};
    std::vector<std::int32_t> to(6);
    for (const Encoding e : all_encodings) {
        {
            const Addresses at{5, 0, 2};
            const Addresses packed{0, 1, 2};
            const AddressRelation relation =
                AddressRelation::from_pairs(at, packed, 4, 4).encode(e);
            copy = relation.bind(from.data(), bytes(from), to.data(), bytes(to));
        }
        std::fill(to.begin(), to.end(), 0);
        copy();
        EXPECT_EQ(to, (std::vector<std::int32_t>{9, 4, 6, 0, 0, 0}));
    }
    BoundCopy()();
}

TEST(RelationBound, RefusesWhatACopyRefuses) {
    const Addresses at{0, 3, 3};
    const Addresses packed{0, 1, 2};
    std::vector<std::int32_t> four(4);
    std::vector<std::int32_t> three(3);
    const AddressRelation into = AddressRelation::from_pairs(packed, at, 4, 4);
    EXPECT_THROW(into.bind(three.data(), bytes(three), four.data(), bytes(four)), Error);
    EXPECT_THROW(into.bind_scatter(three.data(), bytes(three), four.data(), bytes(four)), Error);
    ElementUpdate add;
    add.op = Op::add;
    add.source_type = add.destination_type = ScalarType::int32;
    EXPECT_NO_THROW(into.bind(three.data(), bytes(three), four.data(), bytes(four), add));
    const AddressRelation out = AddressRelation::from_pairs(at, packed, 4, 4);
    EXPECT_THROW(out.bind(three.data(), bytes(three), four.data(), bytes(four)), Error);
    EXPECT_THROW(out.bind_gather(four.data(), bytes(four), three.data(), {0, 11}), Error);
}

TEST(RelationMemory, HalvesOfMessagesAreTheRelationItself) {
    const Addresses at{7, 1, 4, 0, 2, 9};
    const Addresses packed{0, 1, 2, 3, 4, 5};
    for (const Encoding e : all_encodings) {
        const AddressRelation out = AddressRelation::from_pairs(at, packed, 8, 8).encode(e);
        EXPECT_TRUE(out.contiguous(Side::destination));
        EXPECT_FALSE(out.contiguous(Side::source));
        for (const AddressRelation& half : {out.half(Side::source), out.half(Side::source, 4)}) {
            Addresses s, d;
            half.to_pairs(s, d);
            const std::int64_t elem = half.destination_elem_bytes();
            for (std::size_t i = 0; i < at.size(); ++i) {
                EXPECT_EQ(s[i], 8 * at[i]);
                EXPECT_EQ(d[i], elem * static_cast<std::int64_t>(i));
            }
            EXPECT_EQ(half.encoding(), e);
        }
    }
}

TEST(RelationMemory, ThreadsFindTheSame) {
    Engine random(52);
    for (int round = 0; round < 30; ++round) {
        constexpr std::int64_t n = 500;
        const Addresses source = distinct(random, n, n);
        const Addresses destination = distinct(random, n, n);
        const AddressRelation relation =
            AddressRelation::from_pairs(source, destination, 4, 4).encode(all_encodings[round % 6]);
        std::vector<std::int32_t> from(n);
        std::iota(from.begin(), from.end(), 0);
        std::vector<std::vector<std::int32_t>> results(8, std::vector<std::int32_t>(n));
        std::vector<std::thread> threads;
        for (auto& result : results)
            threads.emplace_back([&] {
                std::vector<std::int32_t> buffer(n);
                relation.gather(from.data(), buffer.data());
                relation.scatter(buffer.data(), result.data());
                relation.copy(from.data(), result.data());
                if (relation.destinations_repeat()) result.clear();
                if (relation.bounds(Side::source).end_bytes != 4 * n) result.clear();
            });
        for (std::thread& t : threads) t.join();
        for (const auto& result : results)
            for (std::size_t i = 0; i < result.size(); ++i)
                ASSERT_EQ(result[static_cast<std::size_t>(destination[i])], source[i]);
    }
}

TEST(RelationChoice, CountsBytesOfSmallIrregularRelations) {
    Engine random(53);
    for (const std::int64_t n : {10, 30, 70, 200, 1000}) {
        const Addresses source = distinct(random, n, 4 * n);
        const Addresses destination = distinct(random, n, n);
        const AddressRelation chosen = AddressRelation::from_pairs(source, destination, 8, 8);
        EXPECT_EQ(chosen.encoding(), Encoding::offsets);
        for (const Encoding e : all_encodings)
            EXPECT_LE(chosen.nbytes(), chosen.encode(e).nbytes()) << encoding_name(e);
    }
    // Regular ones stay products, however small.
    for (const std::int64_t n : {1, 2, 9, 100, 5000}) {
        Addresses source(static_cast<std::size_t>(n));
        Addresses destination(static_cast<std::size_t>(n));
        for (std::int64_t i = 0; i < n; ++i) {
            source[static_cast<std::size_t>(i)] = 3 * i;
            destination[static_cast<std::size_t>(i)] = 7 * (n - i);
        }
        EXPECT_EQ(AddressRelation::from_pairs(source, destination, 8, 8).encoding(),
                  Encoding::product);
    }
}
