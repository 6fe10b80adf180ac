// SPDX-License-Identifier: BSD-3-Clause
// put and get: move the same elements as a copy, and reject repeats and addresses outside the
// memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "datamover/advanced/relation_messages.hpp"
#include "datamover/error.hpp"

namespace datamover {
namespace {

constexpr std::int64_t places = 50;

std::vector<std::int64_t> drawn(std::mt19937& random, std::size_t n) {
    std::vector<std::int64_t> at(n);
    for (std::int64_t& a : at)
        a = std::uniform_int_distribution<std::int64_t>(0, places - 1)(random);
    return at;
}

ErrorCode code_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& e) {
        return e.code();
    }
    return ErrorCode{};
}

TEST(RelationMessages, CarryWhatACopyCarries) {
    std::mt19937 random(5);
    std::vector<std::int32_t> memory(places);
    std::iota(memory.begin(), memory.end(), 100);
    for (std::size_t n = 0; n < 40; ++n) {
        std::vector<std::int64_t> destination(places);
        std::iota(destination.begin(), destination.end(), 0);
        std::shuffle(destination.begin(), destination.end(), random);
        destination.resize(n);
        const std::vector<std::int64_t> source = drawn(random, n);
        std::vector<std::int32_t> expected(places);
        for (std::size_t i = 0; i < n; ++i)
            expected[static_cast<std::size_t>(destination[i])] =
                memory[static_cast<std::size_t>(source[i])];
        const AddressRelation relation = AddressRelation::from_pairs(source, destination, 4, 4);
        std::vector<std::int32_t> put(places);
        accept_put(put_message(relation, memory.data()), put.data(), {0, 4 * places});
        EXPECT_EQ(put, expected);
        std::vector<std::int32_t> got(places);
        relation.scatter(answer_get(get_request(relation), memory.data(), {0, 4 * places}).data(),
                         got.data());
        EXPECT_EQ(got, expected);
    }
}

TEST(RelationMessages, AreRefusedOutsideTheMemory) {
    const std::vector<std::int64_t> at{3, 1, 7};
    const AddressRelation relation = AddressRelation::from_pairs(at, at, 4, 4);
    const std::vector<std::int32_t> memory(8, 1);
    std::vector<std::int32_t> to(8);
    const std::vector<std::uint8_t> message = put_message(relation, memory.data());
    for (const AddressBounds& bounds : {AddressBounds{0, 31}, AddressBounds{5, 32}}) {
        EXPECT_EQ(code_of([&] { accept_put(message, to.data(), bounds); }),
                  ErrorCode::out_of_range);
        EXPECT_EQ(code_of([&] { answer_get(get_request(relation), memory.data(), bounds); }),
                  ErrorCode::out_of_range);
    }
    EXPECT_EQ(to, std::vector<std::int32_t>(8));
    for (std::size_t length = 0; length < message.size(); ++length)
        EXPECT_EQ(
            code_of([&] { accept_put(std::span(message).first(length), to.data(), {0, 32}); }),
            ErrorCode::invalid_argument);
    // A request that names its elements in another order than a message has them.
    EXPECT_EQ(code_of([&] { answer_get(relation.to_bytes(), memory.data(), {0, 32}); }),
              ErrorCode::invalid_argument);
}

TEST(RelationRepeats, AreFoundInEveryEncoding) {
    std::mt19937 random(6);
    for (int round = 0; round < 200; ++round) {
        const std::size_t n = std::uniform_int_distribution<std::size_t>(0, 9)(random);
        const std::vector<std::int64_t> destination = drawn(random, n);
        const bool repeats =
            std::set<std::int64_t>(destination.begin(), destination.end()).size() < n;
        const AddressRelation relation =
            AddressRelation::from_pairs(drawn(random, n), destination, 2, 2);
        for (const Encoding e : {Encoding::pairs, Encoding::blocks, Encoding::runs,
                                 Encoding::dictionary, Encoding::product, Encoding::offsets}) {
            // Read anew, so that nothing is known from before.
            const AddressRelation again =
                AddressRelation::from_bytes(relation.encode(e).to_bytes());
            EXPECT_EQ(again.destinations_repeat(), repeats);
        }
    }
}

TEST(RelationRepeats, OfLargeListsAreFound) {
    std::mt19937_64 random(7);
    constexpr std::size_t n = 100'000;
    std::vector<std::int64_t> source(n);
    std::iota(source.begin(), source.end(), 0);
    for (const std::int64_t gap : {1, 3, 1000}) {
        std::vector<std::int64_t> destination(n);
        for (std::size_t i = 0; i < n; ++i) destination[i] = static_cast<std::int64_t>(i) * gap;
        std::shuffle(destination.begin(), destination.end(), random);
        EXPECT_FALSE(AddressRelation::from_pairs(source, destination, 8, 8).destinations_repeat());
        destination[n / 3] = destination[n / 2];
        EXPECT_TRUE(AddressRelation::from_pairs(source, destination, 8, 8).destinations_repeat());
    }
}

TEST(RelationOrder, SortsLargeListsStably) {
    std::mt19937_64 random(8);
    constexpr std::size_t n = 50'000;
    std::vector<std::pair<std::int64_t, std::int64_t>> expected(n);
    std::vector<std::int64_t> source(n);
    std::vector<std::int64_t> destination(n);
    for (std::size_t i = 0; i < n; ++i) {
        source[i] = static_cast<std::int64_t>(random() % 30'000);
        destination[i] = static_cast<std::int64_t>(random() % 1'000'000'000);
        expected[i] = {source[i] * 12, destination[i] * 12};
    }
    std::sort(expected.begin(), expected.end());
    std::vector<std::int64_t> s;
    std::vector<std::int64_t> d;
    AddressRelation::from_pairs(source, destination, 12, 12).ordered_by_source().to_pairs(s, d);
    ASSERT_EQ(s.size(), n);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(std::make_pair(s[i], d[i]), expected[i]);
}

}  // namespace
}  // namespace datamover
