// SPDX-License-Identifier: BSD-3-Clause
// Producers: opening a stream, checking arguments, agreeing on calls, sending the arrays of a step,
// and closing the stream. The words of a call that repeats the last step fit into one exchange in
// shared memory.
#include "stream/sender/producer.hpp"

#include <sched.h>

#include <limits>

#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

void pass_decision(Words& words, Decision& decision) {
    words.pass(decision.joined, [&](Decision::Newcomer& one) {
        words.pass(one.key).pass(one.nprocs);
        std::vector<std::pair<std::string, Layout>> wanted(one.wanted.begin(), one.wanted.end());
        words.pass(wanted, [&](auto& pair) { pass_layout(words.pass(pair.first), pair.second); });
        one.wanted = {wanted.begin(), wanted.end()};
    });
    words.pass(decision.gone, [&](std::string& key) { words.pass(key); });
    for (auto* const places : {&decision.dropped, &decision.taken, &decision.to, &decision.ended})
        words.pass(*places, [&](Decision::Place& one) { words.pass(one.first).pass(one.second); });
    words.pass(decision.turn);
}

/// Gathers the calls of all processes. Collective.
std::vector<SaidCall> gather_calls(Together& together, SaidCall mine) {
    return calls_of(together.gather(mine.numbers()));
}

/// What has ended, by what all processes said.
Ends ends_in(const std::vector<SaidCall>& everyone) {
    return std::ranges::max(everyone, {}, &SaidCall::ends).ends;
}

constexpr std::int64_t max_count = 1 << 16;
constexpr std::size_t max_sent_arrays = 1 << 12;
/// What a consumer may have taken and not said so.
constexpr std::int64_t least_free_bytes = std::int64_t{1} << 26;

void check_range(std::int64_t value, const char* name, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
        throw make_error(ErrorCode::invalid_argument, name, " is ", value, "; it must be ", least,
                         " to ", most);
}

Flow flow_of(const StreamOptions& options) {
    return {
        policy_of_name(options.policy), options.queue_steps,
        options.queue_bytes == 0 ? std::numeric_limits<std::int64_t>::max() : options.queue_bytes};
}

/// While process 0 waits for a consumer the others hear from it this often.
constexpr std::chrono::milliseconds round_time{50};

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

Together::Numbers SaidCall::numbers() {
    Words words;
    pass(words);
    return words.numbers();
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

std::vector<SaidCall> calls_of(const std::vector<Together::Numbers>& everyone) {
    std::vector<SaidCall> calls;
    for (const Together::Numbers& numbers : everyone) {
        Words words(numbers, Words::Writer::same_end);
        calls.emplace_back().pass(words);
        words.require_end();
    }
    return calls;
}

void end_by_failure(Together& together, const Error& why, Ends ends) {
    if (!together.is_alone()) {
        SaidCall mine;
        mine.ends = ends;
        together.gather(mine.numbers());
    }
    together.agree(why);
    throw why;
}

Producer::Producer(std::shared_ptr<Together> together, const std::string& address,
                   StreamOptions options, std::shared_ptr<Places> places, std::string name)
    : together_(std::move(together)),
      options_(std::move(options)),
      has_manager_(places != nullptr),
      places_(places ? std::move(places) : std::make_shared<Places>(StreamManagerOptions())),
      name_(std::move(name)) {
    Listeners listeners;
    collectively(*together_, [&] {
        check_options();
        const Address first = Address::of_text(address);
        token_ = options_.open ? "" : options_.token ? *options_.token : new_token();
        listeners = listen_at(first, together_->rank(), options_.shared_memory);
    });
    /// What the processes tell each other of themselves.
    struct Self {
        std::string token, name, policy;
        Frame::Sender sender;
        void pass(Words& words) { sender.pass(words.pass(token).pass(name).pass(policy)); }
    };
    const Address& here = listeners.address;
    Self mine{token_, name_, options_.policy, {here.host, here.port, listeners.local_name}};
    Words words;
    mine.pass(words);
    std::vector<Frame::Sender> senders;
    std::vector<std::string> names, policies;
    for (const Together::Numbers& numbers : together_->gather(words.numbers())) {
        Self said;
        Words theirs(numbers, Words::Writer::same_end);
        said.pass(theirs);
        theirs.require_end();
        if (names.empty()) {
            token_ = said.token;
            address_ = Address{said.sender.host, said.sender.port}.text();
            identity_ = geometry::text_digest(address_);
        }
        senders.push_back(said.sender);
        names.push_back(concat("name=\"", said.name, '"'));
        policies.push_back(concat("policy=\"", said.policy, '"'));
    }
    require_same("options", names);
    require_same("options", policies);
    collectively(*together_, [&] { begin(listeners, std::move(senders)); });
}

void Producer::check_options() const {
    check_range(options_.pathways, "pathways", 1, max_pathways);
    policy_of_name(options_.policy);
    check_range(options_.queue_steps, "queue_steps", 1, max_count);
    check_range(options_.queue_bytes, "queue_bytes", 0, std::numeric_limits<std::int64_t>::max());
    check_range(options_.consumers, "consumers", 0, static_cast<std::int64_t>(most_consumers));
    check_seconds(options_.timeout_seconds);
    if (options_.token) check_token(*options_.token);
    if (options_.token && options_.open)
        throw Error(ErrorCode::invalid_argument,
                    "open lets everybody connect; pass no token with it");
}

/// Whether it waits for steps to be taken although there are credits for more: for the sake of
/// other streams, or of what it may keep.
bool Producer::is_pressed() const {
    return has_manager_ || flow_of(options_).queue_bytes < least_free_bytes;
}

/// Lets consumers connect.
void Producer::begin(Listeners& listeners, std::vector<Frame::Sender> senders) {
    outbox_ = std::make_shared<Outbox>(static_cast<int>(options_.pathways),
                                       SendingHabits{!is_pressed(), together_->size() > 1});
    listed_ = std::make_unique<Places::Listed>(places_, name_,
                                               [outbox = outbox_] { outbox->free_all(); });
    if (is_first()) {
        const Flow flow = flow_of(options_);
        const bool blocks = flow.policy == Policy::block;
        Frame welcome{.type = Frame::Type::welcome,
                      .pathways = options_.pathways,
                      .senders = std::move(senders),
                      .goes_ahead = blocks,
                      .is_pressed = is_pressed(),
                      .tells_by_messages = blocks};
        audience_ = std::make_shared<Audience>(flow, options_.consumers, std::move(welcome),
                                               places_, name_);
        if (!options_.open && !options_.token) token_file_.emplace(address_, token_);
    }
    reception_ =
        std::make_unique<Reception>(std::move(listeners.sockets), token_, outbox_, audience_);
}

/// In a forked process, whose parent may be in a call, nobody would end the wait for a turn.
void Producer::require_own_process() const {
    if (!reception_->is_of_this_process())
        throw Error(ErrorCode::invalid_state,
                    "this process was forked from the one that opened the stream");
}

void Producer::check_open() const {
    if (is_closed()) throw Error(ErrorCode::invalid_state, "the stream is closed");
}

std::int64_t Producer::checked(const std::string& name, const SentPart& part,
                               std::optional<std::int64_t> step) const {
    if (!arrays_.contains(name)) {
        check_array_name(name);
        if (arrays_.size() >= max_sent_arrays)
            throw make_error(ErrorCode::invalid_argument, "a stream sends at most ",
                             max_sent_arrays, " arrays");
    }
    constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
    if (!step && step_ == last)
        throw make_error(ErrorCode::invalid_argument, "step ", last,
                         " is the last possible number; pass step=");
    const std::int64_t number = step ? *step : step_ ? *step_ + 1 : 0;
    check_range(number, "step", 0, last);
    if (step && number == step_ && names_of_step_.contains(name))
        throw make_error(ErrorCode::invalid_argument, "array '", name,
                         "' was already sent in step ", number);
    check_part(name, part);
    return number;
}

void Producer::check_part(const std::string& name, const SentPart& part) const {
    const SentArray* const known = find(name);
    if (known == nullptr && !part.layout.valid())
        throw make_error(ErrorCode::invalid_argument, "array '", name,
                         "' is sent for the first time; pass layout=");
    if (part.layout.valid() && part.layout.nprocs() != together_->size())
        throw make_error(ErrorCode::mismatch, "the layout of array '", name, "' has ",
                         part.layout.nprocs(), " processes; the stream has ", together_->size());
    if (!part.dtype.empty() && (part.elem_bytes < 1 || part.elem_bytes > max_elem_bytes))
        throw make_error(ErrorCode::wrong_type, "elements of array '", name, "' have ",
                         part.elem_bytes, " bytes; they must have 1 to ", max_elem_bytes);
    if (known == nullptr) {
        bytes_of_layout(part.layout);  // one that cannot be told is an error here, on all
        return;
    }
    if (part.layout.valid() && !(known->layout == part.layout))
        throw make_error(ErrorCode::mismatch, "array '", name,
                         "' was sent with another layout before; each array keeps its layout");
    if (!part.dtype.empty() && part.dtype != known->dtype)
        throw make_error(ErrorCode::wrong_type, "array '", name, "' has dtype ", part.dtype,
                         "; it was sent with ", known->dtype, " before");
}

/// Compares between all processes what an array is, and takes note of it.
void Producer::add(const std::string& name, const SentPart& part) {
    SaidCall mine = said_call(Call::add);
    mine.name = name;
    mine.layout_sum = geometry::text_digest(bytes_of_layout(part.layout));
    mine.layout = part.layout.describe();
    mine.dtype = part.dtype;
    mine.elem_bytes = part.elem_bytes;
    const std::vector<SaidCall> everyone = gather_calls(*together_, mine);
    settle(everyone);
    SentArray array{static_cast<int>(arrays_.size()), name, "", part.layout, 0};
    std::int64_t typed = 0;  // the first process with elements
    std::optional<Error> types_differ;
    for (std::int64_t rank = 0; rank < together_->size(); ++rank) {
        const SaidCall& said = everyone[static_cast<std::size_t>(rank)];
        if (said.layout_sum != everyone[0].layout_sum)
            throw Error(ErrorCode::mismatch,
                        difference_text("passed", concat("layouts of array '", name, "'"), 0,
                                        everyone[0].layout, rank, said.layout));
        if (said.dtype.empty()) continue;
        if (array.dtype.empty())
            array.dtype = said.dtype, array.elem_bytes = said.elem_bytes, typed = rank;
        if (said.dtype != array.dtype && !types_differ)
            types_differ = Error(ErrorCode::wrong_type,
                                 difference_text("passed", concat("dtypes of array '", name, "'"),
                                                 typed, array.dtype, rank, said.dtype));
    }
    if (types_differ) throw *types_differ;
    if (array.dtype.empty())
        throw make_error(ErrorCode::wrong_type, "array '", name,
                         "' has no dtype, because no process holds an element");
    if (audience_ != nullptr) audience_->add_array(array);
    const std::lock_guard lock(arrays_lock_);
    arrays_.emplace(name, std::move(array));
}

void Producer::end_step() {
    require_own_process();
    const CallsInTurn::Turn turn(calls_, *together_);
    check_open();
    settle(gather_calls(*together_, said_call(Call::end_step)));
    names_of_step_.clear();
    if (audience_ != nullptr) audience_->finish_steps();
}

void Producer::close(std::optional<double> timeout_seconds) {
    // What a forked process said its parent's consumers would take for the end.
    if (!reception_->is_of_this_process() || is_closed()) return;
    if (const auto wrong = error_in(*together_, [&] { check_seconds(timeout_seconds); })) {
        const CallsInTurn::Turn turn(calls_, *together_);
        refuse_in_turn(*wrong);
    }
    if (closed_.exchange(true)) return;
    try {
        const CallsInTurn::Turn turn(calls_, *together_);
        if (has_stopped_) return;  // the call of another thread has ended it, for all
        all_close(said_call(Call::close));
        wait_until_taken(timeout_seconds);
    } catch (...) {
        if (closed_) stop();
        throw;
    }
    stop();
}

void Producer::wait_until_taken(std::optional<double> timeout_seconds) {
    const auto deadline = deadline_after(timeout_seconds);
    outbox_->tell(News::leaves);
    if (audience_ != nullptr) audience_->finish_steps();
    bool done = false;
    while (!done) {
        SaidCall mine = said_call(Call::close);
        std::exception_ptr ended;
        if (audience_ != nullptr)
            ended = wait_in_round(mine, [&](std::chrono::milliseconds time) {
                return audience_->wait_until_taken(time) || is_over(deadline);
            });
        done = all_close(std::move(mine), ended);
    }
    if (audience_ != nullptr) audience_->end();
    all_close(said_call(Call::close));  // until then the others answer
}

/// Whether it is done on process 0. `ended` is what interrupts this process, once the others know.
bool Producer::all_close(SaidCall mine, const std::exception_ptr& ended) {
    const std::vector<SaidCall> everyone = gather_calls(*together_, std::move(mine));
    // Another process's wrong call has not ended the stream: it is open here, too.
    if (std::ranges::count(everyone, Call::wrong, &SaidCall::call) != 0 &&
        ends_in(everyone) == Ends::nothing)
        closed_ = false;
    settle(everyone);
    const SaidCall& first = everyone[0];
    if (ended) std::rethrow_exception(ended);
    if (first.round == Round::refused) throw Error(first.refusal);
    return first.round != Round::goes_on;
}

void Producer::stop() {
    closed_ = true;
    const bool has_stopped = has_stopped_.exchange(true);
    // In a forked process, locks are as its parent's threads left them, and segments are the
    // parent's.
    if (reception_ != nullptr && reception_->is_of_this_process()) {
        if (!has_stopped) token_file_.reset();  // before another stream can listen at the address
        reception_->close();
        if (audience_ != nullptr) audience_->leave_places();
        outbox_->free_unused();
        const auto turn = calls_.turn_if_free();
        if (!turn) return;  // that call ends soon; what it uses goes with this object
        listed_.reset();
        recipients_.clear();
        const std::lock_guard lock(arrays_lock_);
        arrays_.clear();
    } else {
        static_cast<void>(listed_.release());
    }
}

StreamCounters Producer::counters() const {
    StreamCounters counters = audience_ != nullptr ? audience_->counters() : StreamCounters();
    counters.bytes_kept = outbox_->bytes_kept();
    counters.bytes_held = outbox_->bytes_held();
    counters.bytes_sent = outbox_->bytes_sent();
    counters.connections_refused = reception_->refused();
    return counters;
}

/// What this process tells the others of its call.
SaidCall Producer::said_call(Call call) const {
    SaidCall said;
    said.call = call;
    said.stream = identity_;
    said.was_broken_off = broken_off_ != nullptr;
    said.failures = failures_;
    return said;
}

/// Throws the same error on all processes unless all make the same call, rightly; refuses the
/// consumers for which any process has failed. One that closes the stream ends it, also if the
/// others make another call: it would not take part in their `close`.
void Producer::settle(const std::vector<SaidCall>& everyone) {
    raise_wrong_call(everyone, std::nullopt);
    failures_.clear();
    broken_off_ = nullptr;
    for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
        if (everyone[rank].was_broken_off)
            throw make_error(ErrorCode::peer_failed, "process ", rank,
                             " was interrupted while it sent");
        if (audience_ == nullptr) continue;
        for (const auto& [key, why] : everyone[rank].failures) audience_->refuse(key, why);
    }
    const SaidCall& first = everyone.front();
    if (std::ranges::all_of(everyone, [&](const auto& said) { return said.is_same(first); }))
        return;
    const auto closing = std::ranges::count(everyone, Call::close, &SaidCall::call);
    if (closing != 0 && closing != std::ssize(everyone))
        end_at_once("a sending process closed the stream while others sent");
    std::vector<std::string> texts;
    for (const SaidCall& said : everyone)
        texts.push_back(said.stream == first.stream ? said.text() : "a call of another stream");
    require_same("calls", texts, "made");
}

/// Throws the error of a process whose call was wrong, on all; before, ends what it takes no part
/// in any more. `mine` is this process's error, if its call is one of these.
void Producer::raise_wrong_call(const std::vector<SaidCall>& everyone,
                                const std::optional<Error>& mine) {
    if (std::ranges::count(everyone, Call::wrong, &SaidCall::call) == 0) return;
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
    const SentCall call{arrays_.at(name), sequence, number};
    try {
        const Decision decision = decide(call);
        sequence_ = sequence;
        step_ = number;
        if (begins) names_of_step_.clear();
        pack(call, decision, part);
        names_of_step_.insert(name);
        if (places_->ends_each_array()) names_of_step_.clear();
    } catch (const WrongCall& wrong_call) {
        std::rethrow_exception(wrong_call.what);
    } catch (const Error& error) {
        // All processes know that nothing was packed: the array can be sent again.
        undo(call, error.code() == ErrorCode::mismatch || error.code() == ErrorCode::timeout ||
                       error.code() == ErrorCode::invalid_state);
        throw;
    } catch (...) {
        undo(call, false);
        throw;
    }
}

/// Ends consumers that process 0 has decided on, where that was not done; and the step, unless the
/// array may be sent again: then consumers got perhaps a part of it.
void Producer::undo(const SentCall& call, bool may_be_sent_again) {
    if (!may_be_sent_again) {
        sequence_ = call.sequence;
        step_ = call.number;
        names_of_step_.clear();
    }
    if (audience_ != nullptr)
        audience_->withdraw(
            Error(ErrorCode::peer_failed,
                  may_be_sent_again ? "the sending processes made different calls"
                                    : "the sending program was interrupted while it sent a step"));
}

template <class Wait>
std::exception_ptr Producer::wait_in_round(SaidCall& said, const Wait& wait) {
    const Clock::time_point end = Clock::now() + round_time;
    try {
        do {
            together_->look_around();
            if (wait(std::min(round_time, together_->look_time()))) said.round = Round::done;
        } while (said.round != Round::done && Clock::now() < end);
    } catch (const Error& error) {
        said.refusal = error;
        said.round = Round::refused;
    } catch (...) {
        said.refusal = Error(ErrorCode::peer_failed, "process 0 was interrupted in this call");
        said.round = Round::refused;
        return std::current_exception();
    }
    return nullptr;
}

/// Learns from process 0 who gets an array; waits where a consumer must not miss it. In the first
/// round all hear, too, whether all make this call, rightly: until then process 0 carries nothing
/// out.
Decision Producer::decide(const SentCall& call) {
    const Deadline deadline = deadline_after(options_.timeout_seconds);
    const Clock::time_point awake_end = Clock::now() + awake_time;
    for (bool is_agreed = together_->is_alone();; is_agreed = true) {
        SaidCall said = said_call(Call::decide);
        std::exception_ptr ended;
        if (audience_ != nullptr && audience_->finish_steps_before(call.sequence, is_agreed)) {
            const auto look = [&](std::chrono::milliseconds time) {
                said.decision = audience_->decide(call.array.number, call.sequence, time);
                return said.decision.has_value();
            };
            ended = wait_in_round(said, [&](std::chrono::milliseconds time) {
                if (closed_)  // by another thread
                    throw Error(ErrorCode::invalid_state, "the stream is closed");
                while (!look({})) {
                    if (Clock::now() >= awake_end) {
                        outbox_->tell(News::leaves);
                        if (look(time)) return true;
                        if (!is_over(deadline)) return false;
                        throw make_error(ErrorCode::timeout,
                                         "a consumer took no step, or too few came, within ",
                                         *options_.timeout_seconds, " s");
                    }
                    outbox_->tell(News::hears);
                    ::sched_yield();
                }
                return true;
            });
        }
        const bool is_decided = audience_ != nullptr && said.round == Round::done;
        // Nobody else is to hear of it, nor has anything to say.
        if (is_decided && together_->is_alone() && failures_.empty() && !broken_off_) {
            audience_->carry_out(call.array.number, call.sequence, call.number);
            return *std::move(said.decision);
        }
        said.name = call.array.name;
        said.sequence = call.sequence;
        said.number = call.number;
        std::vector<SaidCall> everyone = gather_calls(*together_, std::move(said));
        try {
            settle(everyone);
        } catch (...) {
            if (audience_ != nullptr) audience_->take_back();
            throw WrongCall{ended ? ended : std::current_exception()};
        }
        if (ended) std::rethrow_exception(ended);
        if (is_decided) audience_->carry_out(call.array.number, call.sequence, call.number);
        SaidCall& first = everyone[0];
        if (first.round == Round::done) return *std::move(first.decision);
        if (first.round == Round::refused) throw Error(first.refusal);
    }
}

/// Takes note of consumers that came and went, and of dropped steps.
void Producer::hear(const Decision& decision) {
    for (const auto& one : decision.joined) {
        recipients_.insert_or_assign(one.key, Recipient{one.wanted});
        outbox_->open(one.key, static_cast<int>(one.nprocs));
    }
    for (const auto& [key, place] : decision.dropped) outbox_->forget_steps(key, place, place + 1);
    for (const auto& [key, place] : decision.taken) outbox_->forget_steps(key, 0, place);
    for (const std::string& key : decision.gone) {
        outbox_->forget(key);
        recipients_.erase(key);
    }
    for (const Turn& turn : decision.ended) places_->end_turn(turn);
    places_->begin_turn({name_, decision.turn});
}

/// Packs an array for each consumer. One for which that fails anywhere is refused with the next
/// call; now, where one has joined, so that it connects to no process that does not know it, and
/// where streams of the same manager may wait for the place of this one, whose next call may come
/// later.
void Producer::pack(const SentCall& call, const Decision& decision, const SentPart& part) {
    try {
        hear(decision);
        for (const Decision::Place& place : decision.to)
            if (const auto why = error_in(*together_, [&] { pack_for(place, call.array, part); }))
                failures_.push_back({place.first, *why});
    } catch (...) {  // told to the others before it goes on here
        broken_off_ = std::current_exception();
    }
    const auto ended = broken_off_;
    if (decision.to.empty() && decision.joined.empty()) {
        broken_off_ = nullptr;
    } else if (!decision.joined.empty() || has_manager_) {
        const std::vector<SaidCall> everyone = gather_calls(*together_, said_call(Call::pack));
        failures_.clear();
        broken_off_ = nullptr;
        if (!ended) settle(everyone);
    } else {  // the consumers have to know that a message does not come
        for (const auto& [key, why] : failures_) {
            if (audience_ != nullptr) audience_->refuse(key, why);
            outbox_->end(key);
        }
        if (ended)
            for (const auto& [key, place] : decision.to) outbox_->end(key);
    }
    if (ended) std::rethrow_exception(ended);
    if (audience_ != nullptr) audience_->sent(call.sequence);
}

void Producer::pack_for(const Decision::Place& place, const SentArray& array,
                        const SentPart& part) {
    Recipient& to = recipients_.at(place.first);
    if (std::exchange(to.place, place.second) != place.second) to.packed = 0;
    const bool is_whole = ++to.packed == to.wanted.size();
    auto found = to.messages.find(array.number);
    if (found == to.messages.end())
        found = to.messages
                    .try_emplace(array.number,
                                 Messages{plan_between(array.layout, layout_for(to.wanted, array))})
                    .first;
    auto& [plan, memory, outgoing] = found->second;
    // Worked out again where the memory is another than the last time.
    if (!memory || !(*memory == *part.memory)) {
        memory.reset();
        outgoing.clear();
        const int rank = together_->rank();
        const plan::RelationSide from{&plan.source(), part.memory, array.elem_bytes, rank};
        for (const PeerPart& peer : plan.outgoing(rank))
            outgoing.emplace_back(
                static_cast<int>(peer.rank), peer.part, from,
                plan::RelationSide{&plan.destination(), nullptr, array.elem_bytes, peer.rank});
        memory = *part.memory;
    }
    outbox_->pack(place.first, static_cast<std::uint64_t>(place.second),
                  static_cast<std::uint32_t>(array.number), outgoing, {part.data, part.bounds},
                  is_whole ? *step_ : no_number);
}

}  // namespace datamover::stream
