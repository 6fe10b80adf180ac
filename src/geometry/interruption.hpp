// SPDX-License-Identifier: BSD-3-Clause
// Interruption: marks exceptions by which the user ends a call, which are no error of it.
#pragma once

namespace datamover {

/// A base of such an exception, besides std::exception. Everything else that a call throws is an
/// error.
class Interruption {};

}  // namespace datamover
