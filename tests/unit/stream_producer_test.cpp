// SPDX-License-Identifier: BSD-3-Clause
// Producers: the outcome for a step and its consumers when a sending call is interrupted, or when
// the sending processes make different calls.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/error.hpp"
#include "stream/sender/producer.hpp"
#include "stream/wire/endpoints.hpp"
#include "stream/wire/together.hpp"
#include "stream/wire/token.hpp"
#include "stream_stranger.hpp"

namespace datamover::stream {
namespace {

class InterruptedSend : public std::exception, public Interruption {};

/// A process alone, interrupted in one of the calls in which it would hear of others, or beside
/// another that closes the stream in the call in which something is decided.
class InterruptedAlone : public Together {
public:
    std::optional<Call> interrupted_in;
    bool other_closes = false;
    bool other_is_wrong = false;
    Ends ends_with_it = Ends::nothing;
    std::function<void()> while_told;  ///< of a decision: others know it then, this one not yet
    std::string other_failed_for;      ///< a consumer's key
    Call other_says_so_in = Call::decide;
    bool other_uses_another_stream = false;
    int exchanges = 0;
    bool others_hear_of_wrong_calls = true;
    std::optional<Error> looking_fails;

    void look_around() override {
        if (looking_fails) throw *std::exchange(looking_fails, std::nullopt);
    }
    bool is_alone() const override { return false; }
    std::vector<Numbers> gather(const Numbers& mine) override {
        ++exchanges;
        // The options of a stream are no call: they begin with the length of its token.
        if (mine.front() == 0 || mine.front() > static_cast<std::int64_t>(Call::wrong))
            return {mine};
        SaidCall here;
        Words words(mine, Words::Writer::same_end);
        here.pass(words);
        if (here.call == Call::wrong && !others_hear_of_wrong_calls)
            throw Error(ErrorCode::timeout, "they have not come");
        const bool decides = here.call == Call::decide;
        const bool counts = !decides || here.is_done;
        if (counts && interrupted_in == here.call) {
            interrupted_in.reset();
            throw InterruptedSend();
        }
        if (counts && decides && while_told) std::exchange(while_told, {})();
        SaidCall there = here;
        if ((decides || here.call == Call::close) && std::exchange(other_is_wrong, false)) {
            there.call = Call::wrong;
            there.ends = ends_with_it;
            there.error = Error(ErrorCode::wrong_type, "what another process sends");
        } else if (counts && decides && std::exchange(other_closes, false)) {
            there.call = Call::close;
        } else if (decides && std::exchange(other_uses_another_stream, false)) {
            ++there.stream;
        } else if (counts && here.call == other_says_so_in && !other_failed_for.empty()) {
            there.failures.push_back({std::exchange(other_failed_for, ""),
                                      Error(ErrorCode::no_memory, "no memory there")});
        } else {
            return {mine};
        }
        Words of_there;
        there.pass(of_there);
        return {mine, of_there.numbers()};
    }
};

/// The only process of a stream, and a consumer of some of its arrays.
struct Sender {
    explicit Sender(std::int64_t consumers = 0, std::shared_ptr<Places> places = nullptr,
                    const std::string& name = "") {
        options.consumers = consumers;
        producer = std::make_unique<Producer>(alone, "tcp://127.0.0.1:0", options,
                                              std::move(places), name);
    }
    void send(const std::string& name, std::int64_t step) const {
        send(name, step, static_cast<std::int64_t>(values.size()) * 8);
    }
    /// Packing fails where fewer bytes may be read than the array has.
    void send(const std::string& name, std::int64_t step, std::int64_t bytes) const {
        producer->send(name,
                       {line,
                        reinterpret_cast<const std::byte*>(values.data()),
                        &memory,
                        {0, bytes},
                        "\"<f8\"",
                        8},
                       step);
    }
    std::unique_ptr<Stranger> consumer_of(const std::vector<std::string>& names,
                                          bool hears_by_messages = false) const {
        auto consumer = std::make_unique<Stranger>(Address::of_text(producer->address()).port);
        EXPECT_EQ(consumer->come_in(producer->token()).type, Frame::Type::welcome);
        std::vector<std::pair<std::string, Layout>> wanted;
        for (const std::string& name : names) wanted.emplace_back(name, line);
        consumer->subscribe(wanted, hears_by_messages);
        return consumer;
    }

    const Layout line = BlockCyclic({6}, "(block)", 1);
    const MemoryLayout memory = dense_memory(line, 0, 8);
    const std::vector<double> values = std::vector<double>(6, 1.0);
    const std::shared_ptr<InterruptedAlone> alone = std::make_shared<InterruptedAlone>();
    StreamOptions options;
    std::unique_ptr<Producer> producer;
};

/// What a consumer hears from now on, up to frames of this type.
std::vector<Frame::Type> heard_up_to(Frame::Type type, const Stranger& consumer) {
    std::vector<Frame::Type> types;
    do types.push_back(consumer.heard().type);
    while (types.back() != type);
    return types;
}

class StreamProducer : public ::testing::TestWithParam<Call> {};

TEST_P(StreamProducer, AnInterruptedStepIsSentAgainWholeOrGoesOn) {
    const Sender sender;
    sender.send("u", 3);
    sender.alone->interrupted_in = GetParam();
    EXPECT_THROW(sender.send("v", 3), InterruptedSend);
    // Before anything was decided the step goes on; after that it has ended, and begins again.
    if (GetParam() == Call::add) {
        EXPECT_THROW(sender.send("u", 3), Error) << "it was sent in this step before";
    } else {
        sender.send("u", 3);
    }
    sender.send("v", 3);
    EXPECT_THROW(sender.send("v", 3), Error);
    sender.send("u", 4);
    sender.producer->close(1.0);
}

INSTANTIATE_TEST_SUITE_P(Calls, StreamProducer, ::testing::Values(Call::add, Call::decide));

class StreamProducerWithConsumers : public ::testing::TestWithParam<Call> {};

TEST_P(StreamProducerWithConsumers, EndsThoseOfAnInterruptedStep) {
    const Sender sender(2);
    const auto concerned = sender.consumer_of({"u", "v"}), other = sender.consumer_of({"w"});
    sender.alone->interrupted_in = GetParam();
    EXPECT_THROW(sender.send("u", 0), InterruptedSend);
    // One whom the step does not concern had joined in that call all the same.
    EXPECT_EQ(heard_up_to(Frame::Type::failed, *concerned).back(), Frame::Type::failed);
    EXPECT_EQ(heard_up_to(Frame::Type::failed, *other).back(), Frame::Type::failed);
    EXPECT_EQ(sender.producer->counters().consumers, 0);
    EXPECT_EQ(sender.producer->counters().consumers_lost, 2);
    sender.send("u", 0);
    sender.send("w", 0);
    EXPECT_EQ(sender.producer->counters().bytes_kept, 0u);
    // Who comes later gets what comes later.
    const auto later = sender.consumer_of({"u"});
    std::int64_t step = 1;
    while (sender.producer->counters().consumers == 0) sender.send("u", step++);
    EXPECT_EQ(heard_up_to(Frame::Type::step, *later),
              (std::vector{Frame::Type::array, Frame::Type::step}));
}

INSTANTIATE_TEST_SUITE_P(Calls, StreamProducerWithConsumers,
                         ::testing::Values(Call::decide, Call::pack));

TEST(StreamProducerBesideAnother, HearsWithItsNextCallForWhomTheOtherFailed) {
    const Sender sender(2);
    const auto concerned = sender.consumer_of({"u"}, true), other = sender.consumer_of({"u"});
    sender.send("u", 0);
    sender.alone->other_failed_for = sender.producer->outbox().keys().front();
    sender.send("u", 1);
    sender.send("u", 2);
    EXPECT_EQ(sender.producer->counters().consumers, 1);
    EXPECT_EQ(sender.producer->counters().consumers_lost, 1);
    EXPECT_EQ(sender.producer->outbox().keys().size(), 1u);
}

TEST(StreamProducerBesideAnother, HearsAtOnceWhereAnotherStreamMayWaitForItsPlace) {
    StreamManagerOptions one_place;
    one_place.active = 1;
    const auto places = std::make_shared<Places>(one_place);
    const Sender first(1, places, "first"), second(1, places, "second");
    const auto concerned = first.consumer_of({"u"}, true), other = second.consumer_of({"u"});
    first.send("u", 0);
    concerned->say_done(0);
    first.alone->other_failed_for = first.producer->outbox().keys().front();
    first.alone->other_says_so_in = Call::pack;
    first.send("u", 1);
    ASSERT_EQ(first.producer->counters().consumers_lost, 1);
    second.send("u", 0);
    EXPECT_EQ(second.producer->counters().consumers, 1);
}

class StreamProducerAlone : public ::testing::TestWithParam<bool> {};

TEST_P(StreamProducerAlone, HasItsConsumerKnowWhereItCannotPack) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"}, GetParam());
    consumer->grant(1);
    sender.send("u", 0);
    const Stranger data(Address::of_text(sender.producer->address()).port);
    data.introduce(sender.producer->token(),
                   {.type = Frame::Type::data, .key = sender.producer->outbox().keys().front()});
    sender.send("u", 1, 8);
    EXPECT_EQ(heard_up_to(Frame::Type::failed, *consumer).back(), Frame::Type::failed);
    try {
        data.heard();
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::peer_failed) << error.what();
    }
    sender.send("u", 2);
    EXPECT_EQ(sender.producer->counters().consumers_lost, 1);
    EXPECT_TRUE(sender.producer->outbox().keys().empty());
}

INSTANTIATE_TEST_SUITE_P(WhoHearsByMessagesOrNot, StreamProducerAlone, ::testing::Bool());

/// Opens on this process; another one cannot.
class OtherCannotOpen : public Together {
public:
    std::function<void()> when_open;

    void agree(const std::optional<Error>& mine) override {
        Together::agree(mine);
        if (++agreed_ < 2) return;
        when_open();
        throw Error(ErrorCode::io, "another process cannot open the stream");
    }

private:
    int agreed_ = 0;
};

TEST(StreamProducerBesideAnother, ATokenGoesBeforeTheAddressIsFree) {
    Address address{"127.0.0.1", 0};
    address = listen_at(address, 0, false).address;  // one that is free
    const std::string text = address.text();
    for (int n = 0; n < 50; ++n) {
        const auto other = std::make_shared<OtherCannotOpen>();
        std::atomic<bool> looks{false};
        std::string found = "nothing was looked for";
        std::thread next;
        other->when_open = [&] {
            EXPECT_NE(stored_token(text), "");
            next = std::thread([&] {
                looks = true;
                while (true) {
                    try {
                        const Listeners listeners = listen_at(address, 0, false);
                        found = stored_token(text);
                        return;
                    } catch (const Error&) {  // it is not free yet
                    }
                }
            });
            while (!looks) std::this_thread::yield();
        };
        EXPECT_THROW(Producer(other, text, {}), Error);
        next.join();
        EXPECT_EQ(found, "") << "of a stream that was not opened";
    }
}

TEST(StreamProducerWithManager, SaysWhetherItWaitsForStepsToBeTaken) {
    struct Case {
        std::int64_t queue_bytes;
        bool has_manager, waits;
    };
    for (const Case& c : {Case{0, false, false}, Case{std::int64_t{1} << 30, false, false},
                          Case{1 << 20, false, true}, Case{0, true, true}}) {
        StreamOptions options;
        options.queue_bytes = c.queue_bytes;
        const auto places =
            c.has_manager ? std::make_shared<Places>(StreamManagerOptions()) : nullptr;
        const Producer producer(std::make_shared<Together>(), "tcp://127.0.0.1:0", options, places,
                                "name");
        const Stranger stranger(Address::of_text(producer.address()).port);
        const Frame welcome = stranger.come_in(producer.token());
        EXPECT_EQ(welcome.is_pressed, c.waits) << c.queue_bytes;
    }
}

TEST(StreamProducerBesideAnother, WhoseCallIsWrongSaysWhyWhereTheOthersDoNotCome) {
    const Sender sender;
    sender.alone->others_hear_of_wrong_calls = false;
    try {
        sender.producer->refuse(Error(ErrorCode::wrong_type, "what was given"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::wrong_type);
        EXPECT_NE(std::string(error.what()).find("what was given; "), std::string::npos);
        EXPECT_NE(std::string(error.what()).find("they have not come"), std::string::npos);
    }
}

TEST(StreamProducerBesideAnother, ClosesNothingThatASendOfAnotherThreadHasEnded) {
    const Sender sender;
    sender.alone->other_closes = true;
    std::thread closing;
    int before = 0;
    sender.alone->while_told = [&] {
        before = sender.alone->exchanges;
        closing = std::thread([&] { sender.producer->close(1.0); });
        while (!sender.producer->is_closed()) std::this_thread::yield();
    };
    EXPECT_THROW(sender.send("u", 0), Error);
    closing.join();
    EXPECT_EQ(sender.alone->exchanges, before) << "the other process is not in a call";
}

TEST(StreamProducerBesideAnother, NobodyIsToldOfAWrongCallBehindTheEnd) {
    const Sender sender;
    sender.producer->close(1.0);
    const int before = sender.alone->exchanges;
    EXPECT_THROW(sender.producer->refuse(Error(ErrorCode::wrong_type, "late")), Error);
    EXPECT_EQ(sender.alone->exchanges, before) << "the others would not be at this call";
}

TEST(StreamProducerBesideAnother, WhoClosesEndsConsumersThatJustJoinedAndTheStream) {
    const Sender sender(2);
    const auto concerned = sender.consumer_of({"u"}), other = sender.consumer_of({"w"});
    sender.alone->other_closes = true;
    EXPECT_THROW(sender.send("u", 0), Error);
    EXPECT_EQ(heard_up_to(Frame::Type::failed, *concerned).back(), Frame::Type::failed);
    EXPECT_EQ(heard_up_to(Frame::Type::failed, *other).back(), Frame::Type::failed);
    EXPECT_EQ(sender.producer->counters().consumers, 0);
    // The other would take part in no further call.
    EXPECT_THROW(sender.send("u", 0), Error);
    sender.producer->close({});
}

TEST(StreamProducerBesideAnother, WhoFailsEndsTheStreamAndItsConsumers) {
    for (const Ends ends : {Ends::stream, Ends::all_streams}) {
        const Sender sender(1);
        const auto consumer = sender.consumer_of({"u"});
        sender.send("u", 0);
        sender.alone->other_is_wrong = true;
        sender.alone->ends_with_it = ends;
        EXPECT_THROW(sender.send("u", 1), Error);
        EXPECT_EQ(heard_up_to(Frame::Type::failed, *consumer).back(), Frame::Type::failed);
        EXPECT_TRUE(sender.producer->is_closed());
        EXPECT_THROW(sender.send("u", 2), Error);
        sender.producer->close({});
    }
}

TEST(StreamProducerBesideAnother, WhoClosesWronglyLeavesTheStreamOpen) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"});
    sender.send("u", 0);
    sender.alone->other_is_wrong = true;
    EXPECT_THROW(sender.producer->close(1.0), Error);
    EXPECT_FALSE(sender.alone->other_is_wrong) << "it heard of it";
    EXPECT_FALSE(sender.producer->is_closed());
    EXPECT_THROW(sender.producer->close(-1.0), Error);
    EXPECT_FALSE(sender.producer->is_closed());
    sender.send("u", 1);
    EXPECT_EQ(sender.producer->counters().consumers, 1);
}

TEST(StreamProducerBesideAnother, WhoseCallIsWrongHasChangedNothing) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u", "v"}, true);
    sender.send("u", 0);
    sender.send("v", 0);
    EXPECT_EQ(heard_up_to(Frame::Type::step, *consumer).back(), Frame::Type::step);
    sender.send("u", 1);
    // In the midst of a step, and where the next one would begin.
    for (const auto& [name, step] : std::map<std::string, std::int64_t>{{"u", 2}, {"v", 1}}) {
        sender.alone->other_is_wrong = true;
        EXPECT_THROW(sender.send(name, step), Error);
        EXPECT_FALSE(sender.alone->other_is_wrong) << "it heard of it";
        EXPECT_EQ(sender.producer->counters().bytes_kept, 3u * 6 * 8);
    }
    sender.send("v", 1);
    EXPECT_THROW(sender.send("v", 1), Error) << "it was sent in this step before";
    EXPECT_EQ(sender.producer->counters().consumers, 1);
    EXPECT_EQ(sender.producer->counters().consumers_lost, 0);
    EXPECT_EQ(sender.producer->counters().bytes_kept, 2u * 2 * 6 * 8);
    const std::string key = sender.producer->outbox().keys().front();
    sender.producer->audience()->taken_before(key, 0, 2);
    EXPECT_TRUE(sender.producer->audience()->wait_until_taken({})) << "there is a third step";
}

TEST(StreamProducerBesideAnother, WhoseFirstCallIsWrongLetsConsumersInWithTheNext) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"});
    sender.alone->other_is_wrong = true;
    EXPECT_THROW(sender.send("u", 0), Error);
    EXPECT_FALSE(sender.alone->other_is_wrong) << "it heard of it";
    EXPECT_TRUE(sender.producer->outbox().keys().empty());
    sender.send("u", 0);
    EXPECT_EQ(sender.producer->outbox().keys().size(), 1u);
    EXPECT_EQ(sender.producer->counters().consumers, 1);
    EXPECT_EQ(heard_up_to(Frame::Type::step, *consumer),
              (std::vector{Frame::Type::array, Frame::Type::step}));
}

TEST(StreamProducerBesideAnother, WhoComesWithAWrongCallGetsNothingOfTheStepBefore) {
    const Sender sender;
    sender.send("u", 0);
    const auto consumer = sender.consumer_of({"u", "v"}, true);
    while (sender.producer->counters().consumers == 0) {  // until it has subscribed
        sender.alone->other_is_wrong = true;
        EXPECT_THROW(sender.send("u", 1), Error);
    }
    sender.send("v", 0);
    EXPECT_EQ(sender.producer->counters().bytes_kept, 0u);
    sender.send("u", 1);
    EXPECT_EQ(sender.producer->counters().bytes_kept, 6u * 8);
}

TEST(StreamProducerBesideAnother, AnErrorThatEndsTheWaitOfClosingEndsTheStream) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"});
    sender.send("u", 0);
    sender.alone->looking_fails = Error(ErrorCode::timeout, "the others are gone");
    try {
        sender.producer->close({});
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
    }
    EXPECT_TRUE(sender.producer->is_closed());
}

TEST(StreamProducerBesideAnother, MayBeBehindWhoHasTakenItsStep) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"}, true);
    sender.send("u", 0);
    const std::string key = sender.producer->outbox().keys().front();
    sender.producer->audience()->taken_before(key, 0, 1);
    bool was_told = false;
    sender.alone->while_told = [&] {
        was_told = true;
        sender.producer->audience()->taken_before(key, 0, 2);
    };
    sender.send("u", 1);
    EXPECT_TRUE(was_told);
    EXPECT_EQ(sender.producer->counters().consumers_lost, 0);
    EXPECT_TRUE(sender.producer->audience()->wait_until_taken({}));
    // Nor has it taken what nobody has sent.
    EXPECT_THROW(sender.producer->audience()->taken_before(key, 0, 3), Error);
}

TEST_P(StreamProducerAlone, AgreesOnEachCallInOneExchange) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"}, GetParam());
    consumer->grant(63);
    for (std::int64_t step = 0; step < 200; ++step) {
        const int before = sender.alone->exchanges;
        sender.send("u", step);
        EXPECT_TRUE(step == 0 || sender.alone->exchanges == before + 1) << step;
        sender.producer->audience()->taken_before(sender.producer->outbox().keys().front(), 0,
                                                  static_cast<std::uint64_t>(step) + 1);
    }
}

TEST(StreamProducerBesideAnother, WhoUsesAnotherStreamIsAtAnotherCall) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"}, true);
    sender.send("u", 0);
    sender.alone->other_uses_another_stream = true;
    try {
        sender.send("u", 1);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        EXPECT_NE(std::string(error.what()).find("another stream"), std::string::npos)
            << error.what();
    }
    sender.send("u", 1);  // nothing was sent, and nothing has ended
    EXPECT_EQ(sender.producer->counters().consumers, 1);
    EXPECT_EQ(sender.producer->counters().consumers_lost, 0);
}

TEST(StreamProducerForked, LeavesTheStreamToItsParent) {
    const Sender sender(1);
    const auto consumer = sender.consumer_of({"u"});
    sender.send("u", 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        int refused = 1;
        try {
            sender.producer->end_step();
        } catch (const Error& error) {
            refused = error.code() == ErrorCode::invalid_state ? 0 : 2;
        }
        sender.producer->close(1.0);
        ::_exit(refused);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    consumer->grant(1);
    sender.send("u", 1);
    EXPECT_EQ(heard_up_to(Frame::Type::step, *consumer),
              (std::vector{Frame::Type::array, Frame::Type::step}));
    EXPECT_EQ(heard_up_to(Frame::Type::step, *consumer), (std::vector{Frame::Type::step}));
}

}  // namespace
}  // namespace datamover::stream
