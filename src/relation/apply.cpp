// SPDX-License-Identifier: BSD-3-Clause
// Applying a relation to memory, once or repeatedly.
#include <mutex>
#include <utility>

#include "copy_program.hpp"
#include "datamover/advanced/address_relation.hpp"
#include "geometry/make_error.hpp"
#include "storage.hpp"

namespace datamover {
namespace {

using ProgramPtr = std::shared_ptr<const CopyKernel::Program>;

/// What is kept for a key with a relation, made by the first call. The oldest goes when there are
/// many; what does not pass `keeps` is only returned.
template <class Key, class Made, class Make, class Keeps>
Made kept(std::mutex& mutex, std::vector<std::pair<Key, Made>>& all, const Key& key, Make&& make,
          Keeps&& keeps) {
    {
        const std::lock_guard<std::mutex> lock(mutex);
        for (const auto& [known, made] : all)
            if (known == key) return made;
    }
    Made made = make();
    if (!keeps(made)) return made;
    constexpr std::size_t most = 4;
    const std::lock_guard<std::mutex> lock(mutex);
    if (all.size() == most) all.erase(all.begin());
    all.emplace_back(key, made);
    return made;
}

ProgramPtr kept_program(const AddressRelation::Storage& storage, const ElementUpdate& update) {
    RelationMemo& memo = storage.memo();
    return kept(
        memo.mutex, memo.kernels, update,
        [&]() -> ProgramPtr { return compile_program(storage, update); },
        [](const ProgramPtr&) { return true; });
}

AddressRelation kept_half(const StoragePtr& storage, Side side, std::int64_t message_elem_bytes) {
    RelationMemo& memo = storage->memo();
    return kept(
        memo.mutex, memo.halves, {side, message_elem_bytes},
        [&] { return RelationAccess::make(storage).half(side, message_elem_bytes); },
        // Its own half, kept, would keep itself alive.
        [&](const AddressRelation& half) { return RelationAccess::storage(half) != storage; });
}

/// Asked first: what follows takes time in the elements, which bytes from outside may overstate.
void require_room(std::int64_t elems, AddressBounds buffer_memory) {
    const std::int64_t bytes = buffer_memory.end_bytes - buffer_memory.begin_bytes;
    if (elems > bytes)
        throw make_error(ErrorCode::out_of_range, "the buffer has ", bytes, " bytes, too few for ",
                         elems, " elements");
}

}  // namespace

CopyKernel RelationCopies::kept_kernel(const ElementUpdate& update) const {
    // The program does not keep the relation, which keeps the program; the kernel keeps both.
    const auto both = std::make_shared<const std::pair<StoragePtr, ProgramPtr>>(
        storage_, kept_program(*storage_, update));
    return CopyKernel(ProgramPtr(both, both->second.get()));
}

void RelationCopies::copy(const void* source, void* destination,
                          const ElementUpdate& update) const {
    require_unambiguous(update);
    kept_program(*storage_, update)
        ->run(static_cast<const char*>(source), static_cast<char*>(destination));
}

void RelationCopies::gather(const void* source, void* buffer) const {
    kept_half(storage_, Side::source, 0).copy(source, buffer);
}

void RelationCopies::scatter(const void* buffer, void* destination,
                             const ElementUpdate& update) const {
    require_unambiguous(update);
    kept_half(storage_, Side::destination, scalar_bytes(update.source_type))
        .copy(buffer, destination, update);
}

BoundCopy RelationCopies::bind(const void* source, AddressBounds source_memory, void* destination,
                               AddressBounds destination_memory,
                               const ElementUpdate& update) const {
    require_inside(Side::source, source_memory, "source");
    require_inside(Side::destination, destination_memory, "destination");
    require_unambiguous(update);
    return BoundCopy(kept_kernel(update), source, destination);
}

BoundCopy RelationCopies::bind_gather(const void* source, AddressBounds source_memory, void* buffer,
                                      AddressBounds buffer_memory) const {
    require_room(size(), buffer_memory);
    const AddressRelation half = kept_half(storage_, Side::source, 0);
    half.require_inside(Side::source, source_memory, "source");
    half.require_inside(Side::destination, buffer_memory, "buffer");
    return BoundCopy(half.kept_kernel(), source, buffer);
}

BoundCopy RelationCopies::bind_scatter(const void* buffer, AddressBounds buffer_memory,
                                       void* destination, AddressBounds destination_memory,
                                       const ElementUpdate& update) const {
    require_room(size(), buffer_memory);
    const AddressRelation half =
        kept_half(storage_, Side::destination, scalar_bytes(update.source_type));
    half.require_inside(Side::source, buffer_memory, "buffer");
    half.require_inside(Side::destination, destination_memory, "destination");
    require_unambiguous(update);
    return BoundCopy(half.kept_kernel(update), buffer, destination);
}

}  // namespace datamover
