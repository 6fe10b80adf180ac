// SPDX-License-Identifier: BSD-3-Clause
// Numbers in environment variables.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace datamover::memory {

/// The integer of at least 0 that the variable holds, and nothing besides; empty where it holds
/// anything else, or is not set.
inline std::optional<std::int64_t> environment_number(const char* name) {
    const char* set = std::getenv(name);
    const std::string_view text = set ? set : "";
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
    return number;
}

}  // namespace datamover::memory
