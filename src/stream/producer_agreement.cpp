// SPDX-License-Identifier: BSD-3-Clause
// Agreement of the sending processes on a call, and on the error that ends it on all of them.
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
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
    words.add(static_cast<std::int64_t>(call)).add(repeated_.sends());
    write_failures(words);
    return words;
}

/// What all processes say. Throws the error of one whose call is wrong, and mismatch where they are
/// at different calls.
std::vector<Together::Numbers> Producer::exchange(const Together::Numbers& mine) {
    std::vector<Together::Numbers> everyone = together_->gather(mine);
    settle(everyone);
    return everyone;
}

void Producer::settle(const std::vector<Together::Numbers>& everyone) {
    const bool were_apart = bring_together(everyone);
    raise_wrong_call(everyone, std::nullopt);
    if (were_apart) raise_apart(everyone);
}

/// Where some processes have sent repeated steps that others have not, takes all of these for sent,
/// so that the next call is the same one for all; consumers that have got parts of steps get no
/// more. Whether it was so.
bool Producer::bring_together(const std::vector<Together::Numbers>& everyone) {
    const auto has_sent_as_many = [this](const Together::Numbers& said) {
        return sends_of(said) == repeated_.sends();
    };
    if (!repeated_.may_differ() || std::ranges::all_of(everyone, has_sent_as_many)) return false;
    std::tie(sequence_, step_) = repeated_.skip();
    names_of_step_.clear();
    if (audience_ != nullptr)
        audience_->refuse_all(
            Error(ErrorCode::peer_failed, "the sending processes made different calls"));
    return true;
}

/// Throws what has brought processes to different calls.
void Producer::raise_apart(const std::vector<Together::Numbers>& everyone) {
    after_failures(everyone);
    end_where_closed(everyone);
    const auto most = std::ranges::max_element(everyone, {}, sends_of);
    const auto least = std::ranges::min_element(everyone, {}, sends_of);
    throw make_error(ErrorCode::mismatch, "process ", least - everyone.begin(),
                     says(*least, Call::close) ? " closes the stream after " : " has sent ",
                     sends_of(*least), " arrays, process ", most - everyone.begin(), " has sent ",
                     sends_of(*most));
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
        const Together::Numbers mine = words_of_wrong_call(repeated_.sends(), Ends::nothing);
        everyone = repeated_.may_differ() ? together_->gather_within(mine, last_words_time)
                                          : together_->gather(mine);
    } catch (const Error& error) {  // what was wrong at first is what the user has to know
        throw make_error(why.code(), why.what(),
                         "; the other processes could not be informed: ", error.what());
    }
    bring_together(everyone);
    raise_wrong_call(everyone, why);
    throw why;
}

/// Throws mismatch if processes make different calls. `said_by` is what each said after its call.
void Producer::require_same_calls(const std::vector<Together::Numbers>& everyone,
                                  const std::vector<WordReader>& said_by) {
    const auto is_first_call = [&](std::size_t rank) {
        WordReader first = said_by[0], said = said_by[rank];
        if (everyone[rank].at(0) != everyone[0].at(0)) return false;
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
        calls.push_back(text_of_call(everyone[rank], said_by[rank]));
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
        said.number(), said.number();  // the call, and how many arrays were sent
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
