// SPDX-License-Identifier: BSD-3-Clause
// Relation cache: returns the right relations, stays within its limit, and evicts the relations of
// an operation together.
#include "datamover/advanced/relation_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "datamover/error.hpp"

using namespace datamover;

namespace {

/// A relation of n pairs kept as pairs: 16 n bytes.
AddressRelation relation_of(std::int64_t n, std::int64_t start) {
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;
    for (std::int64_t i = 0; i < n; ++i) {
        source.push_back(start + i);
        destination.push_back(i);
    }
    return AddressRelation::from_pairs(source, destination, 8, 8).encode(Encoding::pairs);
}

std::int64_t first_source(const AddressRelation& relation) {
    return relation.source_bounds().begin_bytes / 8;
}

}  // namespace

TEST(RelationCache, CountsHitsMissesAndBytes) {
    RelationCache cache(1000);
    int made = 0;
    auto make = [&] {
        ++made;
        return relation_of(10, 3);
    };
    EXPECT_EQ(first_source(cache.get(words_of("a"), make)), 3);
    EXPECT_EQ(first_source(cache.get(words_of("a"), make)), 3);
    EXPECT_EQ(made, 1);
    const RelationCacheStatistics s = cache.statistics();
    EXPECT_EQ(s.hits, 1);
    EXPECT_EQ(s.misses, 1);
    EXPECT_EQ(s.relations, 1);
    EXPECT_EQ(s.held_bytes, 160);
    cache.clear();
    EXPECT_EQ(cache.statistics().held_bytes, 0);
}

TEST(RelationCache, RelationsOfOneHintLeaveTogether) {
    RelationCache cache(16 * 40);
    cache.get(words_of("a1"), [] { return relation_of(10, 1); }, words_of("a"));
    cache.get(words_of("b1"), [] { return relation_of(10, 2); }, words_of("b"));
    cache.get(words_of("a2"), [] { return relation_of(10, 3); }, words_of("a"));
    cache.get(words_of("b1"), [] { return relation_of(10, 2); }, words_of("b"));
    cache.get(words_of("c"), [] { return relation_of(20, 4); });
    EXPECT_EQ(cache.statistics().evictions, 2);
    EXPECT_EQ(cache.statistics().relations, 2);
    EXPECT_EQ(cache.drop(words_of("b")), 1);
    EXPECT_EQ(cache.drop(words_of("b")), 0);
    EXPECT_EQ(cache.statistics().held_bytes, 320);
}

TEST(RelationCache, WhatIsTooLargeIsReturnedButNotKept) {
    RelationCache cache(100);
    EXPECT_EQ(cache.get(words_of("a"), [] { return relation_of(10, 5); }).size(), 10);
    EXPECT_EQ(cache.statistics().relations, 0);
    EXPECT_THROW(RelationCache(-1), Error);
}

TEST(RelationCache, RandomUseStaysRightAndBounded) {
    std::mt19937_64 random(41);
    RelationCache cache(4000);
    for (int i = 0; i < 5000; ++i) {
        const auto k = static_cast<std::int64_t>(random() % 60);
        const AddressRelation r = cache.get(
            words_of(std::to_string(k)), [&] { return relation_of(1 + k, k); },
            k % 3 == 0 ? std::vector<std::int64_t>{} : words_of("hint" + std::to_string(k % 7)));
        EXPECT_EQ(r.size(), 1 + k);
        EXPECT_EQ(first_source(r), k);
        if (i % 500 == 0) cache.set_limit(static_cast<std::int64_t>(random() % 6000));
        const RelationCacheStatistics s = cache.statistics();
        EXPECT_LE(s.held_bytes, s.limit_bytes);
        EXPECT_EQ(s.hits + s.misses, i + 1);
    }
}

TEST(RelationCache, KeysAreComparedWhole) {
    RelationCache cache(100'000);
    std::vector<std::vector<std::int64_t>> keys{{}, {0}, {0, 0}, {1}, {-1}, {1, 2}, {2, 1}};
    for (const char* text : {"", "a", "aa", "aaaaaaaa", "aaaaaaaab"})
        keys.push_back(words_of(text));
    for (int again = 0; again < 2; ++again)
        for (std::size_t k = 0; k < keys.size(); ++k) {
            if (k == 7) continue;  // the words of no text are those of the number 0
            const auto start = static_cast<std::int64_t>(k);
            EXPECT_EQ(first_source(cache.get(keys[k], [&] { return relation_of(3, start); })),
                      start);
        }
    EXPECT_EQ(cache.statistics().misses, static_cast<std::int64_t>(keys.size()) - 1);
}

TEST(RelationCache, ThreadsGetTheRightOnes) {
    RelationCache cache(2000);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 6; ++t)
        threads.emplace_back([&, t] {
            std::mt19937_64 random(static_cast<std::uint64_t>(t));
            for (int i = 0; i < 2000; ++i) {
                const auto k = static_cast<std::int64_t>(random() % 30);
                const std::vector<std::int64_t> key{k, 7};
                const std::vector<std::int64_t> hint{k % 4};
                const AddressRelation r =
                    cache.get(key, [&] { return relation_of(1 + k, k); }, hint);
                if (r.size() != 1 + k || first_source(r) != k) ++wrong;
                if (i % 100 == 0) cache.drop(hint);
            }
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_LE(cache.statistics().held_bytes, 2000);
}
