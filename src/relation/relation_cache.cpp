// SPDX-License-Identifier: BSD-3-Clause
// A cache of relations with a memory limit, and the model of keeping against recomputing them.
#include "datamover/advanced/relation_cache.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "datamover/advanced/decoding_costs.hpp"
#include "geometry/make_error.hpp"
#include "geometry/record_index.hpp"

namespace datamover {
namespace {

using OwnWords = std::vector<std::int64_t>;
using Words = RelationCache::Words;

/// Of words that are held or only seen: looking up makes no copy.
struct WordsHash {
    using is_transparent = void;
    std::size_t operator()(Words words) const { return geometry::hash_words(words); }
};
struct WordsEqual {
    using is_transparent = void;
    bool operator()(Words a, Words b) const { return std::ranges::equal(a, b); }
};
template <class T>
using WordsMap = std::unordered_map<OwnWords, T, WordsHash, WordsEqual>;

/// Relations that leave together: those of one hint, or a single one without a hint.
struct Group {
    OwnWords hint;
    std::vector<const OwnWords*> keys;
    std::int64_t bytes = 0;
};

using Groups = std::list<Group>;

struct Held {
    AddressRelation relation;
    Groups::iterator group;
};

void require_limit(std::int64_t limit_bytes) {
    if (limit_bytes < 0)
        throw make_error(ErrorCode::invalid_argument, "a cache's limit must not be negative, got ",
                         limit_bytes, " bytes");
}

}  // namespace

std::vector<std::int64_t> words_of(std::string_view text) {
    std::vector<std::int64_t> words(1 + (text.size() + 7) / 8);
    words.front() = static_cast<std::int64_t>(text.size());
    if (!text.empty()) std::memcpy(words.data() + 1, text.data(), text.size());
    return words;
}

struct [[gnu::visibility("hidden")]] RelationCache::State {
    mutable std::mutex mutex;
    Groups groups;  ///< the most recently used first
    WordsMap<Held> held;
    WordsMap<Groups::iterator> group_of_hint;
    RelationCacheStatistics statistics;

    void forget(Groups::iterator group) {
        statistics.relations -= static_cast<std::int64_t>(group->keys.size());
        statistics.held_bytes -= group->bytes;
        for (const OwnWords* key : group->keys) held.erase(held.find(*key));
        if (!group->hint.empty()) group_of_hint.erase(group->hint);
        groups.erase(group);
    }

    void evict(Groups::iterator group) {
        statistics.evictions += static_cast<std::int64_t>(group->keys.size());
        forget(group);
    }

    /// Lets the least recently used groups go until the limit is kept.
    void shrink() {
        while (statistics.held_bytes > statistics.limit_bytes && !groups.empty())
            evict(std::prev(groups.end()));
    }

    void use(Groups::iterator group) { groups.splice(groups.begin(), groups, group); }

    Groups::iterator group_for(Words hint) {
        const auto found = hint.empty() ? group_of_hint.end() : group_of_hint.find(hint);
        if (found != group_of_hint.end()) {
            use(found->second);
            return found->second;
        }
        groups.push_front({{hint.begin(), hint.end()}, {}, 0});
        if (!hint.empty()) group_of_hint[groups.front().hint] = groups.begin();
        return groups.begin();
    }

    void keep(Words key, Words hint, const AddressRelation& relation) {
        const std::int64_t bytes = relation.nbytes();
        if (bytes > statistics.limit_bytes || held.contains(key)) return;
        auto group = group_for(hint);
        // A group that would not fit as a whole starts anew with this relation.
        if (group->bytes + bytes > statistics.limit_bytes) {
            evict(group);
            group = group_for(hint);
        }
        const auto place = held.try_emplace({key.begin(), key.end()}, Held{relation, group}).first;
        group->keys.push_back(&place->first);
        group->bytes += bytes;
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

std::optional<AddressRelation> RelationCache::find(Words key) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const auto found = state_->held.find(key);
    if (found == state_->held.end()) {
        ++state_->statistics.misses;
        return std::nullopt;
    }
    ++state_->statistics.hits;
    state_->use(found->second.group);
    return found->second.relation;
}

void RelationCache::keep(Words key, const AddressRelation& relation, Words hint) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->keep(key, hint, relation);
}

std::int64_t RelationCache::drop(Words hint) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const auto found = state_->group_of_hint.find(hint);
    if (found == state_->group_of_hint.end()) return 0;
    const auto dropped = static_cast<std::int64_t>(found->second->keys.size());
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

// The paper's model of decoding a relation compared with recomputing its addresses.

namespace {

/// Throws unless every number is at least 0 or, if `positive`, above 0.
void require(const char* what, bool positive,
             std::initializer_list<std::pair<const char*, double>> numbers) {
    for (const auto& [name, number] : numbers)
        if (!std::isfinite(number) || number < 0 || (positive && number == 0))
            throw make_error(ErrorCode::invalid_argument, "the ", what, " ", name,
                             positive ? " must be positive, got " : " must not be negative, got ",
                             number);
}

}  // namespace

RecomputeModel::RecomputeModel(const MachineRates& machine, const LoopInstructions& loops)
    : machine_(machine), loops_(loops) {
    require("rate", true,
            {{"instructions", machine.instructions},
             {"read_contiguous", machine.read_contiguous},
             {"read_random", machine.read_random},
             {"write_contiguous", machine.write_contiguous}});
    require("instruction count", false,
            {{"generate", loops.generate},
             {"recompute", loops.recompute},
             {"decode", loops.decode},
             {"encode", loops.encode}});
}

double RecomputeModel::recompute_seconds() const {
    return (loops_.generate + loops_.recompute) / machine_.instructions + 1 / machine_.read_random +
           2 / machine_.write_contiguous;
}

double RecomputeModel::decode_seconds() const {
    return loops_.decode / machine_.instructions + 2 / machine_.read_contiguous +
           1 / machine_.read_random + 2 / machine_.write_contiguous;
}

double RecomputeModel::amortised_seconds(std::int64_t uses) const {
    if (uses < 1)
        throw make_error(ErrorCode::invalid_argument, "a relation is used at least once, got ",
                         uses);
    const double make =
        (loops_.generate + loops_.encode) / machine_.instructions + 2 / machine_.write_contiguous;
    return make / static_cast<double>(uses) + decode_seconds();
}

double RecomputeModel::threshold_instructions() const {
    return 2 * machine_.instructions / machine_.read_contiguous + loops_.decode - loops_.recompute;
}

std::int64_t RecomputeModel::break_even_uses() const {
    if (!decoding_pays()) return never;
    const double make =
        (loops_.generate + loops_.encode) * machine_.write_contiguous + 2 * machine_.instructions;
    const double saved =
        (loops_.generate + loops_.recompute - loops_.decode) * machine_.read_contiguous -
        2 * machine_.instructions;
    const double uses =
        std::ceil(machine_.read_contiguous / machine_.write_contiguous * make / saved);
    return uses < 9e18 ? std::max<std::int64_t>(1, static_cast<std::int64_t>(uses)) : never;
}

double RecomputeModel::ultimate_speedup() const {
    return recompute_seconds() / decode_seconds();
}

}  // namespace datamover
