// SPDX-License-Identifier: BSD-3-Clause
// Exchange of notices between all processes.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "distribution_state.hpp"

namespace datamover::distribute {

/// On the node a notice is one number.
std::int64_t packed(const Notice& mine);
/// The notices that have come through a slot.
Notices collected_notices(const State& state, const NodeSlot& slot, const Notice& mine);

/// The reduction that tells the notices of all processes.
class NoticeReduction {
public:
    NoticeReduction(const mpi::ProcessGroup& group, const Notice& mine);
    ~NoticeReduction();
    NoticeReduction(const NoticeReduction&) = delete;
    NoticeReduction& operator=(const NoticeReduction&) = delete;

    bool has_begun() const { return begun_; }
    /// Never waits. All processes begin theirs in the same order.
    void begin();
    bool is_complete();
    Notices result() const;

private:
    /// A notice as numbers of which the largest of all processes tells all.
    using Numbers = std::array<std::int64_t, 4>;
    struct Buffers {
        Numbers mine{}, largest{};
    };
    const mpi::ProcessGroup& group_;
    std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();
    MPI_Request request_ = MPI_REQUEST_NULL;
    bool begun_ = false;
};

/// One exchange of notices: on a node through a slot, beyond it by a reduction.
class NoticeExchange {
public:
    NoticeExchange(const State& state, NodeSlot& slot, const Notice& mine);
    /// Never waits. All processes begin theirs in the same order.
    void begin();
    /// Once it is true, `result` tells what all have told.
    bool is_complete();
    Notices result() const;

private:
    const State& s_;
    NodeSlot& slot_;
    Notice mine_;
    std::optional<NoticeReduction> reduction_;  ///< where the communicator goes beyond the node
};

}  // namespace datamover::distribute
