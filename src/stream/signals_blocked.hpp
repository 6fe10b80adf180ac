// SPDX-License-Identifier: BSD-3-Clause
// SignalsBlocked: keeps new threads from handling the signals of the program.
#pragma once

#include <csignal>

namespace datamover::stream {

/// Threads that begin meanwhile get no signals.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

}  // namespace datamover::stream
