// SPDX-License-Identifier: BSD-3-Clause
// Buffering of bytes that the system does not accept at once.
#include "stream/unsent.hpp"

#include "datamover/error.hpp"

namespace datamover::stream {

bool Unsent::send(std::span<const std::byte> bytes) {
    const std::lock_guard lock(lock_);
    if (is_broken_) return true;
    const bool is_first = kept_.empty();
    kept_.insert(kept_.end(), bytes.begin(), bytes.end());
    if (is_first) try_to_send();
    return kept_.empty();
}

bool Unsent::send_more() {
    const std::lock_guard lock(lock_);
    try_to_send();
    return kept_.empty();
}

bool Unsent::is_empty() const {
    const std::lock_guard lock(lock_);
    return kept_.empty();
}

void Unsent::try_to_send() {
    if (kept_.empty()) return;
    try {
        const std::size_t count = connection_.send_now(kept_);
        kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
    } catch (const Error&) {
        is_broken_ = true;
        kept_.clear();
        connection_.end();
    }
}

}  // namespace datamover::stream
