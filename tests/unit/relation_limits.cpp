// SPDX-License-Identifier: BSD-3-Clause
// Limits: the work caused by external bytes and by numbers near 2^63 is bounded, and excess is
// reported as an error.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "datamover/advanced/relation_messages.hpp"
#include "datamover/error.hpp"
#include "relation/serial.hpp"

using namespace datamover;

namespace {

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

ErrorCode code_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& e) {
        return e.code();
    }
    return ErrorCode{};
}

std::shared_ptr<const AxisTable> table(std::vector<AxisRun> runs, std::int64_t periods = 1,
                                       std::int64_t source_period = 0,
                                       std::int64_t destination_period = 0,
                                       std::vector<AxisRun> tail = {}) {
    return std::make_shared<const AxisTable>(std::move(runs), periods, source_period,
                                             destination_period, std::move(tail));
}

/// The bytes of a relation whose words after the element sizes are given.
std::vector<std::uint8_t> bytes_of(Encoding encoding, std::int64_t elem_bytes,
                                   const std::vector<std::int64_t>& words) {
    WordWriter out(serial_magic);
    out.put_all({static_cast<std::int64_t>(encoding), elem_bytes, elem_bytes});
    out.put_all(words);
    return out.finish();
}

}  // namespace

TEST(RelationRequests, ManyPeriodsInFewBytesAreRefusedAtOnce) {
    // One element of the source, asked for again and again in 2^36 periods of two blocks.
    const auto many = table({{0, 0, 1, 1, 0, 0}, {0, 1, 1, 1, 0, 0}}, std::int64_t{1} << 36, 0, 2);
    const AddressRelation relation = AddressRelation::from_products({{0, 0, {{many, 0, 1}}}}, 1, 1);
    EXPECT_TRUE(relation.contiguous(Side::destination));
    const std::vector<std::uint8_t> request = get_request(relation);
    EXPECT_LE(request.size(), 240u);
    const char memory[16] = {};
    EXPECT_EQ(code_of([&] { answer_get(request, memory, {0, 16}); }), ErrorCode::out_of_range);
    EXPECT_EQ(code_of([&] { AddressRelation::from_bytes(request, 1 << 20); }),
              ErrorCode::out_of_range);
}

TEST(RelationRequests, AnswersAreAsLongAsTheCallerWantsAtMost) {
    const auto million = table({AxisRun{0, 0, 1 << 20, 1, 0, 0}});
    const AddressRelation relation =
        AddressRelation::from_products({{0, 0, {{million, 0, 8}}}}, 8, 8);
    const std::vector<std::uint8_t> request = get_request(relation);
    EXPECT_EQ(request.size(), 104u);
    const double memory = 7.0;
    EXPECT_EQ(code_of([&] { answer_get(request, &memory, {0, 8}); }), ErrorCode::out_of_range);
    EXPECT_EQ(code_of([&] { answer_get(request, &memory, {0, 8}, (8 << 20) - 1); }),
              ErrorCode::out_of_range);
    const std::vector<std::uint8_t> answer = answer_get(request, &memory, {0, 8}, 8 << 20);
    ASSERT_EQ(answer.size(), std::size_t{8} << 20);
    double last = 0;
    std::memcpy(&last, answer.data() + answer.size() - 8, 8);
    EXPECT_EQ(last, 7.0);
}

TEST(RelationRequests, ManyAxesOfOnePositionDoNotNest) {
    constexpr std::int64_t axes = 200'000;
    // A table whose only position stands in its tail, and a nest of it over and over.
    std::vector<std::int64_t> words{1, 0, 0, 0, 0, 1, 3, 0, 1, 1, 0, 0, 1, 0, 0, axes};
    for (std::int64_t k = 0; k < axes; ++k) words.insert(words.end(), {-1, 8, 0});
    const AddressRelation relation =
        AddressRelation::from_bytes(bytes_of(Encoding::product, 8, words));
    EXPECT_EQ(relation.size(), 1);
    EXPECT_EQ(relation.source_bounds().begin_bytes, axes * 3 * 8);
    std::vector<double> from(axes * 3 + 1, 5.0);
    double to = 0;
    relation.copy(from.data(), &to);
    EXPECT_EQ(to, 5.0);
}

TEST(RelationRequests, SizesThatOverflowInAPutMessageAreRefused) {
    // 2^59 elements of 2^40 bytes: their product is 0 modulo 2^64.
    const std::vector<std::uint8_t> relation = bytes_of(
        Encoding::product, std::int64_t{1} << 40, {0, 1, 0, 0, 1, std::int64_t{1} << 58, 0, 0});
    std::vector<std::uint8_t> message(8 + relation.size());
    const std::uint64_t length = relation.size();
    std::memcpy(message.data(), &length, 8);
    std::memcpy(message.data() + 8, relation.data(), relation.size());
    char memory[8];
    EXPECT_EQ(code_of([&] { accept_put(message, memory, {0, 8}); }), ErrorCode::invalid_argument);
}

TEST(RelationLimits, ProductsThatDoNotFitSayHowLargeTheyAre) {
    const auto two = table({AxisRun{0, 0, 2, 1, 0, 0}});
    const auto far = table({AxisRun{huge - 1, 0, 1, 1, 0, 0}});
    const auto stepped = table({AxisRun{0, 0, 1, 3, std::int64_t{1} << 61, 0}});
    const auto periodic = table({AxisRun{0, 0, 1, 1, 0, 0}}, huge, huge, 0);
    const auto large = table({AxisRun{0, 0, std::int64_t{1} << 32, 1, 0, 0}});
    for (const Product& product : {
             Product{huge, 0, {}},
             Product{0, -huge - 1, {}},
             Product{0, 0, {{two, huge, 8}}},
             Product{0, 0, {{two, 8, -huge - 1}}},
             Product{0, 0, {{far, 8, 8}}},
             Product{0, 0, {{stepped, 8, 8}}},
             Product{0, 0, {{periodic, 1, 0}}},
             Product{0, 0, {{large, 0, 0}, {large, 0, 0}}},
         })
        EXPECT_EQ(code_of([&] { AddressRelation::from_products({product}, 8, 8); }),
                  ErrorCode::out_of_range);
    const Product wide{0, 0, {{large, 0, 0}}};
    const AddressRelation relation =
        AddressRelation::from_products({wide, wide}, std::int64_t{1} << 40, std::int64_t{1} << 40);
    EXPECT_EQ(relation.size(), std::int64_t{1} << 33);
    EXPECT_EQ(code_of([&] { relation.half(Side::source); }), ErrorCode::out_of_range);
    EXPECT_EQ(code_of([&] { AddressRelation::from_products({}, huge, 8); }),
              ErrorCode::invalid_argument);
    const std::vector<Product> most(20,
                                    Product{0,
                                            0,
                                            {{large, 0, 0},
                                             {two, 0, 0},
                                             {two, 0, 0},
                                             {table({AxisRun{0, 0, 1 << 24, 1, 0, 0}}), 0, 0}}});
    EXPECT_EQ(code_of([&] { AddressRelation::from_products(most, 8, 8); }),
              ErrorCode::out_of_range);
}

TEST(RelationLimits, AddressesThatDoNotFitAreNamed) {
    const std::vector<std::int64_t> far{0, huge};
    const std::vector<std::int64_t> near{0, 1};
    for (const bool at_source : {true, false}) {
        const auto& s = at_source ? far : near;
        const auto& d = at_source ? near : far;
        EXPECT_EQ(code_of([&] { AddressRelation::from_pairs(s, d, 8, 8); }),
                  ErrorCode::invalid_argument);
        EXPECT_EQ(code_of([&] { AddressRelation::from_byte_pairs(s, d, 8, 8); }),
                  ErrorCode::invalid_argument);
    }
    const std::vector<std::int64_t> low{-huge - 1, 0};
    EXPECT_EQ(code_of([&] { AddressRelation::from_byte_pairs(low, near, 8, 8); }),
              ErrorCode::invalid_argument);
    const std::vector<std::int64_t> edge{(std::int64_t{1} << 55) - 1};
    const std::vector<std::int64_t> zero{0};
    EXPECT_EQ(AddressRelation::from_pairs(edge, zero, 8, 8).source_bounds().end_bytes,
              std::int64_t{1} << 58);
}

TEST(RelationLimits, WhatWasMovedFromIsStillARelation) {
    const std::vector<std::int64_t> source{0, 1}, destination{1, 0};
    AddressRelation relation = AddressRelation::from_pairs(source, destination, 8, 8);
    const AddressRelation taken = std::move(relation);
    EXPECT_EQ(taken.size(), 2);
    EXPECT_EQ(relation.size(), 2);
    EXPECT_FALSE(relation.to_bytes().empty());
}

TEST(RelationLimits, RowsThatLieTooFarApartAreNotFolded) {
    constexpr std::int64_t far = (std::int64_t{1} << 62) - (std::int64_t{1} << 42);
    const auto one = table({{0, 0, 1, 1, 0, 0}});
    for (const auto& places : {std::vector<std::int64_t>{-far, far, 0, far},
                               {far, -far, far},
                               {-far, 0, far, -far, 0, far, -far}}) {
        std::vector<Product> products;
        for (std::size_t i = 0; i < places.size(); ++i)
            products.push_back({places[i], static_cast<std::int64_t>(8 * i), {{one, 8, 8}}});
        const AddressRelation relation = AddressRelation::from_products(products, 8, 8);
        const AddressRelation folded = relation.encode(Encoding::pairs).encode(Encoding::product);
        std::vector<std::int64_t> source, destination;
        folded.to_pairs(source, destination);
        EXPECT_EQ(source, places);
    }
}
