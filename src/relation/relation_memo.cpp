// SPDX-License-Identifier: BSD-3-Clause
// Results of queries on a relation, computed once.
#include "relation_memo.hpp"

namespace datamover {

AddressRelation::Storage::~Storage() {
    delete memo_.load(std::memory_order_acquire);
}

RelationMemo& AddressRelation::Storage::memo() const {
    RelationMemo* known = memo_.load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    auto fresh = std::make_unique<RelationMemo>();
    if (memo_.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
        return *fresh.release();
    return *known;
}

void pass_on_repeats(const AddressRelation::Storage& from, const AddressRelation::Storage& to) {
    if (!from.has_memo()) return;
    std::optional<bool> repeats;
    {
        const std::lock_guard<std::mutex> lock(from.memo().mutex);
        repeats = from.memo().repeats;
    }
    if (!repeats) return;
    const std::lock_guard<std::mutex> lock(to.memo().mutex);
    to.memo().repeats = repeats;
}

}  // namespace datamover
