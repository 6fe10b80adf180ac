// SPDX-License-Identifier: BSD-3-Clause
// What does every encoding of a relation offer to the rest of the room?
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "datamover/address_relation.hpp"

namespace datamover {

/// `elems` elements whose addresses advance by fixed steps on either side; all in bytes.
struct StridedRun {
    std::int64_t source = 0;
    std::int64_t destination = 0;
    std::int64_t elems = 1;
    std::int64_t source_step = 0;
    std::int64_t destination_step = 0;
};

using RunVisitor = std::function<void(const StridedRun&)>;

/// One encoded relation: an immutable value shared by all copies of an AddressRelation.
struct AddressRelation::Storage {
    Storage(std::int64_t source_elem, std::int64_t destination_elem)
        : source_elem_bytes(source_elem), destination_elem_bytes(destination_elem) {}
    virtual ~Storage() = default;

    virtual Encoding encoding() const = 0;
    virtual std::int64_t size() const = 0;
    virtual std::int64_t nbytes() const = 0;
    /// Calls visit for strided runs, in order, decoding as it goes.
    virtual void visit(const RunVisitor& visit) const = 0;

    const std::int64_t source_elem_bytes;
    const std::int64_t destination_elem_bytes;
    /// Whether destinations repeat, once somebody has asked.
    enum class Repeats : std::uint8_t { unknown, no, yes };
    mutable std::atomic<Repeats> repeats{Repeats::unknown};
};

using StoragePtr = std::shared_ptr<const AddressRelation::Storage>;

/// Lets the files of this room look into a relation and make one.
struct RelationAccess {
    static const StoragePtr& storage(const AddressRelation& relation) { return relation.storage_; }
    static AddressRelation make(StoragePtr storage) { return AddressRelation(std::move(storage)); }
};

}  // namespace datamover
