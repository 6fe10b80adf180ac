// SPDX-License-Identifier: BSD-3-Clause
// Observed behavior of the sending program, shared by the connections of a process.
#pragma once

namespace datamover::stream {

struct SendingHabits {
    /// What receiving processes say the program may hear later, where it comes often.
    bool may_hear_later = false;
    bool is_one_of_several = false;  ///< processes that send
};

}  // namespace datamover::stream
