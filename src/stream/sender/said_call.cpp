// SPDX-License-Identifier: BSD-3-Clause
// Exchange of the calls of all sending processes, and what they have in common. The words of a call
// that repeats the last step fit into one exchange in shared memory.
#include "stream/sender/said_call.hpp"

#include <iterator>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

/// So long an error that the others are to hear of waits for them, if they may be in a call of MPI
/// in which they wait for this process: otherwise nobody would ever see it.
constexpr std::chrono::seconds last_words_time{10};

/// Each key once for all its places that follow each other.
void pass_places(Words& words, std::vector<Decision::Place>& places) {
    struct OfKey {
        std::string key;
        std::vector<std::int64_t> places;
    };
    std::vector<OfKey> keyed;
    for (const auto& [key, place] : places) {
        if (keyed.empty() || keyed.back().key != key) keyed.push_back({key, {}});
        keyed.back().places.push_back(place);
    }
    words.pass(keyed, [&](OfKey& one) {
        words.pass(one.key).pass(one.places, [&](std::int64_t& place) { words.pass(place); });
    });
    places.clear();
    for (const OfKey& one : keyed)
        for (const std::int64_t place : one.places) places.emplace_back(one.key, place);
}

void pass_decision(Words& words, Decision& decision) {
    words.pass(decision.joined, [&](Decision::Newcomer& one) {
        words.pass(one.key).pass(one.nprocs).pass(one.takes_all);
        words.pass(one.wanted, [&](auto& wanted) { words.pass(wanted.first).pass(wanted.second); });
    });
    words.pass(decision.gone, [&](std::string& key) { words.pass(key); });
    pass_places(words, decision.dropped);
    pass_places(words, decision.to);
    words.pass(decision.is_told_by_messages).pass(decision.turn);
    pass_places(words, decision.ended);
}

}  // namespace

void SaidCall::pass(Words& words) {
    words.pass(call);
    if (call == Call::wrong) {
        words.pass(ends);
        return;
    }
    words.pass(stream).pass(was_broken_off);
    words.pass(failures, [&](PackingFailure& one) { words.pass(one.key).pass(one.why); });
    if (call == Call::add)
        words.pass(name).pass(layout_sum).pass(elem_bytes).pass(layout).pass(dtype);
    if (call == Call::decide) words.pass(name).pass(sequence).pass(number);
    if (call == Call::decide || call == Call::close) words.pass(round);
    if (call == Call::decide && round == Round::done) {
        if (words.reads()) decision.emplace();
        pass_decision(words, *decision);
    }
    if (round == Round::refused) words.pass(refusal);
}

bool SaidCall::is_same(const SaidCall& other) const {
    return call == other.call && stream == other.stream && name == other.name &&
           sequence == other.sequence && number == other.number;
}

std::string SaidCall::text() const {
    switch (call) {
        case Call::close:
            return "close()";
        case Call::end_step:
            return "end_step()";
        case Call::add:
            return concat("the first send() of array '", name, "'");
        case Call::decide:
            return concat("send() of array '", name, "' in step ", number, ", number ", sequence,
                          " of the stream");
        default:
            return "another call";
    }
}

Ends ends_in(const std::vector<SaidCall>& everyone) {
    Ends most = Ends::nothing;
    for (const SaidCall& said : everyone) most = std::max(most, said.ends);
    return most;
}

void require_same_calls(const std::vector<SaidCall>& everyone) {
    const SaidCall& first = everyone.front();
    std::vector<std::string> texts;
    for (const SaidCall& said : everyone)
        texts.push_back(said.stream == first.stream ? said.text() : "a call of another stream");
    if (!std::ranges::all_of(everyone, [&](const auto& said) { return said.is_same(first); }))
        require_same("calls", texts, "made");
}

std::vector<SaidCall> calls_of(const std::vector<Together::Numbers>& everyone) {
    std::vector<SaidCall> calls;
    for (const Together::Numbers& numbers : everyone) {
        Words words(numbers);
        calls.emplace_back().pass(words);
    }
    return calls;
}

std::vector<SaidCall> gather_calls(Together& together, SaidCall mine) {
    Words words;
    mine.pass(words);
    return calls_of(together.gather(words.numbers()));
}

void end_by_failure(Together& together, const Error& why, Ends ends) {
    if (!together.is_alone()) {
        SaidCall mine;
        mine.ends = ends;
        Words words;
        mine.pass(words);
        together.gather_within(words.numbers(), last_words_time);
    }
    together.agree(why);
    throw why;
}

}  // namespace datamover::stream
