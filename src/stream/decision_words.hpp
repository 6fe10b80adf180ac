// SPDX-License-Identifier: BSD-3-Clause
// Encoding of the decisions that process 0 sends to the other sending processes.
#pragma once

#include "stream/agreed_words.hpp"
#include "stream/audience.hpp"

namespace datamover::stream {

void write(WordWriter& words, const Decision& decision);
/// Throws mismatch where these are no such words.
Decision decision_in(WordReader& words);

}  // namespace datamover::stream
