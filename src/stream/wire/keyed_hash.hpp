// SPDX-License-Identifier: BSD-3-Clause
// Keyed hash: proves knowledge of a token without sending it.
#pragma once

#include <string>
#include <string_view>

namespace datamover::stream {

/// HMAC-SHA-256 (RFC 2104, FIPS 180-4) of a text, as hexadecimal digits.
std::string keyed_hash(std::string_view key, std::string_view text);

/// Whether two texts are equal; how long it takes tells nothing of where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// So many random bytes, as hexadecimal digits; nobody can guess them. Throws io.
std::string random_digits(int bytes);

}  // namespace datamover::stream
