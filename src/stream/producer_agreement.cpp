// SPDX-License-Identifier: BSD-3-Clause
// Agreement of the sending processes on a call, and on the error that ends it on all of them.
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "stream/agreed_words.hpp"
#include "stream/producer.hpp"
#include "stream/producer_words.hpp"

namespace datamover::stream {

/// What a call of this process begins to say.
WordWriter Producer::words_of(Call call) const {
    WordWriter words;
    words.add(static_cast<std::int64_t>(call)).add(identity_);
    write_failures(words);
    return words;
}

/// What all processes say. Throws the error of one whose call is wrong.
std::vector<Together::Numbers> Producer::exchange(const Together::Numbers& mine) {
    std::vector<Together::Numbers> everyone = together_->gather(mine);
    raise_wrong_call(everyone, std::nullopt);
    return everyone;
}

/// A process that closes the stream ends it, also where the others make another call: it would not
/// take part in their `close`.
void Producer::end_where_closed(const std::vector<Together::Numbers>& everyone) {
    if (any_says(everyone, Call::close))
        end_at_once("a sending process closed the stream while others sent");
}

/// Throws the error of a process whose call was wrong, on all; before, ends what it takes no part
/// in any more. `mine` is this process's error, if its call is one of these.
void Producer::raise_wrong_call(const std::vector<Together::Numbers>& everyone,
                                const std::optional<Error>& mine) {
    if (!any_says(everyone, Call::wrong)) return;
    const Ends ends = ends_in(everyone);
    if (ends == Ends::all_streams) places_->end_streams();
    if (ends != Ends::nothing) end_at_once("a sending process has failed, which ended the stream");
    together_->agree(mine);
}

void Producer::end_at_once(const char* why) {
    if (audience_ != nullptr) audience_->refuse_all(Error(ErrorCode::peer_failed, why));
    stop();
}

void Producer::refuse(const Error& why) {
    const CallsInTurn::Turn turn(calls_, *together_);
    if (is_closed()) throw why;  // there are no calls of the others
    refuse_in_turn(why);
}

void Producer::refuse_in_turn(const Error& why) {
    if (together_->is_alone()) throw why;
    std::vector<Together::Numbers> everyone;
    try {
        everyone = together_->gather(words_of_wrong_call(Ends::nothing));
    } catch (const Error& error) {  // what was wrong at first is what the user has to know
        throw make_error(why.code(), why.what(),
                         "; the other processes could not be informed: ", error.what());
    }
    raise_wrong_call(everyone, why);
    throw why;
}

/// Throws mismatch if processes make different calls. `said_by` is what each said after its call.
void Producer::require_same_calls(const std::vector<Together::Numbers>& everyone,
                                  const std::vector<WordReader>& said_by) {
    const auto is_first_call = [&](std::size_t rank) {
        WordReader first = said_by[0], said = said_by[rank];
        if (everyone[rank].at(0) != everyone[0].at(0) || everyone[rank].at(1) != everyone[0].at(1))
            return false;
        if (says(everyone[0], Call::add)) return said.text() == first.text();
        return !says(everyone[0], Call::decide) ||
               (said.text() == first.text() && said.number() == first.number() &&
                said.number() == first.number());
    };
    std::size_t same = 1;
    while (same < everyone.size() && is_first_call(same)) ++same;
    if (same == everyone.size()) return;
    std::vector<std::string> calls;
    for (std::size_t rank = 0; rank < everyone.size(); ++rank)
        calls.push_back(everyone[rank].at(1) == everyone[0].at(1)
                            ? text_of_call(everyone[rank], said_by[rank])
                            : "a call of another stream");
    require_same("calls", calls, "made");
}

/// Has all processes hear at once.
void Producer::tell_failures() {
    const auto everyone = together_->gather(words_of(Call::pack).numbers());
    const auto ended = std::exchange(failures_, {}).ended;
    if (ended) std::rethrow_exception(ended);
    raise_wrong_call(everyone, std::nullopt);
    after_failures(everyone);
}

/// Says for whom this process has failed to pack since it said so last.
void Producer::write_failures(WordWriter& words) const {
    words.add(failures_.ended ? 1 : 0).add(static_cast<std::int64_t>(failures_.by_key.size()));
    for (const auto& [key, error] : failures_.by_key)
        words.add(key).add(static_cast<std::int64_t>(error.code())).add(error.what());
}

/// Refuses the consumers for which any process has failed; gives what each says behind that.
std::vector<WordReader> Producer::after_failures(const std::vector<Together::Numbers>& everyone) {
    failures_ = {};
    std::vector<WordReader> rest;
    for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
        WordReader& said = rest.emplace_back(everyone[rank]);
        said.number(), said.number();  // the call and the stream
        if (said.number() != 0)
            throw make_error(ErrorCode::peer_failed, "process ", rank,
                             " was interrupted while it sent");
        for (std::int64_t n = said.number(); n > 0; --n) {
            const std::string key = said.text();
            const auto code = static_cast<ErrorCode>(said.number());
            const Error why(code, said.text());
            if (audience_ != nullptr) audience_->refuse(key, why);
        }
    }
    return rest;
}

}  // namespace datamover::stream
