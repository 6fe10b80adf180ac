// SPDX-License-Identifier: BSD-3-Clause
// How does a program wait for connections that may bring something in a moment?
#pragma once

#include <chrono>
#include <span>

#include <poll.h>

namespace datamover::stream {

/// As poll, but stays awake at first and gives way to others that want its processor. To be woken
/// takes whoever sends longer than to send a short message.
int awake_poll(std::span<pollfd> waiting, std::chrono::milliseconds time);

}  // namespace datamover::stream
