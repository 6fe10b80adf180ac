// SPDX-License-Identifier: BSD-3-Clause
// Releasing the interpreter lock during a call, also if Python ends meanwhile.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace datamover::bindings {

/// Without the interpreter lock as long as this lives.
///
/// Where Python ends meanwhile, a daemon thread never gets the lock again: until Python 3.13 it is
/// ended within the call that asks for it, by unwinding, which in a destructor ends the program.
/// So it stays there until the program has ended, as Python 3.14 has it stay.
class Unlocked {
public:
    Unlocked() : thread_(PyEval_SaveThread()) {}
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;
    ~Unlocked() {
        try {
            PyEval_RestoreThread(thread_);
        } catch (...) {  // the unwinding: Python throws nothing
            while (true) ::pause();
        }
    }

private:
    PyThreadState* thread_;
};

}  // namespace datamover::bindings
