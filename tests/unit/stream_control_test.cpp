// SPDX-License-Identifier: BSD-3-Clause
// Control of a stream: every step is taken, waiting or dropped; fields from outside are parsed
// within limits; layouts are unchanged as text; only authorized processes can connect.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "datamover/error.hpp"
#include "stream/sender/reception.hpp"
#include "stream/sender/step_queue.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/headers.hpp"
#include "stream/wire/plan_between.hpp"
#include "stream_stranger.hpp"

namespace datamover::stream {
namespace {

using Room = StepQueue::Room;
using Type = Frame::Type;

/// Whether an array may be added, once what the policy drops for it was dropped.
struct Answer {
    Room room = Room::yes;
    std::vector<std::int64_t> dropped;
};
Answer make_room(StepQueue& queue, std::int64_t sequence, std::int64_t bytes) {
    Answer answer;
    while ((answer.room = queue.room_for(sequence, bytes)) == Room::by_dropping)
        answer.dropped.push_back(queue.drop_oldest());
    return answer;
}

TEST(StreamQueue, EveryStepIsTakenWaitsOrIsDropped) {
    std::mt19937 draw(7);
    for (int n = 0; n < 600; ++n) {
        const auto policy = static_cast<Policy>(draw() % 2);
        const std::int64_t most = 1 + draw() % 4, most_bytes = 1 + draw() % 60;
        StepQueue queue({policy, most, most_bytes});
        std::int64_t offered = 0;
        const bool has_several_arrays = draw() % 2 == 0;
        std::vector<std::int64_t> taken;
        for (auto call = draw() % 40; call > 0; --call) {
            if (draw() % 2 == 0) {
                if (const auto step = queue.next_to_send()) taken.push_back(step->number);
                if (draw() % 2 == 0 && !taken.empty()) queue.taken_before(draw() % 8);
                continue;
            }
            const std::int64_t bytes = 1 + draw() % 30;
            const Answer answer = make_room(queue, offered, bytes);
            EXPECT_TRUE(answer.dropped.empty() || policy == Policy::drop_oldest);
            EXPECT_TRUE(answer.room != Room::wait || policy == Policy::block);
            if (answer.room == Room::yes) {
                queue.add(offered, offered, 0, bytes);
                const std::int64_t more = has_several_arrays ? draw() % 30 : 0;
                const Answer rest = make_room(queue, offered, more);
                EXPECT_TRUE(rest.dropped.empty() || policy == Policy::drop_oldest);
                EXPECT_TRUE(rest.room == Room::yes || policy == Policy::block);
                if (rest.room == Room::yes) queue.add(offered, offered, 1, more);
                queue.complete();
            }
            offered += answer.room != Room::wait;
        }
        std::int64_t held = 0;
        const auto waiting = static_cast<std::int64_t>(queue.waiting().size());
        for (const Step& step : queue.waiting()) {
            held += step.bytes;
            EXPECT_TRUE(taken.empty() || step.number > taken.back());
        }
        EXPECT_LE(waiting, most);
        EXPECT_TRUE(waiting <= 1 || held <= most_bytes);
        EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
        EXPECT_EQ(static_cast<std::int64_t>(taken.size()) + waiting + queue.dropped(), offered);
        EXPECT_TRUE(queue.dropped() == 0 || policy != Policy::block);
    }
    EXPECT_THROW(policy_of_name("drop_newest"), Error);
}

TEST(StreamQueue, ArraysOfAStepGoTogether) {
    StepQueue queue({Policy::drop_oldest, 1, 100});
    EXPECT_EQ(queue.add(0, 5, 0, 10), 0);
    EXPECT_EQ(make_room(queue, 0, 1000).room, Room::yes);
    EXPECT_EQ(queue.add(0, 5, 1, 20), 0);
    EXPECT_EQ(queue.bytes_of(0), 30);
    EXPECT_FALSE(queue.next_to_send());
    queue.complete();
    const Answer answer = make_room(queue, 1, 10);
    EXPECT_EQ(answer.dropped, std::vector<std::int64_t>{0});
    EXPECT_EQ(queue.add(1, 6, 0, 10), 1);
    EXPECT_EQ(queue.dropped(), 1);
}

/// A frame of each type, with values at their limits.
std::vector<Frame> frames_of_all_types() {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const Layout line = BlockCyclic({6}, "block", 2);
    const std::string odd("a \u00e9\u4e2d\U0001f600"), of_256(256, 'x');
    return {
        {.type = Type::greeting, .version = -7},
        {.type = Type::control, .key = odd, .token = odd, .nprocs = max_processes, .rank = most},
        {.type = Type::data, .key = of_256, .token = {}, .rank = 3, .pathway = most},
        {.type = Type::welcome,
         .key = "k",
         .pathways = max_pathways,
         .senders = {{"host", 1, ""}, {"::1", 65535, odd}},
         .goes_ahead = true,
         .tells_by_messages = true},
        {.type = Type::array, .array = {max_array_number, odd, "\"<f8\"", line, max_elem_bytes}},
        {.type = Type::arrays},
        {.type = Type::subscribe, .wanted = {{"u", line}, {of_256, line}}, .newest = true},
        {.type = Type::credit, .steps = most},
        {.type = Type::subscribed},
        {.type = Type::step, .place = most, .number = 0, .dropped = most, .numbers = {0, 4096}},
        {.type = Type::done, .place = most},
        {.type = Type::bye, .place = most},
        {.type = Type::end, .steps = 1, .dropped = most},
        {.type = Type::failed, .error = Error(ErrorCode::io, "why: \u00e9")},
    };
}

/// The words of a frame, which follow its header.
std::string words_of(Frame frame) {
    return frame.bytes().substr(sizeof(FrameHeader));
}
Frame read_words(std::string_view words) {
    return Frame::read(std::as_bytes(std::span(words.data(), words.size())));
}
/// Words with one of them replaced.
std::string with_word(std::string words, std::size_t place, std::int64_t value) {
    std::memcpy(words.data() + place * sizeof value, &value, sizeof value);
    return words;
}

TEST(StreamFields, AreReadAsTheyAreWritten) {
    int types = 0;
    for (Frame& frame : frames_of_all_types()) {
        EXPECT_EQ(static_cast<int>(frame.type), types++);
        Frame again = read_words(words_of(frame));
        EXPECT_EQ(again.type, frame.type);
        EXPECT_EQ(words_of(again), words_of(frame)) << types;
    }
    EXPECT_EQ(types, static_cast<int>(Type::failed) + 1);
    const Frame failed = read_words(words_of(frames_of_all_types().back()));
    EXPECT_EQ(failed.error->code(), ErrorCode::io);
    EXPECT_STREQ(failed.error->what(), "why: \u00e9");
}

TEST(StreamFields, OfAStrangerAreOnlyThoseOfWhoConnects) {
    for (Frame& frame : frames_of_all_types()) {
        const std::string words = words_of(frame);
        const auto bytes = std::as_bytes(std::span(words.data(), words.size()));
        if (frame.type <= Type::data)
            EXPECT_EQ(Frame::read(bytes, Type::data).type, frame.type);
        else
            EXPECT_THROW(Frame::read(bytes, Type::data), Error);
    }
    EXPECT_THROW(Frame::read({}, Type::data), Error);
}

TEST(StreamFields, AnErrorOfManyWordsLeavesRoomForTheOthers) {
    const std::string words = words_of(
        {.type = Type::bye, .place = 7, .error = Error(ErrorCode::io, std::string(5 << 20, 'x'))});
    EXPECT_LT(words.size(), max_request_bytes);
    const Frame said = read_words(words);
    EXPECT_EQ(said.place, 7);
    EXPECT_EQ(said.error->code(), ErrorCode::io);
}

TEST(StreamFields, OutsideTheirLimitsAreRefused) {
    const auto refuses = [](Frame frame) {
        EXPECT_THROW(read_words(words_of(std::move(frame))), Error);
    };
    const Layout line = BlockCyclic({6}, "block", 2);
    for (const std::int64_t nprocs : {std::int64_t{0}, std::int64_t{-1}, max_processes + 1})
        refuses({.type = Type::control, .nprocs = nprocs});
    refuses({.type = Type::data, .rank = -1});
    refuses({.type = Type::data, .pathway = -1});
    for (const std::int64_t pathways : {0, max_pathways + 1})
        refuses({.type = Type::welcome, .pathways = pathways});
    for (const int port : {0, 65536})
        refuses({.type = Type::welcome, .senders = {{"host", port, ""}}});
    for (const std::int64_t steps : {0, -1}) refuses({.type = Type::credit, .steps = steps});
    refuses({.type = Type::done, .place = -1});
    refuses({.type = Type::step, .numbers = {4097}});
    refuses({.type = Type::step, .numbers = std::vector<std::uint32_t>(4097)});
    refuses({.type = Type::array, .array = {-1, "u", "", line, 8}});
    refuses({.type = Type::array, .array = {0, "u", "", line, 0}});
    refuses({.type = Type::array, .array = {0, "u", "", line, max_elem_bytes + 1}});
    for (const char* name : {"\xff", "\xc0\x80", "\xf5\x80\x80\x80", "\xe4\xb8", "\n", "\x7f",
                             "a\u0085", "\xed\xa0\x80"}) {
        EXPECT_FALSE(is_plain_text(name)) << name;
        refuses({.type = Type::array, .array = {0, name, "", line, 8}});
        refuses({.type = Type::subscribe, .wanted = {{name, line}}});
    }
    refuses({.type = Type::data, .key = std::string(257, 'x')});
    EXPECT_TRUE(is_plain_text("a \u00e9\u4e2d\U0001f600"));
    const std::string arrays = words_of({.type = Type::arrays});
    for (const std::int64_t type : {-1, static_cast<int>(Type::failed) + 1})
        EXPECT_THROW(read_words(with_word(arrays, 0, type)), Error);
    const std::string failed = words_of(frames_of_all_types().back());
    EXPECT_THROW(read_words(with_word(failed, 2, 0)), Error);  // without its error
    EXPECT_EQ(read_words(with_word(failed, 3, 99)).error->code(), ErrorCode::peer_failed);
    const Frame few = read_words(words_of(
        {.type = Type::failed, .error = Error(ErrorCode::io, "\x1b\n" + std::string(9999, 'x'))}));
    EXPECT_EQ(few.error->what(), "\n" + std::string(1998, 'x'));
}

TEST(StreamFields, ThatAreCutOrTooManyAreRefused) {
    for (Frame& frame : frames_of_all_types()) {
        const std::string right = words_of(frame);
        for (std::size_t count = 0; count < right.size(); ++count)
            EXPECT_THROW(read_words(right.substr(0, count)), Error) << count;
        EXPECT_THROW(read_words(right + std::string(8, '\0')), Error);
    }
    const std::string step = words_of({.type = Type::step, .numbers = {0}});
    const std::string key = words_of({.type = Type::data, .key = "k"});
    for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{1} << 62}) {
        EXPECT_THROW(read_words(with_word(step, 4, count)), Error);
        EXPECT_THROW(read_words(with_word(key, 1, count)), Error);
    }
}

TEST(StreamFields, OfRandomBytesDoNoHarm) {
    std::mt19937 draw(8);
    int read_whole = 0;
    for (int n = 0; n < 2'000; ++n) {
        for (Frame& frame : frames_of_all_types()) {
            std::string bytes = words_of(frame);
            for (auto changes = 1 + draw() % 3; changes > 0; --changes)
                bytes[draw() % bytes.size()] = static_cast<char>(draw());
            try {
                read_words(bytes);
                ++read_whole;
            } catch (const Error& error) {
                ASSERT_EQ(error.code(), ErrorCode::io);
            }
        }
    }
    EXPECT_GT(read_whole, 0);
}

TEST(StreamPlan, FillsUpTheSmallerProgram) {
    BlockCyclicOptions options;
    options.ranks = {1, 0};
    const std::vector<Layout> layouts{
        BlockCyclic({6, 4}, "(block, *)", 2, options),
        FloorPlan({Region({0, 0}, {2, 4}), Region({2, 0}, {6, 4})}, {1, 0}, 2),
        FlatCyclic({6, 4}, 5, 2, {1, 0}),
        IndexList({6, 4}, std::vector<std::int64_t>{0, 2, 3}, std::vector<std::int64_t>{4, 2, 23})};
    const Layout wide = BlockCyclic({6, 4}, "(*, block)", 4);
    for (const Layout& layout : layouts) {
        const MotionPlan plan = plan_between(wide, layout);
        ASSERT_EQ(plan.nprocs(), 4);
        for (std::int64_t rank = 0; rank < 4; ++rank)
            EXPECT_EQ(plan.destination().local_elems(rank),
                      rank < 2 ? layout.local_elems(rank) : 0);
    }
    EXPECT_THROW(plan_between(wide, BlockCyclic({6, 5}, "(*, block)", 2)), Error);
    for (const char* bytes : {"", "x", "ABC"}) EXPECT_THROW(layout_of_bytes(bytes), Error) << bytes;
    const Layout line = BlockCyclic({6}, "(block)", 2);
    EXPECT_EQ(layout_of_bytes(bytes_of_layout(line)), line);
}

/// A stream that listens at the loopback, and strangers at its door.
class Door : public ::testing::Test {
protected:
    void SetUp() override {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ASSERT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
        ASSERT_EQ(::listen(listener_, 16), 0);
        socklen_t bytes = sizeof address_;
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address_), &bytes);
        audience_ = std::make_shared<Audience>(Flow(), 1, Frame{.type = Type::welcome}, places_);
        entered_ = places_->enter("", audience_.get(), [] {});
        outbox_ = std::make_shared<Outbox>(1);
        std::vector<Descriptor> listeners;
        listeners.emplace_back(listener_);
        reception_ = std::make_unique<Reception>(std::move(listeners), token_, outbox_, audience_);
    }

    Stranger knock() const { return Stranger(ntohs(address_.sin_port)); }
    StreamCounters counters() const { return audience_->counters(); }
    Decision decided(std::int64_t sequence) const {
        audience_->finish_steps_before(sequence, true);
        std::optional<Decision> decision;
        while (!decision) decision = audience_->decide(0, sequence, std::chrono::milliseconds(50));
        audience_->carry_out(0, sequence, 40);
        return *decision;
    }
    /// What both processes of a consumer hear at the end of a stream of two steps, of which the
    /// second process has granted so many.
    Frame last_of_two_processes(std::int64_t granted) const {
        const Layout line = BlockCyclic({6}, "block", 2);
        audience_->add_array({0, "u", "\"<f8\"", line, 8});
        const Stranger first = knock(), second = knock();
        const std::string key = first.come_in(token_, 2).key;
        second.introduce(token_, {.type = Type::control, .key = key, .rank = 1});
        second.grant(granted);
        first.grant(1);
        first.subscribe({{"u", line}}, true);
        first.say({.type = Type::arrays});
        for (const std::int64_t sequence : {0, 1}) {
            EXPECT_EQ(decided(sequence).to.size(), 1u);
            audience_->sent(sequence);
        }
        while (first.heard().type != Type::arrays) {  // all that it said has been heard
        }
        audience_->end();
        const auto last_of = [](const Stranger& stranger) {
            Frame said = stranger.heard();
            while (said.type != Type::end && said.type != Type::failed) said = stranger.heard();
            return said;
        };
        const Frame last = last_of(first);
        EXPECT_EQ(last_of(second).type, last.type);
        return last;
    }

    /// Sends so many steps of one array to those who want it; what was taken, for all that the last
    /// decision says.
    std::map<std::string, std::int64_t> send(std::int64_t steps) {
        std::map<std::string, std::int64_t> taken;
        for (; steps > 0; --steps) {
            const Decision decision = decided(sequence_);
            audience_->sent(sequence_++);
            taken.clear();
            for (const auto& [key, place] : decision.taken)
                taken[key] = std::max(taken[key], place);
        }
        return taken;
    }
    /// A consumer that needs no announcement of whole steps; its key.
    std::string come_in_and_subscribe(const Stranger& stranger) const {
        std::string key = stranger.come_in(token_).key;
        stranger.subscribe({{"u", line_}}, true);
        return key;
    }
    bool all_is_taken() const { return audience_->wait_until_taken(std::chrono::milliseconds(0)); }

    const Layout line_ = BlockCyclic({6}, "block", 1);
    std::int64_t sequence_ = 0;
    const std::string token_ = "a token of the stream";
    int listener_ = -1;
    sockaddr_in address_{};
    const std::shared_ptr<Places> places_ = std::make_shared<Places>(StreamManagerOptions());
    std::shared_ptr<Audience> audience_;
    std::shared_ptr<void> entered_;
    std::shared_ptr<Outbox> outbox_;
    std::unique_ptr<Reception> reception_;
};

TEST_F(Door, OpensToWhoKnowsTheToken) {
    EXPECT_EQ(knock().come_in(token_).type, Type::welcome);
    EXPECT_EQ(knock().come_in("another").type, Type::failed);
}

/// A control link, and the other end of its connection.
struct Linked {
    Linked() {
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        there = std::make_unique<Connection>(ends[1]);
        link = std::make_unique<ControlLink>(std::make_shared<Connection>(ends[0]));
    }
    /// Sends so many bytes of the frame of a text that is this long, and, where it is to end, no
    /// more. Why it is not waited for any longer.
    ErrorCode begun(std::size_t text, std::size_t sent, bool ends) {
        const std::string frame =
            Frame{.type = Type::control, .token = std::string(text, 'x')}.bytes();
        ErrorCode code{};
        std::thread waiting([&] {
            try {
                link->wait();
            } catch (const Error& error) {
                code = error.code();
            }
            link->end();
        });
        try {
            there->send(std::as_bytes(std::span(frame).first(sent)));
            if (ends) there->end_sending();
        } catch (const Error&) {  // it was ended before
        }
        waiting.join();
        return code;
    }
    std::unique_ptr<Connection> there;
    std::unique_ptr<ControlLink> link;
};

TEST(StreamFrames, WhoseHeadersAreDamagedAreNotWaitedFor) {
    const std::string right = Frame{.type = Type::done}.bytes();
    for (std::size_t bit = 0; bit < 8 * right.size(); ++bit) {
        std::string damaged = right;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
        Linked linked;
        linked.there->send(std::as_bytes(std::span(damaged)));
        try {
            linked.link->wait();
            ADD_FAILURE() << bit;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::io) << bit;
        }
    }
}

TEST(StreamFrames, ThatAreNotFinishedInTimeAreNotWaitedFor) {
    const int before = frame_milliseconds.exchange(1);
    EXPECT_EQ(Linked().begun(100, 50, false), ErrorCode::timeout);
    frame_milliseconds = before;
}

TEST(StreamFrames, ThatAreTooLongAreNotWaitedFor) {
    EXPECT_EQ(Linked().begun(max_request_bytes - 100, 1000, true), ErrorCode::peer_failed);
    EXPECT_EQ(Linked().begun(max_request_bytes, 1000, true), ErrorCode::io);
}

TEST_F(Door, ConsumersGetWhatTheySubscribedTo) {
    const Stranger stranger = knock();
    const Frame welcome = stranger.come_in(token_);
    const Layout line = BlockCyclic({6}, "block", 1);
    audience_->add_array({0, "u", "\"<f8\"", line, 8});
    stranger.subscribe({{"u", line}});
    const Decision decision = decided(0);
    ASSERT_EQ(decision.joined.size(), 1u);
    EXPECT_EQ(decision.joined[0].key, welcome.key);
    EXPECT_EQ(decision.to[0].second, 0);
    audience_->sent(0);
    EXPECT_EQ(stranger.heard().type, Type::array);
    const Frame step = stranger.heard();
    EXPECT_EQ(step.type, Type::step);
    EXPECT_EQ(step.number, 40);
    EXPECT_FALSE(audience_->wait_until_taken(std::chrono::milliseconds(0)));
    stranger.say_done(0);
    EXPECT_TRUE(audience_->wait_until_taken(std::chrono::minutes(1)));
    audience_->end();
    EXPECT_EQ(stranger.heard().type, Type::arrays);
    EXPECT_EQ(stranger.heard().type, Type::end);
    EXPECT_EQ(counters().consumers_came, 1);
}

TEST_F(Door, IsClosedToProcessesThatAConsumerDoesNotHave) {
    const Stranger stranger = knock(), another = knock();
    const std::string key = stranger.come_in(token_, 2).key;
    another.introduce(token_, {.type = Type::control, .key = key, .rank = 2});
    EXPECT_THROW(another.heard(), Error);
    const Layout line = BlockCyclic({6}, "block", 3);
    stranger.say({.type = Type::subscribe, .wanted = {{"u", line}}});
    const Frame why = stranger.heard();
    EXPECT_EQ(why.type, Type::failed);
    EXPECT_NE(std::string(why.error->what()).find("3 processes"), std::string::npos);
}

TEST_F(Door, ConfirmsARequestOnceAllProcessesHaveGrantedSteps) {
    const Layout line = BlockCyclic({6}, "block", 2);
    audience_->add_array({0, "u", "\"<f8\"", line_, 8});
    const Stranger first = knock(), second = knock();
    const std::string key = first.come_in(token_, 2).key;
    second.introduce(token_, {.type = Type::control, .key = key, .rank = 1});
    EXPECT_EQ(second.heard().type, Type::welcome);
    first.say({.type = Type::subscribe, .wanted = {{"u", line}}});
    first.grant(1);
    first.say({.type = Type::arrays});
    for (const Type type : {Type::array, Type::arrays}) EXPECT_EQ(first.heard().type, type);
    second.grant(1);
    EXPECT_EQ(first.heard().type, Type::subscribed);
    EXPECT_EQ(decided(0).to, (std::vector<Decision::Place>{{key, 0}}));
}

TEST_F(Door, StepsOfWhichMessagesSayAllAreNotAnnounced) {
    const Stranger stranger = knock();
    stranger.come_in(token_);
    const Layout line = BlockCyclic({6}, "block", 1);
    audience_->add_array({0, "u", "\"<f8\"", line, 8});
    stranger.subscribe({{"u", line}}, true);
    for (std::int64_t step = 0; step < 3; ++step) {
        const Decision decision = decided(step);
        ASSERT_EQ(decision.to.size(), 1u);
        audience_->sent(step);
    }
    // Two of them were not granted.
    stranger.say_done(2);
    EXPECT_TRUE(audience_->wait_until_taken(std::chrono::minutes(1)));
    audience_->end();
    for (const Type type : {Type::array, Type::step, Type::arrays})
        EXPECT_EQ(stranger.heard().type, type);
    const Frame end = stranger.heard();
    EXPECT_EQ(end.type, Type::end);
    EXPECT_EQ(end.steps, 3);
}

TEST_F(Door, ProcessesOfAConsumerHaveTheSameStepsAtTheEnd) {
    const Frame end = last_of_two_processes(2);
    EXPECT_EQ(end.type, Type::end);
    EXPECT_EQ(end.steps, 2);
}

TEST_F(Door, ProcessesOfAConsumerThatMayHaveDifferentStepsAreToldAnError) {
    const Frame end = last_of_two_processes(1);
    EXPECT_EQ(end.type, Type::failed);
    EXPECT_EQ(end.error->code(), ErrorCode::timeout);
    EXPECT_EQ(counters().consumers_lost, 1);
    EXPECT_EQ(counters().steps_dropped, 1);
}

TEST_F(Door, AStepThatWasTakenBeforeItWasSaidToBeSentWakesWhoWaitsForItsPlace) {
    const Stranger stranger = knock();
    stranger.come_in(token_);
    const Layout line = BlockCyclic({6}, "block", 1);
    audience_->add_array({0, "u", "\"<f8\"", line, 8});
    stranger.subscribe({{"u", line}}, true);
    const std::string key = decided(0).to.at(0).first;
    audience_->sent(0);
    decided(1);
    for (const std::int64_t place : {0, 1}) stranger.say_done(place);
    stranger.say({.type = Type::arrays});
    while (stranger.heard().type != Type::arrays) {
    }
    std::unique_lock lock(places_->lock);
    bool waits = false;
    std::cv_status woken{};
    std::thread other([&] {
        std::unique_lock held(places_->lock);
        waits = true;
        places_->changed.notify_all();
        woken = places_->changed.wait_for(held, std::chrono::minutes(1));
    });
    places_->changed.wait(lock, [&] { return waits; });
    lock.unlock();
    audience_->sent(1);
    other.join();
    EXPECT_EQ(woken, std::cv_status::no_timeout);
    EXPECT_TRUE(audience_->wait_until_taken(std::chrono::milliseconds(0)));
}

TEST_F(Door, IsClosedToWhoHasTakenAStepThatWasNotSent) {
    audience_->add_array({0, "u", "\"<f8\"", line_, 8});
    for (const bool hears_by_messages : {false, true}) {
        const Stranger stranger = knock();
        stranger.come_in(token_);
        stranger.subscribe({{"u", line_}}, hears_by_messages);
        send(2);  // it has granted one
        stranger.say_done(1 + hears_by_messages);
        EXPECT_THROW(while (true) stranger.heard(), Error);
        EXPECT_EQ(counters().consumers_lost, 1 + hears_by_messages);
    }
}

TEST_F(Door, HearsOverDataWhatWasTakenOfStepsThatWaitHereToo) {
    const Stranger stranger = knock();
    const std::string key = come_in_and_subscribe(stranger);
    audience_->add_array({0, "u", "\"<f8\"", line_, 8});
    send(3);
    for (const std::uint64_t place : {0, 2, 1, 2}) audience_->taken_before(key, 0, place);
    EXPECT_FALSE(all_is_taken());
    audience_->taken_before("another", 0, 3);
    EXPECT_FALSE(all_is_taken());
    audience_->taken_before(key, 0, 3);
    EXPECT_TRUE(all_is_taken());
    EXPECT_EQ(counters().consumers_lost, 0);
}

TEST_F(Door, EndsWhoSaysOverDataThatItTookMoreThanWasSent) {
    for (const std::uint64_t place :
         {std::uint64_t{3}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        const Stranger stranger = knock(), other = knock();
        const std::string key = come_in_and_subscribe(stranger);
        const std::string other_key = come_in_and_subscribe(other);
        if (sequence_ == 0) audience_->add_array({0, "u", "\"<f8\"", line_, 8});
        std::map<std::string, std::uint64_t> taken;
        while (taken.size() < 2) {  // both are in
            const Decision decision = decided(sequence_);
            for (const auto& [one, at] : decision.to) {
                audience_->sent(sequence_);
                audience_->taken_before(one, 0, taken[one] = static_cast<std::uint64_t>(at) + 1);
            }
            ++sequence_;
        }
        const std::int64_t lost = counters().consumers_lost;
        EXPECT_THROW(audience_->taken_before(key, 0, place == 3 ? taken[key] + 3 : place), Error);
        Frame said = stranger.heard();
        while (said.type != Type::failed) said = stranger.heard();
        EXPECT_EQ(said.error->code(), ErrorCode::peer_failed);
        EXPECT_EQ(counters().consumers_lost, lost + 1);
        audience_->taken_before(key, 0, ~std::uint64_t{0});  // it is not known any more
        send(2);
        audience_->taken_before(other_key, 0, taken[other_key] + 2);
        EXPECT_TRUE(all_is_taken());
        const std::int64_t left = counters().consumers_left;
        other.say({.type = Type::bye});
        while (counters().consumers_left == left) std::this_thread::yield();
    }
}

TEST_F(Door, HearsOnceWhatWasTakenInWhateverOrderTwoConnectionsSayIt) {
    // As of a consumer whose connection to the first sending process comes later, or is lost.
    const Stranger stranger = knock();
    const std::string key = come_in_and_subscribe(stranger);
    audience_->add_array({0, "u", "\"<f8\"", line_, 8});
    send(3);
    audience_->taken_before(key, 0, 2);
    for (const std::int64_t place : {0, 1, 2}) stranger.say_done(place);
    EXPECT_TRUE(audience_->wait_until_taken(std::chrono::minutes(1)));
    audience_->taken_before(key, 0, 3);
    EXPECT_EQ(counters().consumers_lost, 0);
    // Those that keep the steps perhaps hear of it from nobody else.
    EXPECT_EQ(send(1), (std::map<std::string, std::int64_t>{{key, 3}}));
    stranger.say_done(17);
    while (counters().consumers_lost == 0) std::this_thread::yield();
}

TEST_F(Door, AStepIsTakenWhenAllProcessesHaveSaidSo) {
    const Layout line = BlockCyclic({6}, "block", 2);
    audience_->add_array({0, "u", "\"<f8\"", line_, 8});
    const Stranger first = knock(), second = knock();
    const std::string key = first.come_in(token_, 2).key;
    second.introduce(token_, {.type = Type::control, .key = key, .rank = 1});
    EXPECT_EQ(second.heard().type, Type::welcome);
    second.grant(1);
    first.subscribe({{"u", line}}, true);
    send(2);
    audience_->taken_before(key, 1, 2);
    EXPECT_FALSE(all_is_taken());
    audience_->taken_before(key, 0, 1);
    EXPECT_FALSE(all_is_taken());
    audience_->taken_before(key, 0, 2);
    EXPECT_TRUE(all_is_taken());
    EXPECT_THROW(audience_->taken_before(key, 1, 3), Error);
    EXPECT_EQ(counters().consumers_lost, 1);
}

TEST_F(Door, WhoLeavesTakesNothingFromTheOtherProcessesOfItsConsumer) {
    const Layout line = BlockCyclic({6}, "block", 3);
    audience_->add_array({0, "u", "\"<f8\"", line_, 8});
    const Stranger first = knock(), second = knock(), third = knock();
    const std::string key = first.come_in(token_, 3).key;
    const auto join = [&](const Stranger& stranger, int rank) {
        stranger.introduce(token_, {.type = Type::control, .key = key, .rank = rank});
        EXPECT_EQ(stranger.heard().type, Type::welcome);
        stranger.grant(8);
    };
    join(second, 1);
    join(third, 2);
    const auto done = [](const Stranger& stranger, std::int64_t place) {
        stranger.say_done(place);
    };
    const auto last = [](const Stranger& stranger) {
        Frame said = stranger.heard();
        while (said.type == Type::array || said.type == Type::step) said = stranger.heard();
        return said;
    };
    first.subscribe({{"u", line}}, true);
    send(3);  // of which the last two wait here for credits of the first process
    first.say({.type = Type::bye, .place = 2});
    while (counters().consumers == 1) std::this_thread::yield();
    // Whoever says over its data connection that it took what it said it took when it left.
    audience_->taken_before(key, 0, 2);
    const Stranger again = knock();
    again.introduce(token_, {.type = Type::control, .key = key, .rank = 2});
    EXPECT_THROW(again.heard(), Error);
    EXPECT_TRUE(decided(sequence_++).to.empty());
    done(second, 0);
    done(second, 1);
    const Frame why = last(second);  // the third has taken nothing yet
    EXPECT_EQ(why.type, Type::failed);
    EXPECT_EQ(why.error->code(), ErrorCode::peer_failed);
    EXPECT_NE(std::string(why.error->what()).find("process 0 of the consumer left"),
              std::string::npos);
    EXPECT_EQ(counters().consumers_left, 1);  // at once, since it gets no more steps
    second.say({.type = Type::bye, .place = 2, .error = Error(ErrorCode::io, "")});
    done(third, 0);
    // This one takes less: it has what it wants, and the consumer has gone.
    third.say({.type = Type::bye, .place = 1});
    EXPECT_TRUE(audience_->wait_until_taken(std::chrono::minutes(1)));
    EXPECT_EQ(counters().consumers_left, 1);
    EXPECT_EQ(counters().consumers_lost, 0);
    EXPECT_EQ(decided(sequence_).gone, std::vector<std::string>{key});
}

TEST_F(Door, TellsOfTheArraysOfAStepThatNobodyHasEnded) {
    const Stranger first = knock(), late = knock();
    first.come_in(token_);
    late.come_in(token_);
    const Layout line = BlockCyclic({6}, "block", 1);
    audience_->add_array({0, "u", "\"<f8\"", line, 8});
    first.subscribe({{"u", line}, {"v", line}});
    const Decision decision = decided(0);
    audience_->sent(0);
    late.say({.type = Type::arrays});
    EXPECT_EQ(late.heard().array.name, "u");
    EXPECT_EQ(late.heard().type, Type::arrays);
}

TEST_F(Door, LetsInWhoSpeaksWhereManyAreSilent) {
    const std::size_t most = max_connections.exchange(4);
    {
        const Stranger inside = knock();
        inside.come_in(token_);
        std::vector<Stranger> silent;
        for (int n = 0; n < 20; ++n) {
            silent.push_back(knock());
            silent.back().heard();
            EXPECT_LE(reception_->connections(), 4u);
        }
        const Stranger late = knock();
        EXPECT_EQ(late.come_in(token_).type, Type::welcome);
        EXPECT_THROW(silent.front().heard(), Error);
        EXPECT_EQ(counters().consumers_lost, 0);  // who is inside stays
        EXPECT_EQ(reception_->refused(), 20u);
    }
    max_connections = most;
}

TEST_F(Door, CountsWhomItRefusesAndNotWhoLeaves) {
    outbox_->open("key", 1);
    const auto all_have_gone = [this] {
        while (reception_->connections() > 0) std::this_thread::yield();
    };
    const Frame data{.type = Type::data, .key = "key"};
    {
        const Stranger silent = knock(), cut = knock(), polite = knock(), taker = knock();
        silent.heard();
        cut.come_in(token_);
        polite.come_in(token_);
        polite.say({.type = Type::bye});
        taker.introduce(token_, data);
    }
    all_have_gone();
    EXPECT_EQ(reception_->refused(), 0u);
    {
        const Stranger guessing = knock(), odd = knock(), lost = knock(), raving = knock();
        guessing.come_in("another");
        odd.introduce(token_, {.type = Type::subscribed});
        lost.introduce(token_, {.type = Type::data, .key = "key", .rank = 1});
        raving.come_in(token_);
        raving.say({.type = Type::subscribed});
        for (const Stranger* one : {&guessing, &odd, &lost, &raving})
            EXPECT_THROW(while (true) one->heard(), Error);
    }
    all_have_gone();
    EXPECT_EQ(reception_->refused(), 4u);
}

TEST_F(Door, IsClosedWithEverybodyInside) {
    const Stranger inside = knock(), silent = knock();
    inside.come_in(token_);
    silent.heard();
    reception_->close();
    EXPECT_THROW(inside.heard(), Error);
    EXPECT_THROW(silent.heard(), Error);
    const int late = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_NE(::connect(late, reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    ::close(late);
}

}  // namespace
}  // namespace datamover::stream
