// SPDX-License-Identifier: BSD-3-Clause
// State of the steps of one receiving process, and its credits: the steps that it has memory for.
// All input is checked against what was requested and granted.
#include "stream/receiver/incoming_steps.hpp"

#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

/// Whether any of the connections to a sending process has.
bool has_ended(const IncomingSteps::Links& links) {
    return std::ranges::any_of(links, [](const auto& link) { return link->has_ended(); });
}

Error ended(int producer) {
    return make_error(ErrorCode::peer_failed, "sending process ", producer,
                      ": it closed the connection");
}

/// Of a step, to make it worth while to say with the next one that both were taken: what is said
/// costs more than such a step.
constexpr std::uint64_t most_unsaid_bytes = 1 << 20;
/// Of all of them, of one sending process: it uses their memory again, best while it is in its
/// caches.
constexpr std::uint64_t most_unsaid_together = 1 << 17;
/// Of a stream that was granted twice as many at least, that sends on without hearing of these.
constexpr std::uint64_t least_unsaid_steps = 2;
/// Steps that are granted where nobody said how many; and where all wanted arrays are known and
/// small: the sending program then waits less often for a step to be taken.
constexpr std::uint64_t ahead_at_first = 2, most_ahead = 16, most_bytes_ahead = 1 << 23;

}  // namespace

void IncomingSteps::want_whole(const SentArray& known) {
    wanted_.push_back({known.name, whole_of(known.layout), "", true});
}

const WantedArray* IncomingSteps::wanted_of(const std::string& name) const {
    const auto found =
        std::ranges::find_if(wanted_, [&name](const WantedArray& one) { return one.name == name; });
    return found != wanted_.end() ? &*found : nullptr;
}

void IncomingSteps::check_names() const {
    std::string sent;
    for (const auto& [number, array] : known_) {
        if (takes_all_ || wanted_of(array.name) != nullptr) return;
        sent += (sent.empty() ? "'" : ", '") + array.name + "'";
    }
    if (sent.empty()) return;
    throw make_error(ErrorCode::mismatch, "the stream has ended without sending array '",
                     wanted_.front().name, "'; it sent ", sent);
}

void IncomingSteps::add_to(std::vector<pollfd>& waiting) const {
    const auto add = [&waiting](const Link& link, bool reads) {
        const int events = (reads ? POLLIN : 0) | (link.has_unsent() ? POLLOUT : 0);
        if (events != 0) waiting.push_back({link.socket(), static_cast<short>(events), 0});
    };
    add(control_, !has_ended_);
    for (const auto& [producer, links] : links_)
        for (const auto& link : links)
            if (!link->has_ended()) add(*link, !link->is_paused());
}

void IncomingSteps::take_in(const std::vector<pollfd>& waiting, bool may_connect) {
    // They were added in about this order, so that each search ends after a few.
    auto last = waiting.begin();
    const auto events_of = [&](int socket) -> short {
        const auto is_it = [socket](const pollfd& one) { return one.fd == socket; };
        auto found = std::find_if(last, waiting.end(), is_it);
        if (found == waiting.end()) found = std::find_if(waiting.begin(), last, is_it);
        if (found == waiting.end() || !is_it(*found)) return 0;
        last = found;
        return found->revents;
    };
    constexpr short comes = POLLIN | POLLHUP | POLLERR;
    for (const auto& [producer, links] : links_) {
        for (const auto& link : links) {
            if (link->has_ended()) continue;
            const short events = events_of(link->socket());
            if ((events & POLLOUT) != 0) link->send_more();
            if ((events & comes) != 0 && !link->is_paused()) link->receive(*this);
        }
    }
    const short events = events_of(control_.socket());
    if ((events & POLLOUT) != 0) control_.send_more();
    if ((events & comes) != 0 && !has_ended_) {
        std::vector<Frame> frames = control_.receive(max_frame_bytes);
        // What has failed is not begun any more.
        for (Frame& said : frames)
            if (said.type == Frame::Type::failed) hear(said);
        for (Frame& said : frames)
            if (!awaits_reason_ && !has_ended_) hear(said);
    }
    if (may_connect && lacks_links_) connect();
    announce_what_came();
    deliver();
}

/// The sending processes of an array send with its first step: before, not all of them need know of
/// this consumer.
void IncomingSteps::connect() {
    lacks_links_ = false;
    for (const std::uint32_t number : arrays_announced_) {
        for (const auto& [producer, part] : begun_.at(number)->parts()) {
            if (links_.contains(producer)) continue;
            Links links = dial_(producer);
            for (const auto& link : links) grant_to(*link);
            links_.emplace(producer, std::move(links));
        }
    }
}

void IncomingSteps::hear(Frame& said) {
    switch (said.type) {
        case Frame::Type::array:
            return learn(std::move(said.array));
        case Frame::Type::arrays:
            arrays_are_known_ = true;
            asks_for_arrays_ = false;
            return;
        case Frame::Type::subscribed:
            is_subscribed_ = true;
            return;
        case Frame::Type::step:
            return hear_of_step(said);
        case Frame::Type::end:
            dropped_ = static_cast<std::uint64_t>(said.dropped);
            announce_what_came(static_cast<std::uint64_t>(said.steps));
            has_ended_ = was_told_ = true;
            return;
        case Frame::Type::failed:
            was_told_ = true;
            throw *said.error;
        default:
            throw Error(ErrorCode::io, "the stream sent a frame of an unexpected type");
    }
}

void IncomingSteps::ask_for_arrays() {
    if (std::exchange(asks_for_arrays_, true)) return;
    arrays_are_known_ = false;
    control_.say({.type = Frame::Type::arrays});
}

/// Takes note of an array; throws mismatch or wrong_type where it is wanted otherwise.
void IncomingSteps::learn(SentArray known) {
    if (known_.size() >= static_cast<std::size_t>(max_array_number))
        throw make_error(ErrorCode::io, "the stream described more than ", max_array_number,
                         " arrays");
    const auto number = static_cast<std::uint32_t>(known.number);
    if (known_.contains(number))
        throw make_error(ErrorCode::io, "the stream described array ", number, " twice");
    if (takes_all_ && wanted_of(known.name) == nullptr) want_whole(known);
    const WantedArray* const wanted = wanted_of(known.name);
    known_.emplace(number, std::move(known));
    if (wanted != nullptr) begin(number, *wanted);
    resume_paused();
}

void IncomingSteps::begin(std::uint32_t number, const WantedArray& wanted) {
    for (const auto& [other, array] : begun_)
        if (array->name() == wanted.name)
            throw make_error(ErrorCode::io, "the stream described two arrays named '", wanted.name,
                             "'");
    begun_.emplace(number, std::make_unique<IncomingArray>(known_.at(number), wanted, rank_));
    if (suits_arrays_ && begun_.size() == wanted_.size()) look_further_ahead();
}

/// What came of arrays that were not known may make sense now.
void IncomingSteps::resume_paused() {
    for (const auto& [producer, links] : links_)
        for (const auto& link : links)
            if (link->is_paused()) link->receive(*this);
}

void IncomingSteps::hear_of_step(Frame& said) {
    dropped_ = static_cast<std::uint64_t>(said.dropped);
    const auto place = static_cast<std::uint64_t>(said.place);
    announce_what_came(place);
    std::set<std::uint32_t> different;
    bool has_begun = false;
    for (const std::uint32_t number : said.numbers) {
        const auto known = known_.find(number);
        const WantedArray* const wanted =
            known != known_.end() ? wanted_of(known->second.name) : nullptr;
        if (wanted == nullptr || !different.insert(number).second)
            throw make_error(ErrorCode::io, "the stream announced array ", number,
                             ", which was not requested");
        if (!begun_.contains(number)) {
            begin(number, *wanted);
            has_begun = true;
        }
        lacks_links_ |= arrays_announced_.insert(number).second;
    }
    announce(place, said.number, std::move(said.numbers));
    if (has_begun) resume_paused();
}

/// Whether a step of which all wanted arrays come is not announced but by its messages. The stream
/// finds the same: see Audience::Consumer::is_told_by_messages.
bool IncomingSteps::is_told_by_messages() const {
    return habits_.tells_by_messages && !wanted_.empty() &&
           arrays_announced_.size() == wanted_.size();
}

/// Takes the steps for announced whose messages say that they are whole, or that are before a
/// place: what is announced comes behind these.
void IncomingSteps::announce_what_came(std::uint64_t before) {
    if (!is_told_by_messages()) return;
    places_ = std::max(places_, before);
    const auto is_whole = [this] {
        const auto found = coming_.find(next_);
        return next_ < places_ || (found != coming_.end() && found->second.number != no_number);
    };
    while (is_whole()) {
        std::vector<std::uint32_t> arrays;
        for (const auto& [number, array] : begun_) arrays.push_back(number);
        announce(next_, no_number, std::move(arrays));
    }
}

/// Takes note of a step that comes next; where its messages say its number, of `no_number`.
void IncomingSteps::announce(std::uint64_t place, std::int64_t number,
                             std::vector<std::uint32_t> arrays) {
    const auto awaited = std::ranges::count_if(
        coming_, [](const auto& entry) { return entry.second.stage != Stage::coming; });
    if (place < next_ || static_cast<std::uint64_t>(awaited) >= ahead_)
        throw make_error(ErrorCode::io, "the stream announced step ", place,
                         ", for which it has no credit");
    next_ = place + 1;
    Coming& step = coming_[place];
    step.stage = Stage::announced;
    if (number != no_number) step.number = number;
    for (const std::uint32_t array : arrays) step.messages += begun_.at(array)->parts().size();
    step.announced = std::move(arrays);
    if (!habits_.goes_ahead) grant();
}

/// Hands over the steps that are complete.
void IncomingSteps::deliver() {
    const auto first_announced = [this] {
        return std::ranges::find_if(
            coming_, [](const auto& entry) { return entry.second.stage == Stage::announced; });
    };
    for (auto at = first_announced(); at != coming_.end(); at = first_announced()) {
        auto& [place, step] = *at;
        if (step.finished < step.messages) {
            cut_by_ = cut_by(step);
            if (!cut_by_ || !has_ended_) return;
            // It is dropped. Of several processes others may have it: they would not end alike.
            if (wanted_.front().layout.nprocs() > 1)
                throw Error(ErrorCode::timeout,
                            "the stream was closed before this process had received all steps");
            coming_.erase(at);
            ++dropped_;
            continue;
        }
        if (step.number == no_number)
            throw make_error(ErrorCode::io, "step ", place, " came without its number");
        ArrivedStep arrived{place, step.number, {}};
        bool is_as_announced = true;
        for (const std::uint32_t number : step.announced) {
            ArrayMessages& come = step.arrays[number];
            is_as_announced &= come.by_producer.size() == begun_.at(number)->parts().size();
            arrived.arrays.emplace_back(begun_.at(number).get(), std::move(come));
        }
        if (!is_as_announced || step.arrays.size() != step.announced.size())
            throw make_error(ErrorCode::io, "step ", arrived.number,
                             " has other arrays than the stream announced");
        step.arrays.clear();
        step.stage = Stage::delivered;
        ready_.push_back(std::move(arrived));
    }
}

/// The sending process whose connection has ended before all of a step came from it.
std::optional<int> IncomingSteps::cut_by(Coming& step) const {
    for (const auto& [producer, links] : links_) {
        if (!has_ended(links)) continue;
        for (const std::uint32_t number : step.announced) {
            if (!begun_.at(number)->parts().contains(producer)) continue;
            const auto& messages = step.arrays[number].by_producer;
            const auto message = messages.find(producer);
            if (message == messages.end() || !message->second->is_whole()) return producer;
        }
    }
    return std::nullopt;
}

std::optional<Error> IncomingSteps::lost() const {
    if (has_ended_) return std::nullopt;
    if (cut_by_) return ended(*cut_by_);
    if (!is_told_by_messages()) return std::nullopt;
    for (const auto& [producer, links] : links_)
        if (has_ended(links)) return ended(producer);
    return std::nullopt;
}

void IncomingSteps::end_data() {
    for (const auto& [producer, links] : links_)
        for (const auto& link : links) link->end();
    links_.clear();
    lacks_links_ = false;
    awaits_reason_ = true;
}

std::optional<ArrivedStep> IncomingSteps::next() {
    if (ready_.empty()) return std::nullopt;
    ArrivedStep step = std::move(ready_.front());
    ready_.pop_front();
    return step;
}

/// Runs beside the thread that reads: the step is the program's.
std::shared_ptr<std::byte> IncomingSteps::unpack_new(
    std::pair<IncomingArray*, ArrayMessages>& arrived) {
    auto& [array, messages] = arrived;
    if (messages.new_memory == nullptr)
        messages.new_memory = array_pool_->take_bytes(array->new_bytes());
    array->unpack_new(messages);
    return messages.new_memory;
}

std::shared_ptr<IncomingMessage> IncomingSteps::find(int producer, const ChunkHeader& chunk) {
    const auto [array, place] = std::pair(chunk.array, chunk.place);
    const auto begun = begun_.find(array);
    if (begun == begun_.end()) {
        const auto known = known_.find(array);
        if (known == known_.end() ? array <= max_array_number
                                  : wanted_of(known->second.name) != nullptr)
            return nullptr;
        throw make_error(ErrorCode::peer_failed, "it sent array ", array,
                         ", which was not requested");
    }
    const bool is_granted =
        habits_.goes_ahead ? place >= taken_ && place < taken_ + ahead_ : coming_.contains(place);
    if (!is_granted)
        throw make_error(ErrorCode::peer_failed, "it sent step ", place, ", which was not granted");
    Coming& coming = coming_[place];
    if (coming.stage == Stage::delivered || chunk.number < no_number)
        throw Error(ErrorCode::peer_failed, "it sent a part of a step out of order");
    ArrayMessages& come = coming.arrays[array];
    std::shared_ptr<IncomingMessage>& message = come.by_producer[producer];
    if (message == nullptr) {
        const auto& parts = begun->second->parts();
        const auto part = parts.find(producer);
        if (part == parts.end())
            throw make_error(ErrorCode::peer_failed, "it sent array ", array,
                             ", of which it holds nothing for this process");
        // It comes at once where it belongs, if it can.
        const auto& [bytes, relation, offset] = part->second;
        std::shared_ptr<std::byte> memory;
        if (offset) {
            if (come.new_memory == nullptr)
                come.new_memory = array_pool_->take_bytes(begun->second->new_bytes());
            memory = {come.new_memory, come.new_memory.get() + *offset};
        }
        message = std::make_shared<IncomingMessage>(bytes, *message_pool_, std::move(memory));
    }
    if (coming.number == no_number) coming.number = chunk.number;
    return message;
}

void IncomingSteps::want(std::vector<WantedArray> wanted, std::int64_t ahead, StreamHabits habits) {
    takes_all_ = wanted.empty();
    wanted_ = std::move(wanted);
    if (takes_all_)
        for (const auto& [number, known] : known_) want_whole(known);
    suits_arrays_ = ahead == 0 && habits.goes_ahead && !takes_all_;
    ahead_ = ahead == 0 ? ahead_at_first : static_cast<std::uint64_t>(ahead);
    habits_ = habits;
    say_credit(ahead_);
}

void IncomingSteps::say_credit(std::uint64_t steps) const {
    control_.say({.type = Frame::Type::credit, .steps = static_cast<std::int64_t>(steps)});
}

/// Grants more steps of arrays that are small.
void IncomingSteps::look_further_ahead() {
    suits_arrays_ = false;
    std::uint64_t step_bytes = 1;
    for (const auto& [number, array] : begun_)
        for (const auto& [producer, part] : array->parts())
            step_bytes += std::min(part.bytes, most_bytes_ahead);
    const std::uint64_t steps = std::min(most_ahead, most_bytes_ahead / step_bytes);
    if (steps <= ahead_) return;
    say_credit(steps - std::exchange(ahead_, steps));
    grant();
}

void IncomingSteps::taken(const ArrivedStep& step) {
    std::uint64_t bytes = 0;
    for (const auto& [array, messages] : step.arrays) {
        std::uint64_t most_of_one = 0;
        for (const auto& [producer, message] : messages.by_producer) {
            bytes += message->size();
            most_of_one = std::max(most_of_one, message->size());
        }
        unsaid_bytes_ += most_of_one;
    }
    coming_.erase(step.place);
    taken_ = step.place + 1;
    ++unsaid_;
    if (bytes > most_unsaid_bytes || !(has_ready() || may_say_later())) say_taken();
}

bool IncomingSteps::may_say_later() const {
    const bool has_many = ahead_ >= 2 * least_unsaid_steps;
    return habits_.goes_ahead && !habits_.is_pressed && has_many && unsaid_ > 0 &&
           2 * unsaid_ < ahead_ && unsaid_bytes_ < most_unsaid_together;
}

void IncomingSteps::say_taken() {
    if (unsaid_ == 0) return;
    unsaid_ = unsaid_bytes_ = 0;
    grant();
    // A grant to the first sending process says it, too; a thread waits for it if it is needed
    // soon.
    const bool is_said_by_grant =
        habits_.tells_by_messages && !habits_.is_pressed && links_.contains(0);
    if (!is_said_by_grant)
        control_.say({.type = Frame::Type::done, .place = static_cast<std::int64_t>(taken_) - 1});
}

void IncomingSteps::grant() {
    for (const auto& [producer, links] : links_)
        for (const auto& link : links)
            if (!link->has_ended()) grant_to(*link);
}

/// Says what may be sent; each step by itself where others may have been dropped.
void IncomingSteps::grant_to(DataReceiver& link) const {
    if (habits_.goes_ahead) {
        link.grant(taken_, taken_ + ahead_, false);
        return;
    }
    for (const auto& [place, step] : coming_) link.grant(taken_, place + 1, true);
    if (coming_.empty()) link.grant(taken_, 0, false);
}

}  // namespace datamover::stream
