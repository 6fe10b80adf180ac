// SPDX-License-Identifier: BSD-3-Clause
// A cache of relations with a memory limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// What a cache has done so far and what it holds.
struct RelationCacheStatistics {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    std::int64_t evictions = 0;
    std::int64_t relations = 0;   ///< held now
    std::int64_t held_bytes = 0;  ///< held now
    std::int64_t limit_bytes = 0;
};

/// A text as words, for keys and hints that are names.
std::vector<std::int64_t> words_of(std::string_view text);

/// Keeps relations under a bound of memory. The least recently used leave first; relations with the
/// same hint belong to one operation and leave together, since one of them is of little use without
/// the others. What has left is made again and is equal. Safe to use from several threads.
/// Source: the paper on compact address relations, section on discussion.
class RelationCache {
public:
    /// What tells a relation, or an operation, from all others: numbers, compared one by one.
    using Words = std::span<const std::int64_t>;

    /// `limit_bytes` counts the encodings' bytes, not what relations remember of themselves once
    /// they are used. Throws invalid_argument when it is negative.
    explicit RelationCache(std::int64_t limit_bytes);
    ~RelationCache();
    RelationCache(const RelationCache&) = delete;
    RelationCache& operator=(const RelationCache&) = delete;

    /// The relation of `key`, from memory or by `make`, which must give the same relation every
    /// time; it may ask the cache for others. One that alone exceeds the limit is returned but not
    /// kept. An empty hint ties nothing. Cost of a hit: one look-up, nothing is allocated.
    template <class Make>
    AddressRelation get(Words key, Make&& make, Words hint = {}) {
        if (std::optional<AddressRelation> held = find(key)) return *std::move(held);
        AddressRelation made = make();
        keep(key, made, hint);
        return made;
    }
    /// The relation of `key` where it is held; counts as a hit or a miss.
    std::optional<AddressRelation> find(Words key);
    /// Holds a relation, unless one of that key is held or it exceeds the limit alone.
    void keep(Words key, const AddressRelation& relation, Words hint = {});
    /// Forgets the relations of a hint. Returns the number forgotten.
    std::int64_t drop(Words hint);
    void clear();
    /// Evicts at once what no longer fits.
    void set_limit(std::int64_t limit_bytes);
    RelationCacheStatistics statistics() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace datamover
