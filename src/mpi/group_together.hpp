// SPDX-License-Identifier: BSD-3-Clause
// How do the sending processes of a stream agree, where they are those of a communicator?
#pragma once

#include <memory>

#include "mpi/process_group.hpp"
#include "stream/together.hpp"

namespace datamover::mpi {

/// Waits as movers do: with deadlines, told of failures, interruptible.
class GroupTogether : public stream::Together {
public:
    explicit GroupTogether(ProcessGroupPtr group) : group_(std::move(group)) {}

    int rank() const override { return group_->rank(); }
    int size() const override { return group_->size(); }
    void agree(const std::optional<Error>& mine) override { group_->agree(mine); }
    std::vector<Numbers> gather(const Numbers& mine) override { return group_->gather(mine); }
    void look_for_interrupt() override { check_interrupt(); }

private:
    const ProcessGroupPtr group_;
};

}  // namespace datamover::mpi
