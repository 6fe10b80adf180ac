// SPDX-License-Identifier: BSD-3-Clause
// Which relations are kept in memory, and which are made again when they are asked for?
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "datamover/address_relation.hpp"

namespace datamover {

/// What a cache has done so far and what it holds.
struct RelationCacheStatistics {
    std::int64_t hits = 0;
    std::int64_t misses = 0;
    std::int64_t evictions = 0;
    std::int64_t relations = 0;   ///< held now
    std::int64_t held_bytes = 0;  ///< held now
    std::int64_t limit_bytes = 0;
};

/// Keeps relations under a bound of memory. The least recently used leave first; relations with the
/// same hint belong to one operation and leave together, since one of them is of little use without
/// the others. What has left is made again and is equal. Safe to use from several threads.
/// Source: the paper on compact address relations, section on discussion.
class RelationCache {
public:
    using Make = std::function<AddressRelation()>;

    /// `limit_bytes` counts the encodings' bytes. Throws invalid_argument when it is negative.
    explicit RelationCache(std::int64_t limit_bytes);
    ~RelationCache();
    RelationCache(const RelationCache&) = delete;
    RelationCache& operator=(const RelationCache&) = delete;

    /// The relation of `key`, from memory or by `make`, which must give the same relation every
    /// time. One that alone exceeds the limit is returned but not kept. An empty hint ties nothing.
    AddressRelation get(const std::string& key, const Make& make, const std::string& hint = "");
    /// Forgets the relations of a hint. Returns the number forgotten.
    std::int64_t drop(const std::string& hint);
    void clear();
    /// Evicts at once what no longer fits.
    void set_limit(std::int64_t limit_bytes);
    RelationCacheStatistics statistics() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace datamover
