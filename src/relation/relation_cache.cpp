// SPDX-License-Identifier: BSD-3-Clause
// Which relations are kept in memory, and which are made again when they are asked for?
#include "datamover/relation_cache.hpp"

#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "datamover/error.hpp"

namespace datamover {
namespace {

struct Entry {
    std::string key;
    AddressRelation relation;
};

/// Relations that leave together: those of one hint, or a single one without a hint.
struct Group {
    std::string hint;
    std::vector<Entry> entries;
    std::int64_t bytes = 0;
};

using Groups = std::list<Group>;

void require_limit(std::int64_t limit_bytes) {
    if (limit_bytes < 0)
        throw Error(ErrorCode::invalid_argument, "a cache's limit must not be negative, got " +
                                                     std::to_string(limit_bytes) + " bytes");
}

}  // namespace

struct RelationCache::State {
    mutable std::mutex mutex;
    Groups groups;  ///< the most recently used first
    std::unordered_map<std::string, Groups::iterator> group_of_key;
    std::unordered_map<std::string, Groups::iterator> group_of_hint;
    RelationCacheStatistics statistics;

    void forget(Groups::iterator group) {
        for (const Entry& e : group->entries) group_of_key.erase(e.key);
        if (!group->hint.empty()) group_of_hint.erase(group->hint);
        statistics.relations -= static_cast<std::int64_t>(group->entries.size());
        statistics.held_bytes -= group->bytes;
        groups.erase(group);
    }

    /// Lets the least recently used groups go until the limit is kept.
    void shrink() {
        while (statistics.held_bytes > statistics.limit_bytes && !groups.empty()) {
            const auto last = std::prev(groups.end());
            statistics.evictions += static_cast<std::int64_t>(last->entries.size());
            forget(last);
        }
    }

    const AddressRelation* find(const std::string& key) {
        const auto found = group_of_key.find(key);
        if (found == group_of_key.end()) return nullptr;
        groups.splice(groups.begin(), groups, found->second);
        for (const Entry& e : found->second->entries)
            if (e.key == key) return &e.relation;
        return nullptr;
    }

    Groups::iterator group_for(const std::string& hint) {
        const auto found = hint.empty() ? group_of_hint.end() : group_of_hint.find(hint);
        if (found != group_of_hint.end()) {
            groups.splice(groups.begin(), groups, found->second);
            return found->second;
        }
        groups.push_front({hint, {}, 0});
        if (!hint.empty()) group_of_hint[hint] = groups.begin();
        return groups.begin();
    }

    void keep(const std::string& key, const std::string& hint, const AddressRelation& relation) {
        const std::int64_t bytes = relation.nbytes();
        if (bytes > statistics.limit_bytes || group_of_key.count(key) != 0) return;
        const auto group = group_for(hint);
        // A group that would not fit as a whole starts anew with this relation.
        if (group->bytes + bytes > statistics.limit_bytes) {
            statistics.evictions += static_cast<std::int64_t>(group->entries.size());
            forget(group);
            keep(key, hint, relation);
            return;
        }
        group->entries.push_back({key, relation});
        group->bytes += bytes;
        group_of_key[key] = group;
        statistics.held_bytes += bytes;
        ++statistics.relations;
        shrink();
    }
};

RelationCache::RelationCache(std::int64_t limit_bytes) : state_(std::make_unique<State>()) {
    require_limit(limit_bytes);
    state_->statistics.limit_bytes = limit_bytes;
}

RelationCache::~RelationCache() = default;

AddressRelation RelationCache::get(const std::string& key, const Make& make,
                                   const std::string& hint) {
    {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        if (const AddressRelation* held = state_->find(key)) {
            ++state_->statistics.hits;
            return *held;
        }
        ++state_->statistics.misses;
    }
    // Made outside the lock: making may take long, and may ask the cache for others.
    AddressRelation relation = make();
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->keep(key, hint, relation);
    return relation;
}

std::int64_t RelationCache::drop(const std::string& hint) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const auto found = state_->group_of_hint.find(hint);
    if (found == state_->group_of_hint.end()) return 0;
    const auto dropped = static_cast<std::int64_t>(found->second->entries.size());
    state_->forget(found->second);
    return dropped;
}

void RelationCache::clear() {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    while (!state_->groups.empty()) state_->forget(state_->groups.begin());
}

void RelationCache::set_limit(std::int64_t limit_bytes) {
    require_limit(limit_bytes);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->statistics.limit_bytes = limit_bytes;
    state_->shrink();
}

RelationCacheStatistics RelationCache::statistics() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->statistics;
}

}  // namespace datamover
