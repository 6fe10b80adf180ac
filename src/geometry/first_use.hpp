// SPDX-License-Identifier: BSD-3-Clause
// Values computed once, at first use.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

namespace datamover::geometry {

/// A value that the thread that asks first works out; others that ask meanwhile wait for it. By a
/// lock, since std::call_once calls the system, which takes longer than to plan a small move.
template <class Value>
class FirstUse {
public:
    /// Where `make` throws, the next to ask tries again.
    template <class Make>
    const Value& get(Make&& make) const {
        if (!is_known()) {
            const std::lock_guard lock(making_);
            if (!value_) value_.emplace(make());
            is_known_.store(true, std::memory_order_release);
        }
        return *value_;
    }
    bool is_known() const { return is_known_.load(std::memory_order_acquire); }

private:
    mutable std::mutex making_;
    mutable std::atomic<bool> is_known_ = false;
    mutable std::optional<Value> value_;
};

}  // namespace datamover::geometry
