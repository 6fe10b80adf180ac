// SPDX-License-Identifier: BSD-3-Clause
// A cache of relations with a memory limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// Counters and contents of a cache.
struct RelationCacheStatistics {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    std::int64_t evictions = 0;
    std::int64_t relations = 0;   ///< held now
    std::int64_t held_bytes = 0;  ///< held now
    std::int64_t limit_bytes = 0;
};

/// Convert a text to words, for keys and hints that are names.
std::vector<std::int64_t> words_of(std::string_view text);

/// A cache of relations with a memory limit. The least recently used are evicted first. Relations
/// with the same hint belong to one operation and are evicted together, because one is of little
/// use without the others. An evicted relation is made again, and is equal. Safe to use from
/// several threads. Source: the paper on compact address relations, section on discussion.
class RelationCache {
public:
    /// An identifier of a relation or an operation: numbers, compared one by one.
    using Words = std::span<const std::int64_t>;

    /// Make a cache. `limit_bytes` applies to the sizes of encodings, not to what relations store
    /// when they are used. Throws invalid_argument if it is negative.
    explicit RelationCache(std::int64_t limit_bytes);
    ~RelationCache();
    RelationCache(const RelationCache&) = delete;
    RelationCache& operator=(const RelationCache&) = delete;

    /// Return the relation of `key`, from the cache or from `make`. `make` must return the same
    /// relation every time; it may request others from the cache. A relation that alone exceeds the
    /// limit is returned but not kept. An empty hint groups nothing. Cost of a hit: one look-up,
    /// without allocation.
    template <class Make>
    AddressRelation get(Words key, Make&& make, Words hint = {}) {
        if (std::optional<AddressRelation> held = find(key)) return *std::move(held);
        AddressRelation made = make();
        keep(key, made, hint);
        return made;
    }
    /// Return the relation of `key` if it is held; counts as a hit or a miss.
    std::optional<AddressRelation> find(Words key);
    /// Hold a relation, unless one with that key is held or it alone exceeds the limit.
    void keep(Words key, const AddressRelation& relation, Words hint = {});
    /// Drop the relations of a hint. Returns their number.
    std::int64_t drop(Words hint);
    void clear();
    /// Set the limit, and immediately evict what no longer fits.
    void set_limit(std::int64_t limit_bytes);
    RelationCacheStatistics statistics() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace datamover
