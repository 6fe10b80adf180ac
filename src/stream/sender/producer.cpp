// SPDX-License-Identifier: BSD-3-Clause
// Producers: opening a stream, checking arguments, and closing the stream.
#include "stream/sender/producer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "geometry/make_error.hpp"
#include "stream/receiver/incoming_array.hpp"
#include "stream/wire/crc32c.hpp"
#include "stream/wire/fields.hpp"
#include "stream/wire/message_words.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {
namespace {

constexpr std::int64_t max_count = 1 << 16;
constexpr std::size_t max_sent_arrays = 1 << 12, max_name_bytes = 256;
/// What a consumer may have taken and not said so.
constexpr std::int64_t least_free_bytes = std::int64_t{1} << 26;

void check_range(std::int64_t value, const char* name, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
        throw make_error(ErrorCode::invalid_argument, name, " is ", value, "; it must be ", least,
                         " to ", most);
}

/// As a frame can say it, and whoever reads the frame takes it.
void check_name(const std::string& name) {
    if (name.empty() || name.size() > max_name_bytes)
        throw make_error(ErrorCode::invalid_argument, "the name of an array has ", name.size(),
                         " bytes; it must have 1 to ", max_name_bytes);
    if (!is_plain_text(name))
        throw Error(ErrorCode::invalid_argument,
                    "the name of an array must be UTF-8 text without control characters");
}

Flow flow_of(const StreamOptions& options) {
    return {
        policy_of_name(options.policy), options.queue_steps,
        options.queue_bytes == 0 ? std::numeric_limits<std::int64_t>::max() : options.queue_bytes};
}

}  // namespace

Producer::Producer(std::shared_ptr<Together> together, const std::string& address,
                   StreamOptions options, std::shared_ptr<Places> places, std::string name)
    : together_(std::move(together)),
      options_(std::move(options)),
      has_manager_(places != nullptr),
      places_(places ? std::move(places) : std::make_shared<Places>(StreamManagerOptions())),
      name_(std::move(name)) {
    std::optional<Listeners> listeners;
    collectively(*together_, [&] {
        check_options();
        const Address first = Address::of_text(address);
        token_ = options_.open ? "" : options_.token ? *options_.token : new_token();
        listeners.emplace(first, together_->rank(), options_.shared_memory);
    });
    /// What the processes tell each other of themselves.
    struct Self {
        std::string token, host;
        int port = 0;
        std::string local_name, name, policy;
        void pass(Words& words) {
            words.pass(token).pass(host).pass(port).pass(local_name).pass(name).pass(policy);
        }
    };
    Self mine{token_,
              listeners->address().host,
              listeners->address().port,
              listeners->local_name(),
              name_,
              options_.policy};
    Words words;
    mine.pass(words);
    ValueList producers;
    std::vector<std::string> names, policies;
    for (const Together::Numbers& numbers : together_->gather(words.numbers())) {
        Self said;
        Words theirs(numbers);
        said.pass(theirs);
        if (names.empty()) {
            token_ = said.token;
            address_ = Address{said.host, said.port}.text();
            identity_ = crc32c(std::as_bytes(std::span(address_.data(), address_.size())));
        }
        producers.add(ValueList().add(said.host).add(said.port).add(said.local_name));
        names.push_back(concat("name=\"", said.name, '"'));
        policies.push_back(concat("policy=\"", said.policy, '"'));
    }
    require_same("options", names);
    require_same("options", policies);
    collectively(*together_, [&] { begin(*listeners, producers); });
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
void Producer::begin(Listeners& listeners, const ValueList& producers) {
    outbox_ = std::make_shared<Outbox>(static_cast<int>(options_.pathways),
                                       SendingHabits{!is_pressed(), together_->size() > 1});
    listed_ = std::make_unique<Places::Listed>(places_, name_,
                                               [outbox = outbox_] { outbox->free_all(); });
    if (is_first()) {
        const Flow flow = flow_of(options_);
        Record welcome;
        welcome.add("type", "welcome")
            .add("pathways", options_.pathways)
            .add("producers", producers)
            .add("ahead", flow.policy != Policy::drop_oldest)
            .add("pressed", is_pressed())
            .add("tells_by_messages", flow.policy == Policy::block);
        audience_ = std::make_shared<Audience>(flow, options_.consumers, std::move(welcome),
                                               places_, name_);
        if (!options_.open && !options_.token) token_file_.emplace(address_, token_);
    }
    reception_ = std::make_unique<Reception>(listeners.take(), token_, outbox_, audience_);
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
        check_name(name);
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
    const Array* const known = find(name);
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
    const std::string layout = bytes_of_layout(part.layout);
    const std::int64_t sum = crc32c(std::as_bytes(std::span(layout.data(), layout.size())));
    SaidCall mine = said_call(Call::add);
    mine.name = name;
    mine.layout_sum = sum;
    mine.layout = part.layout.describe();
    mine.dtype = part.dtype;
    mine.elem_bytes = part.elem_bytes;
    const std::vector<SaidCall> everyone = gather_calls(*together_, mine);
    settle(everyone);
    Array array{static_cast<int>(arrays_.size()), part.layout, "", 0};
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
    if (audience_ != nullptr)
        audience_->add_array(
            {array.number, name, array.dtype, layout, part.layout.nprocs(), array.elem_bytes});
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
        all_close(Round::goes_on);
        wait_until_taken(timeout_seconds);
    } catch (...) {
        if (closed_) stop();
        throw;
    }
    stop();
}

void Producer::wait_until_taken(std::optional<double> timeout_seconds) {
    const auto deadline = deadline_after(timeout_seconds);
    outbox_->leave();
    if (audience_ != nullptr) audience_->finish_steps();
    bool done = false;
    while (!done) {
        Round round = Round::goes_on;
        std::exception_ptr ended;
        if (audience_ != nullptr) {
            try {
                const bool is_taken = wait_in_round([&](std::chrono::milliseconds time) {
                    return audience_->wait_until_taken(time);
                });
                if (is_taken || is_over(deadline)) round = Round::done;
            } catch (...) {  // told to the others before it goes on here
                ended = std::current_exception();
                round = Round::interrupted;
            }
        }
        done = all_close(round);
        if (ended) std::rethrow_exception(ended);
    }
    if (audience_ != nullptr) audience_->end();
    all_close(Round::done);  // until then the others answer
}

bool Producer::all_close(Round round) {
    SaidCall mine = said_call(Call::close);
    mine.round = round;
    const std::vector<SaidCall> everyone = gather_calls(*together_, mine);
    // Another process's wrong call has not ended the stream: it is open here, too.
    if (any_is(everyone, Call::wrong) && ends_in(everyone) == Ends::nothing) closed_ = false;
    settle(everyone);
    const Round said = everyone[0].round;
    if (said == Round::interrupted && !is_first())
        throw Error(ErrorCode::peer_failed, "process 0 was interrupted while it closed the stream");
    return said != Round::goes_on;
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
        relations_.clear();
        wanted_.clear();
        const std::lock_guard lock(arrays_lock_);
        arrays_.clear();
    } else {
        static_cast<void>(listed_.release());
    }
}

StreamCounters Producer::counters() const {
    StreamCounters counters;
    counters.bytes_kept = outbox_->bytes_kept();
    counters.bytes_held = outbox_->bytes_held();
    counters.bytes_sent = outbox_->bytes_sent();
    counters.connections_refused = reception_->refused();
    if (audience_ == nullptr) return counters;
    const AudienceCounters found = audience_->counters();
    counters.consumers = found.consumers;
    counters.consumers_came = found.came;
    counters.consumers_left = found.left;
    counters.consumers_lost = found.lost;
    counters.steps_dropped = found.steps_dropped;
    return counters;
}

}  // namespace datamover::stream
