// SPDX-License-Identifier: BSD-3-Clause
// Encodings of relations: each holds and moves exactly the pairs that it was made from.
#include <gtest/gtest.h>

#include "datamover/error.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

constexpr std::int64_t elem_sizes[] = {1, 2, 3, 4, 8, 12, 16, 24, 32};

void expect_pairs(const AddressRelation& relation, const Addresses& source,
                  const Addresses& destination) {
    Addresses s;
    Addresses d;
    relation.to_pairs(s, d);
    ASSERT_EQ(relation.size(), static_cast<std::int64_t>(source.size()));
    EXPECT_EQ(s, source);
    EXPECT_EQ(d, destination);
}

void expect_moves(const Case& c, const AddressRelation& relation, std::int64_t elem,
                  Engine& random) {
    const std::int64_t shift = between(random, 0, 3);
    const std::vector<char> source = random_bytes(random, c.source_bytes + shift);
    std::vector<char> expected = random_bytes(random, c.destination_bytes + shift);
    std::vector<char> actual = expected;
    move_by_hand(c, elem, source.data() + shift, expected.data() + shift);
    relation.copy(source.data() + shift, actual.data() + shift);
    EXPECT_EQ(actual, expected) << relation.kernel().describe();
}

void expect_messages(const Case& c, const AddressRelation& relation, std::int64_t elem,
                     Engine& random) {
    const std::vector<char> source = random_bytes(random, c.source_bytes);
    std::vector<char> expected = random_bytes(random, c.destination_bytes);
    std::vector<char> actual = expected;
    std::vector<char> message(c.source.size() * static_cast<std::size_t>(elem));
    relation.gather(source.data(), message.data());
    for (std::size_t i = 0; i < c.source.size(); ++i)
        ASSERT_EQ(0, std::memcmp(message.data() + i * static_cast<std::size_t>(elem),
                                 source.data() + c.source[i], static_cast<std::size_t>(elem)));
    move_by_hand(c, elem, source.data(), expected.data());
    relation.scatter(message.data(), actual.data());
    EXPECT_EQ(actual, expected);
}

void expect_all(const Case& c, std::int64_t elem, Engine& random) {
    expect_pairs(c.relation, c.source, c.destination);
    for (Encoding e : all_encodings) {
        const AddressRelation relation = c.relation.encode(e);
        EXPECT_EQ(relation.encoding(), e);
        expect_pairs(relation, c.source, c.destination);
        expect_moves(c, relation, elem, random);
        expect_messages(c, relation, elem, random);
        expect_pairs(relation.reversed(), c.destination, c.source);
    }
    const AddressRelation joined =
        AddressRelation::join(c.relation.source_half(), c.relation.destination_half());
    expect_pairs(joined, c.source, c.destination);
}

}  // namespace

TEST(RelationEncodings, RandomProducts) {
    Engine random(1);
    for (std::size_t i = 0; i < 400; ++i) {
        const std::int64_t elem = elem_sizes[i % std::size(elem_sizes)];
        expect_all(random_product(random, elem, elem), elem, random);
        if (HasFailure()) FAIL() << "case " << i << ", element of " << elem << " bytes";
    }
}

/// Tables are known again, be they among the first few or not.
TEST(RelationEncodings, ManyProductsShareManyTables) {
    Engine random(11);
    std::vector<std::shared_ptr<const AxisTable>> tables;
    for (int i = 0; i < 20; ++i)
        tables.push_back(std::make_shared<AxisTable>(random_table(random)));
    std::vector<Product> sharing, apart;
    Addresses source, destination;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < 3 * tables.size(); ++i) {
        const auto& table = tables[i % tables.size()];
        sharing.push_back({offset, 2 * offset, {{table, 8, 8}}});
        apart.push_back({offset, 2 * offset, {{std::make_shared<AxisTable>(*table), 8, 8}}});
        const Positions positions = positions_of(*table);
        for (const std::int64_t s : positions.source) source.push_back(offset + 8 * s);
        for (const std::int64_t d : positions.destination)
            destination.push_back(2 * offset + 8 * d);
        offset += 8 * extent(positions.source) + 8 * extent(positions.destination);
    }
    const auto relation = AddressRelation::from_products(sharing, 8, 8);
    expect_pairs(relation, source, destination);
    expect_pairs(AddressRelation::from_bytes(relation.to_bytes(), 1 << 20), source, destination);
    EXPECT_LT(2 * relation.nbytes(), AddressRelation::from_products(apart, 8, 8).nbytes());
}

TEST(RelationEncodings, RandomPairs) {
    Engine random(2);
    for (std::size_t i = 0; i < 400; ++i) {
        const std::int64_t elem = elem_sizes[i % std::size(elem_sizes)];
        expect_all(random_pairs(random, elem, elem), elem, random);
        if (HasFailure()) FAIL() << "case " << i << ", element of " << elem << " bytes";
    }
}

TEST(RelationEncodings, OrderedBySide) {
    Engine random(3);
    for (int i = 0; i < 200; ++i) {
        const Case c = i % 2 ? random_product(random, 4, 8) : random_pairs(random, 4, 8);
        std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
        for (std::size_t k = 0; k < c.source.size(); ++k)
            pairs.emplace_back(c.source[k], c.destination[k]);
        auto split = [&](Addresses& s, Addresses& d) {
            for (const auto& p : pairs) {
                s.push_back(p.first);
                d.push_back(p.second);
            }
        };
        Addresses s, d;
        std::sort(pairs.begin(), pairs.end());
        split(s, d);
        expect_pairs(c.relation.ordered_by_source(), s, d);
        s.clear();
        d.clear();
        std::sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
            return std::pair(a.second, a.first) < std::pair(b.second, b.first);
        });
        split(s, d);
        expect_pairs(c.relation.ordered_by_destination(), s, d);
        if (HasFailure()) FAIL() << "case " << i;
    }
}

TEST(RelationEncodings, BoundsAndContiguity) {
    Engine random(4);
    for (int i = 0; i < 300; ++i) {
        const Case c = i % 2 ? random_product(random, 4, 8) : random_pairs(random, 4, 8);
        for (Encoding e : all_encodings) {
            const AddressRelation r = c.relation.encode(e);
            const AddressBounds sb = r.source_bounds();
            const AddressBounds db = r.destination_bounds();
            if (c.source.empty()) {
                EXPECT_EQ(sb.begin_bytes, sb.end_bytes);
                continue;
            }
            EXPECT_EQ(sb.begin_bytes, *std::min_element(c.source.begin(), c.source.end()));
            EXPECT_EQ(sb.end_bytes, *std::max_element(c.source.begin(), c.source.end()) + 4);
            EXPECT_EQ(db.begin_bytes,
                      *std::min_element(c.destination.begin(), c.destination.end()));
            EXPECT_EQ(db.end_bytes,
                      *std::max_element(c.destination.begin(), c.destination.end()) + 8);
            bool dense = true;
            for (std::size_t k = 1; k < c.source.size(); ++k)
                dense = dense && c.source[k] == c.source[k - 1] + 4;
            EXPECT_EQ(r.source_contiguous(), dense);
            EXPECT_TRUE(r.source_half().destination_contiguous());
            EXPECT_TRUE(r.destination_half().source_contiguous());
        }
        if (HasFailure()) FAIL() << "case " << i;
    }
}

TEST(RelationEncodings, Concatenation) {
    Engine random(5);
    for (int i = 0; i < 100; ++i) {
        std::vector<AddressRelation> parts;
        Addresses s, d;
        for (int k = 0; k < 3; ++k) {
            const Case c = (i >> k) % 2 ? random_product(random, 8, 8) : random_pairs(random, 8, 8);
            parts.push_back(c.relation);
            s.insert(s.end(), c.source.begin(), c.source.end());
            d.insert(d.end(), c.destination.begin(), c.destination.end());
        }
        expect_pairs(AddressRelation::concatenate(parts), s, d);
    }
}

TEST(RelationEncodings, BadInputIsRefused) {
    const Addresses three{0, 1, 2};
    const Addresses two{0, 1};
    const Addresses negative{0, -1};
    auto code = [](auto&& call) {
        try {
            call();
        } catch (const Error& e) {
            return e.code();
        }
        return ErrorCode::io;
    };
    EXPECT_EQ(code([&] { AddressRelation::from_pairs(three, two, 8, 8); }), ErrorCode::mismatch);
    EXPECT_EQ(code([&] { AddressRelation::from_pairs(negative, two, 8, 8); }),
              ErrorCode::invalid_argument);
    EXPECT_EQ(code([&] { AddressRelation::from_pairs(two, two, 0, 8); }),
              ErrorCode::invalid_argument);
    EXPECT_EQ(code([&] { AddressRelation::from_pairs(two, two, 4, 8).kernel(); }),
              ErrorCode::wrong_type);
    EXPECT_EQ(code([&] {
                  AddressRelation::join(AddressRelation::from_pairs(two, two, 8, 8),
                                        AddressRelation::from_pairs(three, three, 8, 8));
              }),
              ErrorCode::mismatch);
    EXPECT_EQ(code([&] { encoding_from_name("zip"); }), ErrorCode::invalid_argument);
}
