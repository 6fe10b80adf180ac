// SPDX-License-Identifier: BSD-3-Clause
// Results of queries on a relation, computed once.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "datamover/side.hpp"
#include "storage.hpp"

namespace datamover {

/// Shared by all copies of a relation; made when the first answer is worth keeping. Whoever reads
/// or writes holds the mutex, but not while an answer is worked out: two threads may do so twice,
/// and find the same.
struct RelationMemo {
    struct Half {
        Side side;
        std::int64_t message_elem_bytes;
        AddressRelation relation;
    };
    struct Kernel {
        ElementUpdate update;
        std::shared_ptr<const CopyKernel::Program> program;  ///< without the storage: no cycle
    };

    /// Remembers a half or kernel; the oldest goes when there are many.
    template <class T>
    static void keep(std::vector<T>& kept, T fresh) {
        constexpr std::size_t most = 4;
        if (kept.size() == most) kept.erase(kept.begin());
        kept.push_back(std::move(fresh));
    }

    std::mutex mutex;
    PerSide<std::optional<AddressBounds>> bounds;
    PerSide<std::optional<bool>> contiguous;
    std::optional<bool> repeats;
    std::vector<Half> halves;
    std::vector<Kernel> kernels;
};

}  // namespace datamover
