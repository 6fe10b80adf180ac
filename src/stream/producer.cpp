// SPDX-License-Identifier: BSD-3-Clause
// Producers: opening a stream, checking arguments, and closing the stream.
#include "stream/producer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "geometry/make_error.hpp"
#include "stream/agreed_words.hpp"
#include "stream/array_type.hpp"
#include "stream/crc32c.hpp"
#include "stream/json.hpp"
#include "stream/message_words.hpp"
#include "stream/plan_between.hpp"
#include "stream/producer_words.hpp"

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
    try {
        Json::parse_object(JsonObject().add("name", name).text()).name("name");
    } catch (const Error&) {
        throw Error(ErrorCode::invalid_argument,
                    "the name of an array must be UTF-8 text without control characters");
    }
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
    WordWriter mine;
    mine.add(token_).add(listeners->address().host).add(listeners->address().port);
    mine.add(listeners->local_name()).add(name_).add(options_.policy);
    std::string producers;
    std::vector<std::string> names, policies;
    const auto everyone = together_->gather(mine.numbers());
    for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
        WordReader said(everyone[rank]);
        const std::string token = said.text(), host = said.text();
        const int port = static_cast<int>(said.number());
        if (rank == 0) {
            token_ = token;
            address_ = Address{host, port}.text();
        }
        producers += concat(rank == 0 ? "[" : ",[", json_text(host), ",", port, ",",
                            json_text(said.text()), "]");
        names.push_back(concat("name=\"", said.text(), '"'));
        policies.push_back(concat("policy=\"", said.text(), '"'));
    }
    require_same("options", names);
    require_same("options", policies);
    collectively(*together_, [&] { begin(*listeners, "[" + producers + "]"); });
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
void Producer::begin(Listeners& listeners, std::string_view producers) {
    outbox_ = std::make_shared<Outbox>(static_cast<int>(options_.pathways),
                                       SendingHabits{!is_pressed(), together_->size() > 1});
    listed_ = std::make_unique<Places::Listed>(places_, name_,
                                               [outbox = outbox_] { outbox->free_all(); });
    if (is_first()) {
        const Flow flow = flow_of(options_);
        JsonObject welcome;
        welcome.add("type", "welcome")
            .add("pathways", options_.pathways)
            .add_json("producers", producers)
            .add_json("ahead", flow.policy != Policy::drop_oldest ? "true" : "false")
            .add_json("pressed", is_pressed() ? "true" : "false")
            .add_json("tells_by_messages", flow.policy == Policy::block ? "true" : "false")
            .add_json("hears_taken_by_data", is_pressed() ? "false" : "true");
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
        text_of_layout(part.layout);  // one that cannot be told is an error here, on all
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
    const std::string layout = text_of_layout(part.layout);
    const std::int64_t sum = crc32c(std::as_bytes(std::span(layout.data(), layout.size())));
    WordWriter mine = words_of(Call::add);
    mine.add(name).add(sum).add(part.layout.describe()).add(part.dtype).add(part.elem_bytes);
    const auto everyone = exchange(mine.numbers());
    std::vector<WordReader> said_by = after_failures(everyone);
    end_where_closed(everyone);
    require_same_calls(everyone, said_by);
    Array array{static_cast<int>(arrays_.size()), part.layout, "", 0};
    std::int64_t first_sum = 0;
    std::string first_layout;
    std::size_t typed = 0;  // the first process with elements
    std::optional<Error> types_differ;
    for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
        WordReader& said = said_by[rank];
        said.text();
        const std::int64_t its_sum = said.number();
        const std::string its_layout = said.text();
        if (rank == 0) first_sum = its_sum, first_layout = its_layout;
        if (its_sum != first_sum)
            throw Error(ErrorCode::mismatch,
                        difference_text("passed", concat("layouts of array '", name, "'"), 0,
                                        first_layout, static_cast<std::int64_t>(rank), its_layout));
        const std::string dtype = said.text();
        const std::int64_t elem_bytes = said.number();
        if (dtype.empty()) continue;
        if (array.dtype.empty()) array.dtype = dtype, array.elem_bytes = elem_bytes, typed = rank;
        if (dtype != array.dtype && !types_differ)
            types_differ = Error(ErrorCode::wrong_type,
                                 difference_text("passed", concat("dtypes of array '", name, "'"),
                                                 static_cast<std::int64_t>(typed), array.dtype,
                                                 static_cast<std::int64_t>(rank), dtype));
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
    const Use use(*this);
    const auto everyone = exchange(words_of(Call::end_step).numbers());
    const std::vector<WordReader> said_by = after_failures(everyone);
    end_where_closed(everyone);
    require_same_calls(everyone, said_by);
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
        all_close(goes_on);
        wait_until_taken(timeout_seconds);
    } catch (...) {
        if (closed_) stop();
        throw;
    }
    stop();
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

void Producer::wait_until_taken(std::optional<double> timeout_seconds) {
    const auto deadline = deadline_after(timeout_seconds);
    outbox_->leave();
    if (audience_ != nullptr) audience_->finish_steps();
    bool done = false;
    while (!done) {
        std::int64_t state = goes_on;
        std::exception_ptr ended;
        if (audience_ != nullptr) {
            try {
                const bool is_taken = wait_in_round([&](std::chrono::milliseconds time) {
                    return audience_->wait_until_taken(time);
                });
                if (is_taken || is_over(deadline)) state = is_done;
            } catch (...) {  // told to the others before it goes on here
                ended = std::current_exception();
                state = was_interrupted;
            }
        }
        done = all_close(state);
        if (ended) std::rethrow_exception(ended);
    }
    if (audience_ != nullptr) audience_->end();
    all_close(is_done);  // until then the others answer
}

bool Producer::all_close(std::int64_t state) {
    WordWriter mine = words_of(Call::close);
    mine.add(state);
    const auto everyone = together_->gather(mine.numbers());
    // Another process's wrong call has not ended the stream: it is open here, too.
    if (any_says(everyone, Call::wrong) && ends_in(everyone) == Ends::nothing) closed_ = false;
    settle(everyone);
    const std::vector<WordReader> said_by = after_failures(everyone);
    require_same_calls(everyone, said_by);
    const std::int64_t said = WordReader(said_by[0]).number();
    if (said == was_interrupted && !is_first())
        throw Error(ErrorCode::peer_failed, "process 0 was interrupted while it closed the stream");
    return said != goes_on;
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
