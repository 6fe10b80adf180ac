// SPDX-License-Identifier: BSD-3-Clause
// The progress engine: pushes rounds on in waits of this process, or in a thread of its own.
#pragma once

namespace datamover {

/// Starts the progress thread at the first call, once, where DATAMOVER_PROGRESS is "thread"; it
/// ends before MPI does. Throws invalid_argument for other words.
void start_thread_if_environment_says_so();

}  // namespace datamover
