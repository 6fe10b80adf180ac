// SPDX-License-Identifier: BSD-3-Clause
// Lock for a call of the receiving program, which takes precedence over the receiving thread.
#pragma once

#include "stream/consumer.hpp"

namespace datamover::stream {

/// Has the lock of a consumer.
class Consumer::Entered {
public:
    explicit Entered(Consumer& consumer) {
        ++consumer.wanting_;
        lock_ = Lock(consumer.turns_->lock);
        --consumer.wanting_;
    }
    Lock& lock() { return lock_; }

private:
    Lock lock_;
};

}  // namespace datamover::stream
