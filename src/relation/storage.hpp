// SPDX-License-Identifier: BSD-3-Clause
// The interface of all encodings, and what is remembered of a relation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "address_pair.hpp"
#include "datamover/advanced/address_relation.hpp"
#include "geometry/first_use.hpp"

namespace datamover {

/// `elems` elements whose addresses advance by fixed steps on either side; all in bytes.
struct StridedRun {
    AddressPair start;
    std::int64_t elems = 1;
    AddressPair step;
};

using RunVisitor = std::function<void(const StridedRun&)>;

/// The pairs of a relation, in order, as strided runs: of one that is stored, or of one that exists
/// only as a walk over others.
struct RelationWalk {
    AddressPair elem_bytes;
    std::int64_t elems = 0;
    std::function<void(const RunVisitor&)> visit;
};

/// Results of queries on a relation, shared by all its copies; made when the first answer is worth
/// keeping. Whoever reads or writes halves and kernels holds the mutex, but not while one is made:
/// two threads may do so twice, and find the same.
struct RelationMemo {
    using HalfKey = std::pair<Side, std::int64_t>;  ///< and the element size in the message

    std::mutex mutex;
    PerSide<geometry::FirstUse<AddressBounds>> bounds;
    PerSide<geometry::FirstUse<bool>> contiguous;
    geometry::FirstUse<bool> repeats;
    std::vector<std::pair<HalfKey, AddressRelation>> halves;
    /// Programs without the storage: no cycle.
    std::vector<std::pair<ElementUpdate, std::shared_ptr<const CopyKernel::Program>>> kernels;
};

/// One encoded relation: an immutable value shared by all copies of an AddressRelation.
struct [[gnu::visibility("hidden")]] RelationQueries::Storage {
    Storage(Encoding of, AddressPair elem) : encoding(of), elem_bytes(elem) {}
    virtual ~Storage();

    virtual std::int64_t nbytes() const = 0;
    /// Calls visit for strided runs, in order, decoding as it goes.
    virtual void visit(const RunVisitor& visit) const = 0;
    RelationWalk walk() const {
        return {elem_bytes, elems, [this](const RunVisitor& visitor) { visit(visitor); }};
    }

    /// What has been found out about this relation. Safe to call from several threads.
    RelationMemo& memo() const;
    bool has_memo() const { return memo_.load(std::memory_order_acquire) != nullptr; }

    const Encoding encoding;
    const AddressPair elem_bytes;
    std::int64_t elems = 0;

private:
    mutable std::atomic<RelationMemo*> memo_{nullptr};
};

using StoragePtr = std::shared_ptr<const AddressRelation::Storage>;

/// Passes on what is known of the destinations of `from` to a relation that has the same ones.
void pass_on_repeats(const AddressRelation::Storage& from, const AddressRelation::Storage& to);

/// Lets the files of this room look into a relation and make one.
struct [[gnu::visibility("hidden")]] RelationAccess {
    static const StoragePtr& storage(const AddressRelation& relation) { return relation.storage_; }
    static AddressRelation make(StoragePtr storage) { return AddressRelation(std::move(storage)); }
};

}  // namespace datamover
