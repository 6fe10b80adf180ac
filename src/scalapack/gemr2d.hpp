// SPDX-License-Identifier: BSD-3-Clause
// What is left of a call of p?gemr2d for those who ask afterwards?
#pragma once

namespace datamover {

/// Of this thread's last call: its code (0: it succeeded).
int gemr2d_code() noexcept;

}  // namespace datamover
