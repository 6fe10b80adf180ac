// SPDX-License-Identifier: BSD-3-Clause
// What has come of a try to do what can be done now?
#pragma once

namespace datamover {

enum class Progress {
    none,      ///< nothing could be done
    some,      ///< something was done: more may be possible soon
    complete,  ///< all of the round is done
};

}  // namespace datamover
