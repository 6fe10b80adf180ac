// SPDX-License-Identifier: BSD-3-Clause
// Compact encoding of a decision, which has to fit into one exchange.
#include "stream/decision_words.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace datamover::stream {
namespace {

using Keyed = std::vector<Decision::Place>;

/// Each key once for all its places that stand behind each other.
void write(WordWriter& words, const Keyed& places) {
    words.add(static_cast<std::int64_t>(places.size()));
    for (auto at = places.begin(); at != places.end();) {
        const auto end = std::find_if(at, places.end(),
                                      [&](const auto& other) { return other.first != at->first; });
        words.add(at->first).add(end - at);
        for (; at != end; ++at) words.add(at->second);
    }
}

Keyed places_in(WordReader& words) {
    Keyed places;
    for (std::int64_t left = words.number(); left > 0;) {
        const std::string key = words.text();
        const std::int64_t count = words.number();
        for (std::int64_t n = 0; n < count; ++n) places.emplace_back(key, words.number());
        left -= count;
    }
    return places;
}

}  // namespace

void write(WordWriter& words, const Decision& decision) {
    words.add(static_cast<std::int64_t>(decision.joined.size()));
    for (const auto& one : decision.joined) {
        words.add(one.key).add(one.nprocs).add(one.takes_all);
        words.add(static_cast<std::int64_t>(one.wanted.size()));
        for (const auto& [name, layout] : one.wanted) words.add(name).add(layout);
    }
    words.add(static_cast<std::int64_t>(decision.gone.size()));
    for (const std::string& key : decision.gone) words.add(key);
    write(words, decision.dropped);
    write(words, decision.to);
    words.add(decision.is_told_by_messages).add(decision.turn);
    write(words, decision.ended);
}

Decision decision_in(WordReader& words) {
    Decision decision;
    decision.joined.resize(static_cast<std::size_t>(words.number()));
    for (auto& one : decision.joined) {
        one.key = words.text();
        one.nprocs = words.number();
        one.takes_all = words.number() != 0;
        one.wanted.resize(static_cast<std::size_t>(words.number()));
        for (auto& [name, layout] : one.wanted) name = words.text(), layout = words.text();
    }
    decision.gone.resize(static_cast<std::size_t>(words.number()));
    for (std::string& key : decision.gone) key = words.text();
    decision.dropped = places_in(words);
    decision.to = places_in(words);
    decision.is_told_by_messages = words.number() != 0;
    decision.turn = words.number();
    decision.ended = places_in(words);
    return decision;
}

}  // namespace datamover::stream
