// SPDX-License-Identifier: BSD-3-Clause
// Errors with values in their text, and how two processes differ.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "datamover/error.hpp"

namespace datamover {

using SaidPart = std::variant<std::string_view, std::int64_t, std::uint64_t, double>;

template <class Part>
SaidPart said_part(const Part& part) {
    if constexpr (std::is_same_v<Part, char>)
        return std::string_view(&part, 1);
    else if constexpr (std::is_floating_point_v<Part>)
        return double{part};
    else if constexpr (std::is_signed_v<Part>)
        return std::int64_t{part};
    else if constexpr (std::is_unsigned_v<Part>)
        return std::uint64_t{part};
    else
        return std::string_view(part);
}

/// Points and regions write themselves.
template <class Part>
decltype(auto) as_text_or_number(const Part& part) {
    if constexpr (requires { part.to_string(); })
        return part.to_string();
    else
        return (part);
}

/// As people write it: 0.3, not 0.300000.
inline std::string number_text(double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", number);
    return text.data();
}

/// Kept out of the many functions that throw, which would be a tenth larger with it.
[[gnu::noinline]] inline std::string concat_parts(std::initializer_list<SaidPart> parts) {
    std::string all;
    for (const SaidPart& part : parts)
        if (const auto* const text = std::get_if<std::string_view>(&part))
            all += *text;
        else if (const auto* const integer = std::get_if<std::int64_t>(&part))
            all += std::to_string(*integer);
        else if (const auto* const natural = std::get_if<std::uint64_t>(&part))
            all += std::to_string(*natural);
        else
            all += number_text(std::get<double>(part));
    return all;
}

[[gnu::noinline]] inline Error make_error_of(ErrorCode code,
                                             std::initializer_list<SaidPart> parts) {
    return Error(code, concat_parts(parts));
}

/// Texts and characters as they are, numbers in decimal.
template <class... Parts>
std::string concat(const Parts&... parts) {
    return concat_parts({said_part(as_text_or_number(parts))...});
}

template <class... Parts>
Error make_error(ErrorCode code, const Parts&... parts) {
    return make_error_of(code, {said_part(as_text_or_number(parts))...});
}

/// `process 3`, or `processes 1, 3`.
template <class Rank>
std::string processes_text(const std::vector<Rank>& ranks) {
    std::string text = ranks.size() == 1 ? "process" : "processes";
    for (std::size_t i = 0; i < ranks.size(); ++i) text += concat(i ? ", " : " ", ranks[i]);
    return text;
}

/// True on every process:
/// `processes 0 and 2 passed different options: op="add" on process 0, op="min" on process 2`.
inline std::string difference_text(std::string_view verb, std::string_view what, std::int64_t first,
                                   std::string_view of_first, std::int64_t second,
                                   std::string_view of_second) {
    const std::string values = of_first == of_second ? concat("both ", of_first)
                                                     : concat(of_first, " on process ", first, ", ",
                                                              of_second, " on process ", second);
    return concat("processes ", first, " and ", second, " ", verb, " different ", what, ": ",
                  values);
}

}  // namespace datamover
