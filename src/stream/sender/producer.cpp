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

/// What has ended, by what all processes said.
Ends ends_in(const std::vector<SaidCall>& everyone) {
    return std::ranges::max(everyone, {}, &SaidCall::ends).ends;
}

auto count_of(Call call, const std::vector<SaidCall>& everyone) {
    return std::ranges::count(everyone, call, &SaidCall::call);
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
    words.pass(call).pass(error);
    if (call == Call::wrong) {
        words.pass(ends);
        return;
    }
    words.pass(stream);
    words.pass(failures, [&](PackingFailure& one) { words.pass(one.key).pass(one.why); });
    if (call == Call::add)
        words.pass(name).pass(layout_sum).pass(elem_bytes).pass(layout).pass(dtype);
    if (call == Call::decide) words.pass(name).pass(sequence).pass(number);
    if (call == Call::decide || call == Call::close) words.pass(is_done);
    if (call == Call::decide && is_done) {
        if (words.reads()) decision.emplace();
        pass_decision(words, *decision);
    }
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

void end_by_failure(Together& together, const Error& why, Ends ends) {
    SaidCall mine;
    mine.ends = ends;
    mine.error = why;
    gather_values(together, std::move(mine));
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
    const std::vector<Self> everyone = gather_values(
        *together_,
        Self{token_, name_, options_.policy, {here.host, here.port, listeners.local_name}});
    token_ = everyone[0].token;
    address_ = Address{everyone[0].sender.host, everyone[0].sender.port}.text();
    identity_ = geometry::text_digest(address_);
    std::vector<Frame::Sender> senders;
    std::vector<std::string> names, policies;
    for (const Self& said : everyone) {
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
    std::unique_ptr<TokenFile> token_file;
    if (is_first()) {
        const Flow flow = flow_of(options_);
        const bool blocks = flow.policy == Policy::block;
        Frame welcome{.type = Frame::Type::welcome,
                      .pathways = options_.pathways,
                      .senders = std::move(senders),
                      .goes_ahead = blocks,
                      .is_pressed = is_pressed(),
                      .tells_by_messages = blocks};
        audience_ =
            std::make_shared<Audience>(flow, options_.consumers, std::move(welcome), places_);
        if (!options_.open && !options_.token)
            token_file = std::make_unique<TokenFile>(address_, token_);
    }
    listed_ = places_->enter(name_, audience_.get(), [outbox = outbox_] { outbox->free_all(); });
    reception_ = std::make_unique<Reception>(std::move(listeners.sockets), token_, outbox_,
                                             audience_, std::move(token_file));
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
    const std::vector<SaidCall> everyone = gather_values(*together_, std::move(mine));
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
    settle(gather_values(*together_, said_call(Call::end_step)));
    names_of_step_.clear();
    if (audience_ != nullptr) audience_->finish_steps();
}

void Producer::close(std::optional<double> timeout_seconds) {
    // What a forked process said its parent's consumers would take for the end.
    if (!reception_->is_of_this_process() || is_closed()) return;
    if (const auto wrong = failure_of(*together_, [&] { check_seconds(timeout_seconds); }).error)
        refuse(*wrong);
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
    const std::vector<SaidCall> everyone = gather_values(*together_, std::move(mine));
    // Another process's wrong call has not ended the stream: it is open here, too.
    if (count_of(Call::wrong, everyone) != 0 && ends_in(everyone) == Ends::nothing) closed_ = false;
    settle(everyone, ended);
    return everyone[0].is_done;
}

void Producer::stop() {
    closed_ = true;
    const bool has_stopped = has_stopped_.exchange(true);
    // In a forked process, locks are as its parent's threads left them, and segments are the
    // parent's.
    if (reception_ == nullptr || !reception_->is_of_this_process()) return;
    reception_->close();
    if (!has_stopped) listed_.reset();
    outbox_->free_unused();
    const auto turn = calls_.turn_if_free();
    if (!turn) return;  // that call ends soon; what it uses goes with this object
    recipients_.clear();
    const std::lock_guard lock(arrays_lock_);
    arrays_.clear();
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
    said.failures = failures_;
    return said;
}

/// Throws the same error on all processes unless all make the same call, rightly, and none has an
/// error; but `here`, if given, on this process. Refuses the consumers for which any process has
/// failed. Where a call is wrong, ends what its process takes no part in any more.
void Producer::settle(const std::vector<SaidCall>& everyone, const std::exception_ptr& here) {
    try {
        const Ends ends = ends_in(everyone);
        if (ends == Ends::all_streams) places_->end_streams();
        if (ends != Ends::nothing)
            end_at_once("a sending process has failed, which ended the stream");
        if (count_of(Call::wrong, everyone) == 0) require_same_calls(everyone);
        for (const SaidCall& said : everyone)
            if (said.error) throw Error(*said.error);
    } catch (...) {
        if (here) std::rethrow_exception(here);
        throw;
    }
}

/// One that closes the stream ends it, also if the others make another call: it would not take part
/// in their `close`.
void Producer::require_same_calls(const std::vector<SaidCall>& everyone) {
    failures_.clear();
    if (audience_ != nullptr)
        for (const SaidCall& said : everyone)
            for (const auto& [key, why] : said.failures) audience_->refuse(key, why);
    const SaidCall& first = everyone.front();
    if (std::ranges::all_of(everyone, [&](const auto& said) { return said.is_same(first); }))
        return;
    const auto closing = count_of(Call::close, everyone);
    if (closing != 0 && closing != std::ssize(everyone))
        end_at_once("a sending process closed the stream while others sent");
    std::vector<std::string> texts;
    for (const SaidCall& said : everyone)
        texts.push_back(said.stream == first.stream ? said.text() : "a call of another stream");
    require_same("calls", texts, "made");
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
    SaidCall mine = said_call(Call::wrong);
    mine.error = why;
    std::vector<SaidCall> everyone;
    try {
        everyone = gather_values(*together_, std::move(mine));
    } catch (const Error& error) {  // what was wrong at first is what the user has to know
        throw make_error(why.code(), why.what(),
                         "; the other processes could not be informed: ", error.what());
    }
    settle(everyone);
    throw why;
}

void Producer::send(const std::string& name, const SentPart& part,
                    std::optional<std::int64_t> step) {
    require_own_process();
    const CallsInTurn::Turn turn(calls_, *together_);
    check_open();
    std::int64_t number = 0;
    const auto check = [&] { number = checked(name, part, step); };
    if (const auto wrong = failure_of(*together_, check).error) refuse_in_turn(*wrong);
    if (!arrays_.contains(name)) add(name, part);
    const bool begins = !step || number != step_ || names_of_step_.empty();
    SaidCall call = said_call(Call::decide);
    call.name = name;
    call.sequence = sequence_ + begins;
    call.number = number;
    const Decision decision = decide(call);
    sequence_ = call.sequence;
    step_ = number;
    if (begins) names_of_step_.clear();
    try {
        pack(call, decision, part);
    } catch (...) {
        undo(call);
        throw;
    }
    names_of_step_.insert(name);
    if (places_->ends_each_array()) names_of_step_.clear();
}

/// Ends the step, of which consumers got perhaps a part, and consumers that process 0 has decided
/// on.
void Producer::undo(const SaidCall& call) {
    sequence_ = call.sequence;
    step_ = call.number;
    names_of_step_.clear();
    if (audience_ != nullptr)
        audience_->withdraw(Error(ErrorCode::peer_failed,
                                  "the sending program was interrupted while it sent a step"));
}

template <class Wait>
std::exception_ptr Producer::wait_in_round(SaidCall& said, const Wait& wait) {
    const Clock::time_point end = Clock::now() + round_time;
    const Failure failure = failure_of(*together_, [&] {
        do {
            together_->look_around();
            said.is_done = wait(std::min(round_time, together_->look_time()));
        } while (!said.is_done && Clock::now() < end);
    });
    said.error = failure.error;
    if (failure.interruption)
        said.error = Error(ErrorCode::peer_failed, "process 0 was interrupted in this call");
    return failure.interruption;
}

/// Learns from process 0 who gets an array; waits where a consumer must not miss it. In the first
/// round all hear, too, whether all make this call, rightly: until then process 0 carries nothing
/// out.
Decision Producer::decide(const SaidCall& call) {
    const int array = arrays_.at(call.name).number;
    const Deadline deadline = deadline_after(options_.timeout_seconds);
    const Clock::time_point awake_end = Clock::now() + awake_time;
    for (bool is_agreed = together_->is_alone();; is_agreed = true) {
        SaidCall said = call;
        said.failures = failures_;
        std::exception_ptr ended;
        if (audience_ != nullptr && audience_->finish_steps_before(call.sequence, is_agreed)) {
            const auto look = [&](std::chrono::milliseconds time) {
                said.decision = audience_->decide(array, call.sequence, time);
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
        const bool is_decided = said.is_done;
        // Nobody else is to hear of it, nor has anything to say.
        if (is_decided && together_->is_alone() && failures_.empty()) {
            audience_->carry_out(array, call.sequence, call.number);
            return *std::move(said.decision);
        }
        std::vector<SaidCall> everyone;
        try {
            everyone = gather_values(*together_, std::move(said));
        } catch (...) {  // perhaps only here
            undo(call);
            throw;
        }
        try {
            settle(everyone, ended);
        } catch (...) {
            if (audience_ != nullptr) audience_->take_back();
            throw;
        }
        if (is_decided) audience_->carry_out(array, call.sequence, call.number);
        if (everyone[0].is_done) return *std::move(everyone[0].decision);
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
void Producer::pack(const SaidCall& call, const Decision& decision, const SentPart& part) {
    const auto not_heard = failure_of(*together_, [&] { hear(decision); }).error;
    if (not_heard)
        for (const auto& one : decision.joined) failures_.push_back({one.key, *not_heard});
    for (const Decision::Place& place : decision.to) {
        const auto pack_it = [&] {
            if (not_heard) throw Error(*not_heard);
            pack_for(place, arrays_.at(call.name), part);
        };
        if (const auto why = failure_of(*together_, pack_it).error)
            failures_.push_back({place.first, *why});
    }
    if (!decision.joined.empty() || (has_manager_ && !decision.to.empty())) {
        settle(gather_values(*together_, said_call(Call::pack)));
    } else {  // the consumers have to know that a message does not come
        for (const auto& [key, why] : failures_) {
            if (audience_ != nullptr) audience_->refuse(key, why);
            outbox_->end(key);
        }
    }
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
