// SPDX-License-Identifier: BSD-3-Clause
// Agreement of the sending processes on a call, and on the error that ends it on all of them.
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "stream/sender/producer.hpp"

namespace datamover::stream {

/// What this process tells the others of its call.
SaidCall Producer::said_call(Call call) const {
    SaidCall said;
    said.call = call;
    said.stream = identity_;
    said.was_broken_off = failures_.ended != nullptr;
    for (const auto& [key, why] : failures_.by_key) said.failures.push_back({key, why});
    return said;
}

/// Throws the same error on all processes unless all make the same call, rightly. One that closes
/// the stream ends it, also if the others make another call: it would not take part in their
/// `close`.
void Producer::settle(const std::vector<SaidCall>& everyone) {
    raise_wrong_call(everyone, std::nullopt);
    take_failures(everyone);
    const auto closes = [](const SaidCall& said) { return said.call == Call::close; };
    if (std::ranges::any_of(everyone, closes) && !std::ranges::all_of(everyone, closes))
        end_at_once("a sending process closed the stream while others sent");
    require_same_calls(everyone);
}

/// Throws the error of a process whose call was wrong, on all; before, ends what it takes no part
/// in any more. `mine` is this process's error, if its call is one of these.
void Producer::raise_wrong_call(const std::vector<SaidCall>& everyone,
                                const std::optional<Error>& mine) {
    if (!any_is(everyone, Call::wrong)) return;
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
    std::vector<SaidCall> everyone;
    try {
        everyone = gather_calls(*together_, said_call(Call::wrong));
    } catch (const Error& error) {  // what was wrong at first is what the user has to know
        throw make_error(why.code(), why.what(),
                         "; the other processes could not be informed: ", error.what());
    }
    raise_wrong_call(everyone, why);
    throw why;
}

/// Tells the others at once for which consumers packing failed.
void Producer::tell_failures() {
    const std::vector<SaidCall> everyone = gather_calls(*together_, said_call(Call::pack));
    const auto ended = std::exchange(failures_, {}).ended;
    if (ended) std::rethrow_exception(ended);
    settle(everyone);
}

/// Refuses the consumers for which any process has failed.
void Producer::take_failures(const std::vector<SaidCall>& everyone) {
    failures_ = {};
    for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
        if (everyone[rank].was_broken_off)
            throw make_error(ErrorCode::peer_failed, "process ", rank,
                             " was interrupted while it sent");
        if (audience_ == nullptr) continue;
        for (const auto& [key, why] : everyone[rank].failures) audience_->refuse(key, why);
    }
}

}  // namespace datamover::stream
