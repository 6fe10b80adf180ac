// SPDX-License-Identifier: BSD-3-Clause
// Acknowledgments on data connections: read by the sending program or by a thread, and nothing
// waits for a resting thread.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "stream/sender/outbox.hpp"
#include "stream/wire/headers.hpp"
#include "stream_served.hpp"

namespace datamover::stream {
namespace {

constexpr std::size_t elems = 100;
constexpr std::uint32_t not_a_grant = 2;
constexpr std::uint64_t many = 1 << 20, all = ~std::uint64_t{0};

/// So long threads rest; longer than any test waits, so that what needs one of them fails.
class Patience {
public:
    explicit Patience(std::chrono::milliseconds time = std::chrono::minutes(30)) {
        DataSender::patience_milliseconds = static_cast<int>(time.count());
    }
    ~Patience() { DataSender::patience_milliseconds = before_; }
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;

private:
    const int before_ = DataSender::patience_milliseconds;
};

/// A data connection whose thread rests, after some steps that were sent and taken.
struct Resting {
    Resting() {
        served.grant(0, many);
        do {
            send();
            served.grant(steps, many);
            // Some part of what was said the thread may have heard before it rests.
            while (served.taken() < steps) served.outbox().tell(News::hears);
        } while (!served.heard_here() && steps < 100'000);
    }
    /// A step is sent and received.
    void send() {
        served.pack(steps++, message);
        EXPECT_TRUE(comes());
    }
    /// Whether the next chunk does, of so many bytes.
    bool comes(std::size_t bytes = elems) const {
        const std::size_t count = sizeof(ChunkHeader) + bytes;
        return served.read(count).size() == count;
    }

    const Patience patience;
    const Bytes message = bytes_of(elems, 1);
    Served served{elems, true};
    std::uint64_t steps = 0;
};

TEST(StreamAcknowledgements, AreHeardByTheProgramWhereTheThreadRests) {
    Resting resting;
    EXPECT_TRUE(resting.served.heard_here());
    EXPECT_EQ(resting.served.taken(), resting.steps);
    EXPECT_EQ(resting.served.outbox().bytes_kept(), 0u);
}

TEST(StreamAcknowledgements, AreHeardByTheThreadWhereTheProgramWaits) {
    for (const bool says_it_first : {false, true}) {
        Resting resting;
        resting.send();
        if (says_it_first) resting.served.grant(resting.steps, many);
        resting.served.outbox().tell(News::leaves);
        if (!says_it_first) resting.served.grant(resting.steps, many);
        EXPECT_TRUE(resting.served.await_taken(resting.steps));
        EXPECT_FALSE(resting.served.heard_here());
        EXPECT_EQ(resting.served.outbox().bytes_kept(), 0u);
    }
}

TEST(StreamAcknowledgements, AreHeardByTheThreadWhereAMessageMayNotBeSentYet) {
    const Patience patience;
    Served served(elems, true);
    const Bytes message = bytes_of(elems, 1);
    for (std::uint64_t place = 0; place < 300; ++place) {
        served.pack(place, message);
        served.grant(place, place + 1);  // nobody does anything else
        ASSERT_EQ(served.read(sizeof(ChunkHeader) + elems).size(), sizeof(ChunkHeader) + elems)
            << place;
    }
}

TEST(StreamAcknowledgements, OfAnEndThatIsGoneAreNotWaitedFor) {
    using Call = std::function<void(Resting&)>;
    const std::vector<Call> calls{
        [](Resting& resting) { resting.served.outbox().tell(News::hears); },
        [](Resting& resting) { resting.served.outbox().tell(News::leaves); },
        [](Resting& resting) { resting.served.pack(resting.steps, resting.message); }};
    for (const Call& call : calls) {
        Resting resting;
        resting.served.leave();
        call(resting);
        EXPECT_EQ(resting.served.ended(), ErrorCode::peer_failed);
    }
    for (const bool forgets : {false, true}) {
        Resting resting;
        if (forgets)
            resting.served.outbox().forget("key");
        else
            resting.served.outbox().end("key");
        EXPECT_EQ(resting.served.ended(), ErrorCode::peer_failed);
    }
}

TEST(StreamAcknowledgements, ThatMakeNoSenseEndTheConnectionWhoeverHearsThem) {
    for (const bool hears : {false, true}) {
        for (const std::uint64_t place : {std::uint64_t{0}, all}) {
            Resting resting;
            resting.served.most_taken = resting.steps;
            if (place == 0)
                resting.served.grant(0, 0, not_a_grant);
            else
                resting.served.grant(place, many);
            if (hears) {
                resting.served.outbox().tell(News::hears);
                if (place == 0) resting.served.pack(resting.steps, resting.message);  // not sent
            } else {
                resting.served.outbox().tell(News::leaves);
            }
            resting.served.ended();
            EXPECT_EQ(resting.served.taken(), resting.steps);
        }
    }
}

TEST(StreamAcknowledgements, DoNotGoBack) {
    Resting resting;
    const std::uint64_t steps = resting.steps;
    resting.send();
    for (const std::uint64_t place : {steps, std::uint64_t{0}, steps - 1})
        resting.served.grant(place, 0);
    resting.served.outbox().tell(News::hears);
    EXPECT_EQ(resting.served.taken(), steps);
    EXPECT_EQ(resting.served.outbox().bytes_kept(), elems);
    resting.send();  // it was granted before
    resting.served.grant(steps + 2, 0);
    resting.served.outbox().tell(News::leaves);
    EXPECT_TRUE(resting.served.await_taken(steps + 2));
    EXPECT_EQ(resting.served.outbox().bytes_kept(), 0u);
}

TEST(StreamAcknowledgements, AreNeverLost) {
    constexpr std::uint64_t steps = 3000;
    for (const int patience : {0, 1, 1'800'000}) {
        const Patience given{std::chrono::milliseconds(patience)};
        Served served(elems, true);
        const Bytes message = bytes_of(elems, 2);
        std::mt19937 draw(3);
        std::thread receiving([&served] {
            std::mt19937 here(4);
            constexpr std::uint64_t ahead = 4;
            served.grant(0, ahead);
            for (std::uint64_t place = 0; place < steps; ++place) {
                constexpr std::size_t bytes = sizeof(ChunkHeader) + elems;
                if (served.read(bytes).size() < bytes) return;
                if (here() % 2 == 0) std::this_thread::yield();
                served.grant(place + 1, place + 1 + ahead);
            }
        });
        for (std::uint64_t place = 0; place < steps; ++place) {
            served.pack(place, message);
            const std::uint64_t wanted = place - std::min<std::uint64_t>(place, draw() % 6);
            // As a program does that waits for credits.
            if (served.taken() < wanted) served.outbox().tell(News::hears);
            if (served.taken() < wanted) served.outbox().tell(News::leaves);
            if (!served.await_taken(wanted)) {
                ADD_FAILURE() << "lost at " << place << " with a patience of " << patience;
                break;
            }
        }
        served.outbox().tell(News::leaves);
        EXPECT_TRUE(served.await_taken(steps));
        receiving.join();
        EXPECT_EQ(served.outbox().bytes_kept(), 0u);
    }
}

}  // namespace
}  // namespace datamover::stream
