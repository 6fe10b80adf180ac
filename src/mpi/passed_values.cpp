// SPDX-License-Identifier: BSD-3-Clause
// Comparison of values that all processes of a group must pass alike.
#include "passed_values.hpp"

#include <algorithm>
#include <limits>

#include "geometry/difference_text.hpp"
#include "geometry/text_digest.hpp"

namespace datamover::mpi {
namespace {

/// Longer texts are cut.
constexpr std::size_t most_chars = 400;

/// The values of process 0, on all processes. Collective.
std::vector<std::int64_t> of_process_0(const ProcessGroup& group,
                                       std::span<const std::int64_t> mine) {
    const auto longest = group.maximum({static_cast<std::int64_t>(mine.size())});
    std::vector<std::int64_t> words(static_cast<std::size_t>(longest[0]) + 1,
                                    std::numeric_limits<std::int64_t>::min());
    if (group.rank() == 0) {
        words[0] = static_cast<std::int64_t>(mine.size());
        std::ranges::copy(mine, words.begin() + 1);
    }
    words = group.maximum(std::move(words));
    const auto count = words[0];
    words.erase(words.begin());
    words.resize(static_cast<std::size_t>(count));
    return words;
}

/// The text of process `rank`, on all processes. Collective.
std::string text_of(const ProcessGroup& group, int rank, std::string text) {
    if (text.size() > most_chars) {
        text.resize(most_chars - 3);
        constexpr auto continues = [](char c) { return (c & 0xC0) == 0x80; };
        while (!text.empty() && continues(text.back())) text.pop_back();  // of UTF-8
        if (!text.empty() && (text.back() & 0x80) != 0) text.pop_back();
        text += "...";
    }
    std::vector<std::int64_t> words(most_chars, 0);
    if (group.rank() == rank)
        std::ranges::transform(text, words.begin(),
                               [](char c) { return static_cast<unsigned char>(c); });
    text.clear();
    for (const std::int64_t word : group.maximum(std::move(words)))
        if (word != 0) text += static_cast<char>(word);
    return text;
}

}  // namespace

void require_same(const ProcessGroup& group, std::span<const std::int64_t> digests,
                  const std::function<PassedValue(std::size_t)>& describe, std::string_view verb) {
    const auto of_first = of_process_0(group, digests);
    const auto found = std::ranges::mismatch(digests, of_first);
    const bool differs = found.in1 != digests.end() || found.in2 != of_first.end();
    // The largest number comes from the lowest rank that differs.
    const auto lowest = group.maximum({differs ? group.size() - group.rank() : 0}).front();
    if (lowest == 0) return;
    const int other = group.size() - static_cast<int>(lowest);
    const bool is_other = group.rank() == other;
    const auto at = static_cast<std::size_t>(
        group.maximum({is_other ? found.in1 - digests.begin() : 0}).front());
    PassedValue mine;
    collectively(group, [&] {
        if ((is_other || group.rank() == 0) && at < digests.size()) mine = describe(at);
    });
    const std::string what = text_of(group, other, mine.what);
    const std::string first = text_of(group, 0, mine.value);
    const std::string second = text_of(group, other, mine.value);
    throw Error(ErrorCode::mismatch, difference_text(verb, what, 0, first, other, second));
}

void require_same(const ProcessGroup& group, const std::vector<PassedValue>& values,
                  std::string_view verb) {
    std::vector<std::int64_t> digests;
    for (const PassedValue& passed : values)
        digests.push_back(geometry::text_digest(passed.what + '\0' + passed.value));
    require_same(group, digests, [&](std::size_t i) { return values[i]; }, verb);
}

}  // namespace datamover::mpi
