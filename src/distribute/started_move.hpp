// SPDX-License-Identifier: BSD-3-Clause
// A move of elements between start and wait.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "agreement.hpp"
#include "migration_state.hpp"

namespace datamover::distribute {

/// What a process brings to a move that it starts.
struct StartArguments {
    LocalError local_error;  ///< what kept it from taking part
    std::vector<ElementColumn> columns;
    std::vector<ElementBuffer> results;
};

/// A move in flight. It is the round of an operation that first hears whether all processes take
/// part, then carries the elements; where one does not, it ends there, and all raise that when they
/// wait.
class StartedMove {
public:
    /// Begins, and waits for nobody, unless the operation that was begun as many before as there
    /// may be in flight is not complete: then for that. All processes begin theirs in the same
    /// order. Throws peer_failed, invalid_state (too many in flight).
    StartedMove(State& state, StartArguments arguments);
    ~StartedMove();
    StartedMove(const StartedMove&) = delete;
    StartedMove& operator=(const StartedMove&) = delete;

    /// Both are collective only where some process could not take part: then they raise that.
    bool test();
    void wait(std::optional<double> timeout_seconds);
    /// Until test or wait has told of its end, whichever thread completed it.
    bool in_flight() const;

private:
    class Steps;

    SlotClaim claim_;
    std::unique_ptr<Steps> steps_;
    Round round_;
    bool is_told_ = false;  ///< of the thread that uses the migration
};

}  // namespace datamover::distribute
