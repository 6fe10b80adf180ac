// SPDX-License-Identifier: BSD-3-Clause
// In which words does process 0 tell the other sending processes what it has decided?
#pragma once

#include "stream/agreed_words.hpp"
#include "stream/audience.hpp"

namespace datamover::stream {

void write(WordWriter& words, const Decision& decision);
/// Throws mismatch where these are no such words.
Decision decision_in(WordReader& words);

}  // namespace datamover::stream
