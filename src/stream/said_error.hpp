// SPDX-License-Identifier: BSD-3-Clause
// Error that the other end of a stream reports. Its content is not trusted.
#pragma once

#include <cstddef>

#include "datamover/error.hpp"
#include "stream/fields.hpp"

namespace datamover::stream {

/// Most bytes of an error's words that are said, and read.
inline constexpr std::size_t max_words = 2000;

/// Words that are not too long, cut between characters.
std::string few_words(std::string words);
/// peer_failed where the code is none that is known. Throws io.
Error said_error(const Value& said);

}  // namespace datamover::stream
