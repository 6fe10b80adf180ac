// SPDX-License-Identifier: BSD-3-Clause
// The order in which a migration delivered its elements.
//
// In stable order as a rule. Otherwise an order follows from how it was delivered, and is found out
// only when values go back: labels are delivered in the same way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datamover/migration.hpp"

namespace datamover::distribute {

using State = Migration::State;
class NodeSlot;

/// How elements were delivered, as far as their order follows from it.
struct Delivery {
    std::string method;
    bool in_place = false;
    std::int64_t capacity_elems = 0;  ///< of the buffer
    std::int64_t scratch_elems = 0;   ///< beside the buffer
    /// Of the move, where the order depends on what other processes may have changed.
    std::int64_t number = 0;
    bool operator==(const Delivery&) const = default;
};

/// The orders of the moves so far. An empty delivery stands for the stable order.
class ArrivalOrders {
public:
    void record(ArrivedBy by, const std::optional<Delivery>& delivery);
    /// The delivery whose order counts. Throws invalid_state where there were two and `by` does not
    /// say which.
    const std::optional<Delivery>& chosen(ArrivedBy by) const;
    /// Where the element that is number i in stable order has arrived; empty: at place i.
    /// Collective.
    const std::vector<std::int64_t>& places(State& state, NodeSlot& slot,
                                            const std::optional<Delivery>& delivery);
    std::int64_t kept_bytes() const {
        return static_cast<std::int64_t>(places_.size() * sizeof(std::int64_t));
    }

private:
    std::optional<Delivery> move_, in_place_;
    bool moved_ = false, moved_in_place_ = false, differ_ = false;
    std::optional<Delivery> known_;  ///< whose places are kept
    std::vector<std::int64_t> places_;
};

}  // namespace datamover::distribute
