// SPDX-License-Identifier: BSD-3-Clause
// Check that processes of different nodes use their turns for the same movers.
//
// Each tells the process after it, in a ring of all, which binding it begins, where that process is
// on another node. Those of one node compare on their boards (FailureBoard::claim_ticket). So every
// two that follow each other are compared, and not all can be right where two of them differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mpi/byte_message.hpp"
#include "mpi/process_group.hpp"

namespace datamover::transport {

class OrderCheck {
public:
    /// Of the binding `number`, the same on all processes. Local.
    OrderCheck(mpi::ProcessGroupPtr group, int number);
    ~OrderCheck();
    OrderCheck(const OrderCheck&) = delete;
    OrderCheck& operator=(const OrderCheck&) = delete;

    /// A turn begins, in the order of the group's turns. The last one's check has ended.
    void begin();
    /// Whether the check of the turn has ended. Throws mismatch where the process before uses it
    /// for another binding.
    bool is_done();

private:
    struct Numbers {
        std::int64_t own = 0, theirs = 0;
    };
    struct Message {
        bool is_there = false, is_under_way = false;
        std::size_t request = 0;
    };
    bool has_ended(Message& message);

    mpi::ProcessGroupPtr group_;
    int before_;                        ///< the process before this one
    std::shared_ptr<Numbers> numbers_;  ///< what MPI may still look at
    mpi::PersistentRequests requests_;
    Message sent_, received_;
};

}  // namespace datamover::transport
