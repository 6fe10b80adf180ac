// SPDX-License-Identifier: BSD-3-Clause
// Consumers: connecting to a stream, agreeing on the requested arrays, and leaving the stream.
#include "stream/consumer.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <set>

#include "geometry/make_error.hpp"
#include "stream/agreed_words.hpp"
#include "stream/crc32c.hpp"
#include "stream/entered.hpp"
#include "stream/message_words.hpp"
#include "stream/plan_between.hpp"
#include "stream/said_error.hpp"
#include "stream/token.hpp"

namespace datamover::stream {
namespace {

constexpr std::int64_t max_ahead = 64;
constexpr std::size_t max_producers = 1 << 16, max_wanted_arrays = 1 << 12;
constexpr std::int64_t max_port = 65535;
/// Of names and layouts: with what stands between them they fit into a frame.
constexpr std::size_t most_told_bytes = max_frame_bytes / 16 * 15;

/// Agrees on the outcome as `collectively`; an interruption goes on here after the others know.
template <class Work>
void collectively_unless_interrupted(Together& together, const Work& work) {
    std::exception_ptr interrupted;
    try {
        collectively(together, [&] {
            try {
                work();
            } catch (const Error&) {
                throw;
            } catch (const std::bad_alloc&) {
                throw;
            } catch (...) {
                interrupted = std::current_exception();
                throw make_error(ErrorCode::peer_failed, "process ", together.rank(),
                                 " was interrupted");
            }
        });
    } catch (...) {
        if (interrupted) std::rethrow_exception(interrupted);
        throw;
    }
}

/// Whether each process that receives gets elements of each array.
bool all_get_messages(const std::vector<WantedArray>& wanted) {
    return std::ranges::all_of(wanted, [](const WantedArray& one) {
        for (std::int64_t rank = 0; rank < one.layout.nprocs(); ++rank)
            if (one.layout.local_elems(rank) == 0) return false;
        return true;
    });
}

/// As a frame can say it, and whoever reads the frame takes it.
void check_array_name(const std::string& name) {
    try {
        Json::parse_object(JsonObject().add("name", name).text()).name("name");
    } catch (const Error&) {
        throw Error(
            ErrorCode::invalid_argument,
            "the name of an array must be UTF-8 text of 1 to 256 characters, without control "
            "characters");
    }
}

}  // namespace

Consumer::Consumer(std::shared_ptr<Together> together, const std::string& address,
                   StreamSourceOptions options)
    : together_(std::move(together)), options_(std::move(options)), process_(::getpid()) {
    Address first;
    collectively(*together_, [&] {
        first = Address::of_text(address);
        if (first.port == 0)
            throw make_error(
                ErrorCode::invalid_argument, "'", address,
                "' lets the stream choose its port; connect to the address that it reports");
        check_seconds(options_.timeout_seconds);
        token_ = given_token(options_.token);
        if (options_.ahead < 0 || options_.ahead > max_ahead)
            throw make_error(ErrorCode::invalid_argument, "ahead is ", options_.ahead,
                             "; it must be 1 to ", max_ahead,
                             ", or 0 to choose by the arrays' size");
    });
    limit_ = deadline_after(options_.timeout_seconds);
    collectively_unless_interrupted(*together_, [&] {
        if (rank() == 0) read_welcome(introduce(first, JsonObject().add("nprocs", size())), first);
    });
    share_welcome();
    collectively_unless_interrupted(*together_, [&] {
        if (rank() > 0) introduce(first, JsonObject().add("key", key_).add("rank", rank()));
        control_ = std::make_unique<FrameLink>(connection_);
        steps_ = std::make_unique<IncomingSteps>(
            *control_, rank(), [this](int producer) { return dial_to(producer); }, counters_);
        wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (wake_ < 0)
            throw Error(ErrorCode::io,
                        "cannot create an event descriptor: too many files are open");
    });
}

Consumer::~Consumer() {
    close();
    if (!is_own_process()) [[maybe_unused]]
        Turns* const kept = turns_.release();
    if (wake_ >= 0) ::close(wake_);
}

Dialing Consumer::dialing() {
    const auto look = [this] {
        together_->look_around();
        if (closed_) throw Error(ErrorCode::invalid_state, "the consumer is closed");
    };
    // Without a token, the first process looks for the one that the stream has stored.
    const auto token = [this](const Connection& stream) {
        if (!token_) token_ = stored_token(peer_address(stream.socket()));
        return *token_;
    };
    return {token, {look, together_->look_time()}};
}

/// As `dialing`, where a part of the connections would be of no use: what interrupts the program is
/// raised when all are made. A second time it is raised at once, and ends the consumer.
Dialing Consumer::dialing_to_the_end() {
    Dialing how = dialing();
    how.look.around = [this, look = std::move(how.look.around)] {
        try {
            look();
        } catch (const Error&) {
            throw;
        } catch (const std::bad_alloc&) {
            throw;
        } catch (...) {
            if (interrupted_) {
                interrupted_ = nullptr;  // what it holds may hold this consumer
                throw;
            }
            interrupted_ = std::current_exception();
        }
    };
    return how;
}

/// Connects, and hears whether this process is taken for one of the consumer's: where not, all of
/// them are told, and none takes the end of the stream for an orderly one that another cannot see.
Json Consumer::introduce(const Address& address, const JsonObject& words) {
    const Dialing how = dialing();
    Json said;
    try {
        // The first process may be there before the stream.
        connection_ =
            dial(address, JsonObject(words).add("role", "control"), how, limit_, rank() == 0);
        said = read_frame(*connection_, max_frame_bytes, greeting_end(limit_), how.look);
    } catch (const Error& error) {
        const bool has_gone = rank() > 0 && error.code() == ErrorCode::timeout;
        if (error.code() != ErrorCode::peer_failed && !has_gone) throw;
        throw make_error(ErrorCode::peer_failed, "the stream at ", address.text(),
                         " has ended, or accepts no more processes: ", error.what());
    }
    const Json* const type = said.find("type");
    if (type != nullptr && type->is("end"))
        throw Error(ErrorCode::invalid_state, "the stream has ended");
    if (type != nullptr && type->is("failed")) throw said_error(said);
    return said;
}

/// What the stream says of itself.
void Consumer::read_welcome(const Json& said, const Address& address) {
    for (const Json& item : said.list("producers", max_producers)) {
        const auto& parts = item.items();
        if (item.kind() != Json::Kind::list || parts.size() != 3 ||
            parts[1].kind() != Json::Kind::integer || parts[1].integer() < 1 ||
            parts[1].integer() > max_port)
            throw Error(ErrorCode::io,
                        "the stream's welcome has a malformed address of a sending process");
        senders_.push_back({{parts[0].as_name("host"), static_cast<int>(parts[1].integer())},
                            parts[2].as_name("name")});
    }
    // The first one was reached; where a tunnel leads there, it knows itself otherwise.
    if (!senders_.empty()) senders_.front().address = address;
    key_ = said.name("key");
    pathways_ = static_cast<int>(said.number("pathways", 1, max_pathways));
    const Json* const ahead = said.find("ahead");
    if (ahead == nullptr || ahead->kind() != Json::Kind::boolean)
        throw Error(ErrorCode::io,
                    "the stream's welcome is malformed: 'ahead' must be true or false");
    habits_.goes_ahead = ahead->is_true() && !options_.newest;
    const Json* const pressed = said.find("pressed");
    habits_.is_pressed = pressed != nullptr && pressed->is_true();
    const Json* const tells = said.find("tells_by_messages");
    habits_.tells_by_messages = tells != nullptr && tells->is_true() && habits_.goes_ahead;
    const Json* const hears = said.find("hears_taken_by_data");
    habits_.hears_taken_by_data = hears != nullptr && hears->is_true();
}

/// Has all processes know what the first was told.
void Consumer::share_welcome() {
    WordWriter mine;
    if (rank() == 0) {
        mine.add(*token_).add(key_).add(pathways_).add(habits_.goes_ahead).add(habits_.is_pressed);
        mine.add(habits_.tells_by_messages).add(habits_.hears_taken_by_data);
        mine.add(static_cast<std::int64_t>(senders_.size()));
        for (const Sender& sender : senders_)
            mine.add(sender.address.host).add(sender.address.port).add(sender.local_name);
    }
    WordReader said(together_->gather(mine.numbers()).front());
    token_ = said.text();
    key_ = said.text();
    pathways_ = static_cast<int>(said.number());
    habits_.goes_ahead = said.number() != 0;
    habits_.is_pressed = said.number() != 0;
    habits_.tells_by_messages = said.number() != 0;
    habits_.hears_taken_by_data = said.number() != 0;
    senders_.resize(static_cast<std::size_t>(said.number()));
    for (Sender& sender : senders_) {
        sender.address.host = said.text();
        sender.address.port = static_cast<int>(said.number());
        sender.local_name = said.text();
    }
}

/// Connects to a sending process: by shared memory if it is here, else by all pathways.
IncomingSteps::Links Consumer::dial_to(int producer) {
    if (producer < 0 || static_cast<std::size_t>(producer) >= senders_.size())
        throw make_error(ErrorCode::io,
                         "the stream named a sending process that it does not have: ", producer);
    const Sender& sender = senders_[static_cast<std::size_t>(producer)];
    const Dialing how = dialing_to_the_end();
    const auto words = [this](int pathway) {
        return JsonObject()
            .add("role", "data")
            .add("key", key_)
            .add("rank", rank())
            .add("pathway", pathway);
    };
    IncomingSteps::Links links;
    if (options_.shared_memory && !sender.local_name.empty()) {
        if (auto connection = dial_local(sender.local_name, words(0), how)) {
            links.push_back(
                std::make_unique<DataReceiver>(std::move(connection), producer, 0, 1, counters_));
            return links;
        }
    }
    const Deadline limit = greeting_end(std::nullopt);
    try {
        for (int pathway = 0; pathway < pathways_; ++pathway)
            links.push_back(std::make_unique<DataReceiver>(
                dial(sender.address, words(pathway), how, limit, false), producer, pathway,
                pathways_, counters_));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::timeout) throw;
        throw make_error(ErrorCode::peer_failed, "sending process ", producer,
                         " has ended, or did not answer within 10 s");
    }
    return links;
}

std::vector<KnownArray> Consumer::arrays(std::optional<double> timeout_seconds) {
    WordWriter mine;
    collectively_unless_interrupted(*together_, [&] {
        check_seconds(timeout_seconds);
        require_own_process();
        if (rank() != 0) return;
        wait_for_arrays(timeout_seconds);
        const Entered entered(*this);
        mine.add(static_cast<std::int64_t>(steps_->known().size()));
        for (const auto& [number, array] : steps_->known())
            mine.add(array.name)
                .add(array.type.text)
                .add(array.layout.nprocs())
                .add(text_of_layout(array.layout));
    });
    WordReader said(together_->gather(mine.numbers()).front());
    std::vector<KnownArray> known;
    for (std::int64_t left = said.number(); left > 0; --left) {
        KnownArray array;
        array.name = said.text();
        array.type = ArrayType::of_text(said.text());
        const std::int64_t nprocs = said.number();
        array.layout = layout_of_text(said.text(), nprocs);
        known.push_back(std::move(array));
    }
    return known;
}

void Consumer::require_unsubscribed() const {
    require_own_process();
    if (closed_ || is_subscribed_)
        throw Error(
            ErrorCode::invalid_state,
            "the consumer is closed, or its arrays were already requested; connect again to "
            "request others");
}

void Consumer::check_wanted(const std::vector<WantedArray>& wanted) const {
    require_unsubscribed();
    if (wanted.empty() || wanted.size() > max_wanted_arrays)
        throw make_error(ErrorCode::invalid_argument, wanted.size(),
                         " arrays were requested; request 1 to ", max_wanted_arrays);
    std::set<std::string> names;
    std::size_t told_bytes = 0;
    for (const WantedArray& one : wanted) {
        check_array_name(one.name);
        if (!names.insert(one.name).second)
            throw make_error(ErrorCode::invalid_argument, "array '", one.name,
                             "' was requested twice");
        if (!one.layout.valid() || one.layout.nprocs() != size())
            throw make_error(ErrorCode::mismatch, "the layout of array '", one.name, "' has ",
                             one.layout.valid() ? one.layout.nprocs() : 0,
                             " processes; the consumer has ", size());
        told_bytes += one.name.size() + text_of_layout(one.layout).size();
    }
    if (told_bytes > most_told_bytes)
        throw make_error(ErrorCode::out_of_range, "the requested layouts take ", told_bytes,
                         " bytes to describe; at most ", most_told_bytes, " are possible");
}

void Consumer::subscribe(std::vector<WantedArray> wanted) {
    collectively(*together_, [&] { check_wanted(wanted); });
    is_subscribed_ = true;
    std::ranges::sort(wanted,
                      [](const WantedArray& a, const WantedArray& b) { return a.name < b.name; });
    std::string words;
    for (const WantedArray& one : wanted)
        words += (words.empty() ? "[" : ",[") + json_text(one.name) + "," +
                 json_text(text_of_layout(one.layout)) + "]";
    const std::int64_t sum = crc32c(std::as_bytes(std::span(words.data(), words.size())));
    const auto everyone = together_->gather(WordWriter().add(sum).numbers());
    const Entered entered(*this);
    for (const auto& numbers : everyone)
        if (WordReader(numbers).number() != sum)
            fail_here(
                Error(ErrorCode::mismatch,
                      "the processes of the consumer requested different arrays or layouts, or "
                      "made different collective calls"));
    raise_error();
    habits_.tells_by_messages = habits_.tells_by_messages && all_get_messages(wanted);
    habits_.hears_taken_by_data = habits_.hears_taken_by_data && habits_.tells_by_messages;
    steps_->want(std::move(wanted), options_.ahead, habits_);
    begin_steps(words, false);
}

void Consumer::subscribe_to_all() {
    collectively(*together_, [&] {
        require_unsubscribed();
        if (size() != 1)
            throw make_error(ErrorCode::invalid_argument,
                             "only a consumer of one process can request all arrays; this one has ",
                             size());
    });
    is_subscribed_ = true;
    const Entered entered(*this);
    raise_error();
    habits_.tells_by_messages = habits_.hears_taken_by_data = false;
    steps_->want_all(options_.ahead, habits_);
    begin_steps("", true);
}

/// Says what is wanted, and lets the stream send; under the lock.
void Consumer::begin_steps(const std::string& words, bool takes_all) {
    if (rank() == 0)
        control_->say(
            JsonObject()
                .add("type", "subscribe")
                .add_json("arrays", "[" + words + "]")
                .add_json("all", takes_all ? "true" : "false")
                .add_json("newest", options_.newest ? "true" : "false")
                .add_json("hears_by_messages", habits_.tells_by_messages ? "true" : "false")
                .add_json("says_taken_by_data", habits_.hears_taken_by_data ? "true" : "false")
                .text());
    steps_->give_credit();
    try {
        start_thread();
    } catch (const Error& why) {  // it sends from now on, and hears that nobody takes it
        fail_here(why);
        throw;
    }
}

void Consumer::unpack(const std::string& name, const DestinationMemory& destination) {
    const auto& [array, messages] = array_of(name);
    array->unpack(messages, destination);
}

std::shared_ptr<std::byte> Consumer::unpack_new(const std::string& name) {
    return steps_->unpack_new(array_of(name));
}

std::pair<IncomingArray*, ArrayMessages>& Consumer::array_of(const std::string& name) {
    if (open_)
        for (auto& one : open_->arrays)
            if (one.first->name() == name) return one;
    throw make_error(ErrorCode::invalid_state, "the step does not contain array '", name, "'");
}

void Consumer::taken() {
    const Entered entered(*this);
    if (open_) steps_->taken(*std::exchange(open_, std::nullopt));
}

bool Consumer::is_own_process() const {
    return ::getpid() == process_;
}

void Consumer::require_own_process() const {
    if (!is_own_process())
        throw Error(
            ErrorCode::invalid_state,
            "this process was forked from the one that connected; connect again in this process");
}

void Consumer::fail(const Error& why) {
    if (!is_own_process()) return;
    const Entered entered(*this);
    fail_here(why);
}

void Consumer::refuse(const Error& why) {
    together_->agree(why);
    throw why;
}

void Consumer::close() {
    if (!is_own_process() || steps_ == nullptr || closed_.exchange(true)) return;
    ::eventfd_write(wake_, 1);
    {
        const Entered entered(*this);
        if (!error_) say_bye({});
        control_->end();
        turns_->program_left.notify_all();
    }
    if (turns_->thread.joinable()) turns_->thread.join();
}

/// Says that this process leaves, and which steps it has taken: others may still wait for these.
void Consumer::say_bye(JsonObject words) {
    words.add("type", "bye").add("place", static_cast<std::int64_t>(steps_->taken_before()));
    control_->say(words.text());
    control_->finish();
    steps_->end_data();
}

StreamSourceCounters Consumer::counters() const {
    return {counters_.bytes_received, counters_.checksum_errors, counters_.connections,
            counters_.connections_local, dropped()};
}

}  // namespace datamover::stream
