// SPDX-License-Identifier: BSD-3-Clause
// Sending of an array of a step: selecting its consumers and packing their messages.
#include <sched.h>

#include <exception>
#include <new>
#include <utility>

#include "geometry/make_error.hpp"
#include "plan/compile.hpp"
#include "stream/sender/producer.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {
namespace {

/// While process 0 waits for a consumer the others hear from it this often.
constexpr std::chrono::milliseconds round_time{50};

}  // namespace

OutgoingRelations::OutgoingRelations(const Layout& source, const Layout& destination, int rank,
                                     std::int64_t elem_bytes)
    : plan_(plan_between(source, destination)), rank_(rank), elem_bytes_(elem_bytes) {}

std::vector<Outgoing> OutgoingRelations::of(const MemoryLayout& memory) {
    if (!memory_ || !(*memory_ == memory)) {
        memory_.reset();
        relations_.clear();
        const plan::RelationSide from{&plan_.source(), &memory, elem_bytes_, rank_};
        for (const PeerPart& peer : plan_.outgoing(rank_)) {
            const plan::RelationSide message{&plan_.destination(), nullptr, elem_bytes_, peer.rank};
            relations_.push_back({static_cast<int>(peer.rank),
                                  plan::compile(peer.part, from, message),
                                  PackingPieces(peer.part, from, message)});
        }
        memory_ = memory;
    }
    std::vector<Outgoing> outgoing;
    for (const auto& [peer, relation, pieces] : relations_)
        outgoing.push_back({peer, &relation, pieces.empty() ? nullptr : &pieces});
    return outgoing;
}

void Producer::send(const std::string& name, const SentPart& part,
                    std::optional<std::int64_t> step) {
    require_own_process();
    const CallsInTurn::Turn turn(calls_, *together_);
    check_open();
    std::int64_t number = 0;
    if (const auto wrong = error_in(*together_, [&] { number = checked(name, part, step); }))
        refuse_in_turn(*wrong);
    if (!arrays_.contains(name)) add(name, part);
    const bool begins = !step || number != step_ || names_of_step_.empty();
    const std::int64_t sequence = sequence_ + begins;
    const SentCall call{name, arrays_.at(name).number, sequence, number};
    try {
        const Decision decision = decide(call);
        sequence_ = sequence;
        step_ = number;
        if (begins) names_of_step_.clear();
        names_of_step_.insert(name);
        pack(call, decision, part);
        if (places_->ends_each_array()) names_of_step_.clear();
    } catch (const WrongCall& wrong_call) {
        std::rethrow_exception(wrong_call.what);
    } catch (const Error& error) {
        // All processes know that nothing was packed: the array can be sent again.
        if (error.code() == ErrorCode::mismatch || error.code() == ErrorCode::timeout ||
            error.code() == ErrorCode::invalid_state)
            withdraw("the sending processes made different calls");
        else
            abandon(sequence, number);
        throw;
    } catch (...) {
        abandon(sequence, number);
        throw;
    }
}

/// Ends a step of which consumers got perhaps a part: an exception came in between.
void Producer::abandon(std::int64_t sequence, std::int64_t number) {
    sequence_ = sequence;
    step_ = number;
    names_of_step_.clear();
    withdraw("the sending program was interrupted while it sent a step");
}

/// Ends consumers that process 0 has decided on, where that was not done.
void Producer::withdraw(const char* why) {
    if (audience_ == nullptr) return;
    audience_->stop_waiting();
    audience_->withdraw(Error(ErrorCode::peer_failed, why));
}

bool Producer::wait_in_round(const std::function<bool(std::chrono::milliseconds)>& wait) {
    const Clock::time_point end = Clock::now() + round_time;
    bool is_there = false;
    do {
        together_->look_around();
        is_there = wait(std::min(round_time, together_->look_time()));
    } while (!is_there && Clock::now() < end);
    return is_there;
}

/// Learns from process 0 who gets an array; waits where a consumer must not miss it. In the first
/// round all hear, too, whether all make this call, rightly: until then process 0 only foresees
/// what it decides.
Decision Producer::decide(const SentCall& call) {
    const Deadline deadline = deadline_after(options_.timeout_seconds);
    const Clock::time_point awake_end = Clock::now() + awake_time;
    for (bool is_agreed = together_->is_alone();; is_agreed = true) {
        std::optional<Decision> mine;
        SaidCall said = said_call(Call::decide);
        std::exception_ptr ended;
        // What other streams of a manager may change meanwhile is not foreseen.
        if (audience_ != nullptr && (is_agreed || !has_manager_)) {
            const auto look = [&](std::chrono::milliseconds time) {
                if (is_agreed) {
                    mine = audience_->decide(call.array, call.sequence, call.number, time);
                    return mine.has_value();
                }
                Audience::Foreseen foreseen = audience_->foresee(call.array, call.sequence, time);
                mine = std::move(foreseen.decision);
                return mine || foreseen.needs_more;
            };
            try {
                const bool is_there = wait_in_round([&](std::chrono::milliseconds time) {
                    if (closed_)  // by another thread
                        throw Error(ErrorCode::invalid_state, "the stream is closed");
                    bool is_found = look({});
                    while (!is_found && Clock::now() < awake_end) {
                        outbox_->hear();
                        is_found = look({});
                        if (!is_found) ::sched_yield();
                    }
                    if (is_found) return true;
                    outbox_->leave();
                    return look(time);
                });
                said.round = mine                             ? Round::done
                             : !is_there && is_over(deadline) ? Round::late
                                                              : Round::goes_on;
            } catch (const Error& error) {  // told to the others, as all that comes here
                said.refusal = error;
                said.round = Round::refused;
            } catch (...) {
                ended = std::current_exception();
                said.round = Round::interrupted;
            }
        }
        // Nobody else is to hear of it, nor has anything to say.
        if (mine && together_->is_alone() && !has_failures()) return *std::move(mine);
        said.name = call.name;
        said.sequence = call.sequence;
        said.number = call.number;
        const bool is_foreseen = mine && !is_agreed;
        said.decision = std::move(mine);
        std::vector<SaidCall> everyone;
        try {
            everyone = gather_calls(*together_, std::move(said));
        } catch (...) {  // the others perhaps do it
            if (is_foreseen) audience_->carry_out(call.array, call.sequence, call.number);
            throw;
        }
        try {
            raise_wrong_call(everyone, std::nullopt);
        } catch (...) {
            throw WrongCall{ended ? ended : std::current_exception()};
        }
        if (ended) std::rethrow_exception(ended);
        settle(everyone);
        if (is_foreseen) audience_->carry_out(call.array, call.sequence, call.number);
        SaidCall& first = everyone[0];
        switch (first.round) {
            case Round::goes_on:
                break;
            case Round::done:
                return *std::move(first.decision);
            case Round::refused:
                throw Error(first.refusal);
            case Round::interrupted:
                throw Error(ErrorCode::peer_failed, "process 0 was interrupted while it sent");
            case Round::late:
                throw make_error(ErrorCode::timeout,
                                 "a consumer took no step, or too few came, within ",
                                 *options_.timeout_seconds, " s");
        }
    }
}

/// Takes note of consumers that came and went, and of dropped steps.
void Producer::hear(const Decision& decision) {
    for (const auto& one : decision.joined) {
        Wanted wanted;
        wanted.takes_all = one.takes_all;
        for (const auto& [name, layout] : one.wanted)
            wanted.layouts.insert_or_assign(name, layout_of_bytes(layout, one.nprocs));
        wanted_.insert_or_assign(one.key, std::move(wanted));
        outbox_->open(one.key, static_cast<int>(one.nprocs));
    }
    for (const auto& [key, place] : decision.dropped)
        outbox_->drop(key, static_cast<std::uint64_t>(place));
    for (const std::string& key : decision.gone) {
        outbox_->forget(key);
        wanted_.erase(key);
        std::erase_if(relations_, [&key](const auto& entry) { return entry.first.first == key; });
    }
    for (const Turn& turn : decision.ended) places_->end_turn(turn);
    places_->begin_turn({name_, decision.turn});
}

/// Packs an array for each consumer. One for which that fails anywhere is refused: now, or, where
/// the messages say all of the step, with the next call. That may be long after one of another
/// stream of the same manager, which waits for the place of this one.
void Producer::pack(const SentCall& call, const Decision& decision, const SentPart& part) {
    Failures mine;
    try {
        hear(decision);
        for (const Decision::Place& place : decision.to) {
            try {
                pack_for(place, call.name, part);
            } catch (const Error& error) {
                mine.by_key.emplace(place.first, error);
            } catch (const std::bad_alloc&) {
                mine.by_key.emplace(
                    place.first, Error(ErrorCode::no_memory, "a sending process is out of memory"));
            }
        }
    } catch (...) {  // told to the others before it goes on here
        mine.ended = std::current_exception();
    }
    if (decision.to.empty() && decision.joined.empty()) {
        if (mine.ended) std::rethrow_exception(mine.ended);
        return;
    }
    const auto ended = mine.ended;
    failures_ = std::move(mine);
    if (decision.is_told_by_messages && !has_manager_)
        end_failed(decision);
    else
        tell_failures();
    if (ended) std::rethrow_exception(ended);
    if (audience_ == nullptr) return;
    std::vector<std::string> sent;
    for (const auto& [key, place] : decision.to)
        if (!failures_.by_key.contains(key)) sent.push_back(key);
    audience_->sent(sent, call.sequence);
}

void Producer::pack_for(const Decision::Place& place, const std::string& name,
                        const SentPart& part) {
    const Array& array = arrays_.at(name);
    Wanted& wanted = wanted_.at(place.first);
    if (std::exchange(wanted.place, place.second) != place.second) wanted.packed = 0;
    const bool is_whole = ++wanted.packed == wanted.layouts.size();
    const std::pair which{place.first, array.number};
    auto found = relations_.find(which);
    if (found == relations_.end()) {
        const Layout to = wanted.takes_all ? whole_of(array.layout) : wanted.layouts.at(name);
        found = relations_
                    .emplace(which, OutgoingRelations(array.layout, to, together_->rank(),
                                                      array.elem_bytes))
                    .first;
    }
    outbox_->pack(place.first, static_cast<std::uint64_t>(place.second),
                  static_cast<std::uint32_t>(array.number), found->second.of(*part.memory),
                  {part.data, part.bounds}, is_whole ? *step_ : no_number);
}

/// Has consumers for which packing failed here know that a message does not come.
void Producer::end_failed(const Decision& decision) {
    for (const auto& [key, place] : decision.to) {
        const auto failure = failures_.by_key.find(key);
        const bool has_failed = failure != failures_.by_key.end();
        if (has_failed && audience_ != nullptr) audience_->refuse(key, failure->second);
        if (has_failed || failures_.ended) outbox_->end(key);
    }
}

}  // namespace datamover::stream
