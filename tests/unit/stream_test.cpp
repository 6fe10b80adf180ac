// SPDX-License-Identifier: BSD-3-Clause
// Messages of a stream: checksums match RFC 3720, every byte of a message belongs to one
// connection, a box sends what is granted and reuses memory, and a data connection rejects invalid
// requests.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "datamover/error.hpp"
#include "memory/crc32c.hpp"
#include "stream/sender/outbox.hpp"
#include "stream/wire/headers.hpp"
#include "stream/wire/message_memory.hpp"
#include "stream_served.hpp"

namespace datamover::stream {
namespace {

/// As RFC 3720 defines it, a bit at a time.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
    std::uint32_t crc = 0xffffffffu;
    for (const std::byte byte : bytes) {
        crc ^= static_cast<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) * 0x82f63b78u);
    }
    return ~crc;
}

TEST(StreamChecksum, IsThatOfTheVectorsOfRfc3720) {
    Bytes rising(32), falling(32);
    for (int n = 0; n < 32; ++n) {
        rising[static_cast<std::size_t>(n)] = static_cast<std::byte>(n);
        falling[static_cast<std::size_t>(n)] = static_cast<std::byte>(31 - n);
    }
    Bytes read(48);
    const std::array<std::pair<std::size_t, int>, 8> set{{{0, 0x01},
                                                          {1, 0xc0},
                                                          {16, 0x14},
                                                          {22, 0x04},
                                                          {27, 0x14},
                                                          {31, 0x18},
                                                          {32, 0x28},
                                                          {40, 0x02}}};
    for (const auto& [at, value] : set) read[at] = static_cast<std::byte>(value);
    for (const auto& checksum :
         {memory::crc32c, memory::crc32c_by_instruction, memory::crc32c_by_table}) {
        EXPECT_EQ(checksum(Bytes(32)), 0x8a9136aau);
        EXPECT_EQ(checksum(Bytes(32, std::byte{0xff})), 0x62a8ab43u);
        EXPECT_EQ(checksum(rising), 0x46dd794eu);
        EXPECT_EQ(checksum(falling), 0x113fdb5cu);
        EXPECT_EQ(checksum(read), 0xd9963a56u);
        EXPECT_EQ(checksum({}), 0u);
    }
}

TEST(StreamChecksum, IsTheDefinitionsAtEveryLengthAndAlignment) {
    const Bytes bytes = bytes_of(40'000, 1);
    std::mt19937 draw(2);
    for (int n = 0; n < 300; ++n) {
        const std::size_t begin = draw() % 17;
        const std::size_t count = draw() % (n < 100 ? 40 : bytes.size() - begin);
        const auto part = std::span(bytes).subspan(begin, count);
        ASSERT_EQ(memory::crc32c(part), by_definition(part)) << begin << " " << count;
        ASSERT_EQ(memory::crc32c_by_instruction(part), by_definition(part))
            << begin << " " << count;
        ASSERT_EQ(memory::crc32c_by_table(part), by_definition(part)) << begin << " " << count;
        const std::size_t to = draw() % 64;
        Bytes copy(to + count + 1, std::byte{0xa5});
        ASSERT_EQ(memory::copy_with_crc32c(part, copy.data() + to), by_definition(part)) << count;
        ASSERT_TRUE(std::equal(part.begin(), part.end(), copy.begin() + static_cast<long>(to)));
        ASSERT_TRUE(to == 0 || copy[to - 1] == std::byte{0xa5});
        ASSERT_EQ(copy.back(), std::byte{0xa5});
    }
}

TEST(StreamMessage, IsSharedByItsPathwaysWithoutGaps) {
    std::mt19937_64 draw(3);
    for (int n = 0; n < 1000; ++n) {
        const std::uint64_t bytes = draw() >> draw() % 64;
        const int pathways = 1 + static_cast<int>(draw() % max_pathways);
        std::uint64_t reached = 0;
        for (int pathway = 0; pathway < pathways && bytes < (std::uint64_t{1} << 62); ++pathway) {
            const auto [begin, end] = share_of(bytes, pathway, pathways);
            ASSERT_EQ(begin, reached);
            ASSERT_TRUE(begin % share_bytes == 0 || begin == bytes);
            reached = end;
        }
        ASSERT_TRUE(reached == bytes || bytes >= std::uint64_t{1} << 62);
    }
}

TEST(StreamSegment, IsReadByOthersAndNotWritten) {
    const auto segment = Memory::make_segment(1 << 16);
    ASSERT_NE(segment, nullptr);
    const int file = segment->open_for_reading();
    EXPECT_EQ(::mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
    EXPECT_LT(::pwrite(file, "x", 1, 0), 0);
    EXPECT_NE(::ftruncate(file, 0), 0);
    const void* seen = ::mmap(nullptr, 1 << 16, PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(seen, MAP_FAILED);
    std::memset(segment->bytes().data(), 7, segment->bytes().size());
    EXPECT_EQ(std::memcmp(seen, segment->bytes().data(), 1 << 16), 0);
    ::munmap(const_cast<void*>(seen), 1 << 16);
    ::close(file);
}

TEST(StreamBox, FindsWhatMayBeSent) {
    Box box;
    for (std::uint64_t place = 0; place < 4; ++place) box.put(place, 0, box.memory(8));
    box.forget(0, 2);
    const Box::Next third = box.next(0, 3);
    ASSERT_TRUE(third.kept);
    EXPECT_EQ(third.number, 2u);
    EXPECT_EQ(third.kept->place, 2u);
    const Box::Next none = box.next(third.number + 1, 3);
    EXPECT_EQ(none.number, 3u);
    EXPECT_FALSE(none.kept);
    EXPECT_TRUE(none.is_to_come);
    EXPECT_EQ(box.bytes_kept(), 16u);
}

/// The message of a step that is kept, as a connection reads it.
MemoryPtr read_from(Box& box, std::uint64_t place) {
    return box.next(place, place + 1).kept.value().message;
}

TEST(StreamBox, UsesMemoryAgainThatNobodyReads) {
    Box box;
    box.put(0, 0, box.memory(1000));
    MemoryPtr read = read_from(box, 0);
    const void* const memory = read->bytes().data();
    box.forget(0, 1);
    EXPECT_FALSE(box.next(0, 1).kept);
    EXPECT_EQ(box.bytes_kept(), 0u);
    MemoryPtr other = box.memory(1000);
    EXPECT_NE(other->bytes().data(), memory);
    read.reset();
    EXPECT_EQ(box.memory(1000)->bytes().data(), memory);
}

TEST(StreamBox, FreesWhatIsReadAsSoonAsItIsGivenBack) {
    constexpr std::size_t bytes = Memory::least_shared_bytes;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Connection here(ends[0]), there(ends[1]);
    std::atomic<std::uint64_t> sent{0};
    Box box;
    const DataSender reader(here, box, 0, 1, {}, sent);  // nothing is granted to it
    box.put(0, 0, box.memory(bytes));
    MemoryPtr read = read_from(box, 0);
    ASSERT_TRUE(read->is_segment());
    box.forget(0, 1);
    box.free_unused();
    EXPECT_EQ(box.bytes_held(), bytes);
    read.reset();
    EXPECT_EQ(box.bytes_held(), 0u);
    // With the next message, memory stays again for those after it.
    box.put(1, 0, box.memory(bytes));
    read = read_from(box, 1);
    box.forget(0, 2);
    read.reset();
    EXPECT_EQ(box.bytes_held(), bytes);
}

TEST(StreamBox, LeavesMemoryAsItIsThatMayStillBeRead) {
    constexpr std::size_t bytes = Memory::least_shared_bytes;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Connection here(ends[0]), there(ends[1]);
    std::atomic<std::uint64_t> sent{0};
    Box box;
    auto sender = std::make_unique<DataSender>(here, box, 0, 1, SendingHabits{}, sent);
    std::thread serving([&sender] { EXPECT_THROW(sender->serve(), Error); });
    MemoryPtr message = box.memory(bytes);
    std::memset(message->bytes().data(), 7, bytes);
    box.put(0, 0, std::move(message));
    there.send(bytes_of_header(sealed(Grant{.may = 1})));
    Bytes header(sizeof(ChunkHeader));
    std::deque<Descriptor> files;
    while (!there.receive(header, {}, &files)) std::this_thread::yield();
    // The stream ends, and the process has not read the message yet.
    box.free_unused();
    sender->end();
    serving.join();
    sender.reset();
    ASSERT_EQ(files.size(), 1u);
    const SegmentView seen = view_of_segment(files.front().get());
    EXPECT_EQ(std::ranges::count(*seen, std::byte{7}), std::ssize(*seen));
}

/// Reads a chunk and compares it with its part of a message.
void expect_chunk(const Served& served, const Bytes& message, std::uint64_t place,
                  std::uint64_t offset, std::uint64_t count) {
    const Bytes header = served.read(sizeof(ChunkHeader));
    ASSERT_EQ(header.size(), sizeof(ChunkHeader));
    const Bytes chunk = served.read(count);
    const auto fields = header_at<ChunkHeader>(header);
    EXPECT_FALSE(fields.is_shared());
    EXPECT_EQ(fields.checksum, by_definition(chunk));
    EXPECT_EQ(fields.place, place);
    EXPECT_EQ(fields.offset, offset);
    EXPECT_EQ(fields.bytes, count);
    const auto part = std::span(message).subspan(offset, count);
    EXPECT_TRUE(std::equal(chunk.begin(), chunk.end(), part.begin(), part.end()));
}

/// Whether words with any one bit changed are refused, whatever that bit says.
template <class Header>
void expect_damage_is_seen(const Header& header) {
    const Header right = sealed(header);
    const auto bytes = bytes_of_header(right);
    EXPECT_TRUE(std::ranges::equal(bytes_of_header(header_at<Header>(bytes)), bytes));
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        Bytes damaged(bytes.begin(), bytes.end());
        damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        EXPECT_THROW(header_at<Header>(damaged), Error) << bit;
    }
}

TEST(StreamWords, ThatArriveDamagedAreRefused) {
    expect_damage_is_seen(Grant{.taken = 3, .may = 5});
    expect_damage_is_seen(Grant{.taken = ~std::uint64_t{0}, .alone = 1});
    expect_damage_is_seen(ChunkHeader{0, ChunkHeader::right_magic, 1, 2, 3, 4, 5, 6, 7, 8});
    expect_damage_is_seen(
        ChunkHeader{.magic = ChunkHeader::shared_magic, .bytes = ~std::uint64_t{0}});
}

TEST(StreamSender, SendsWhatIsGranted) {
    Served served(10'000);
    const Bytes first = bytes_of(10'000, 4), second = bytes_of(10'000, 5);
    served.pack(0, first);
    served.pack(1, second);
    served.grant(0, 1);
    expect_chunk(served, first, 0, 0, 10'000);
    served.grant(1, 2);
    expect_chunk(served, second, 1, 0, 10'000);
    EXPECT_EQ(served.outbox().bytes_kept(), 10'000u);
    served.outbox().forget("key");
    EXPECT_EQ(served.ended(), ErrorCode::peer_failed);
    EXPECT_EQ(served.outbox().bytes_sent(), 20'000u);
}

TEST(StreamSender, HasItsThreadSendWhatTheSystemDoesNotTakeAtOnce) {
    // More than the system keeps of it, and nobody reads before all of it is packed.
    constexpr std::uint64_t steps = 300, elems = 20'000;
    Served served(elems);
    served.grant(0, steps);
    for (std::uint64_t place = 0; place < steps; ++place)
        served.pack(place, bytes_of(elems, static_cast<unsigned>(place)));
    for (std::uint64_t place = 0; place < steps; ++place) {
        expect_chunk(served, bytes_of(elems, static_cast<unsigned>(place)), place, 0, elems);
        if (HasFatalFailure()) return;
    }
    served.outbox().forget("key");
    EXPECT_EQ(served.ended(), ErrorCode::peer_failed);
    EXPECT_EQ(served.outbox().bytes_sent(), steps * elems);
}

TEST(StreamSender, EndsWhereTheOtherEndIsGoneWhileMessagesArePacked) {
    Served served(1000);
    served.grant(0, 1000);
    served.pack(0, bytes_of(1000, 7));
    expect_chunk(served, bytes_of(1000, 7), 0, 0, 1000);
    served.leave();
    for (std::uint64_t place = 1; place < 100; ++place) served.pack(place, bytes_of(1000, 8));
    EXPECT_EQ(served.ended(), ErrorCode::peer_failed);
}

TEST(StreamSender, KeepsNothingForAnEndThatIsGone) {
    for (const bool may_hear_later : {false, true}) {
        Served served(1000, may_hear_later);
        const Bytes message = bytes_of(1000, 7);
        for (std::uint64_t place = 0; place < 4; ++place) served.pack(place, message);
        served.grant(0, 2);
        for (std::uint64_t place = 0; place < 2; ++place)
            expect_chunk(served, message, place, 0, 1000);
        served.grant(1, 2);
        EXPECT_TRUE(served.await_taken(1));
        EXPECT_EQ(served.outbox().bytes_held(), 4000u);
        served.leave();
        EXPECT_EQ(served.ended(), ErrorCode::peer_failed);
        EXPECT_EQ(served.outbox().bytes_held(), 0u);
        // Until all sending processes know that the consumer has gone, they pack for it.
        served.pack(4, message);
        EXPECT_EQ(served.outbox().bytes_held(), 0u);
    }
}

TEST(StreamSender, EndsForGrantsThatMakeNoSense) {
    struct Case {
        std::uint32_t alone, magic;
    };
    for (const Case& c : {Case{2, Grant::right_magic}, Case{~0u, Grant::right_magic},
                          Case{0, 0x37474d44}, Case{0, 0x444d5233}, Case{0, 0}}) {
        Served served(1000);
        served.pack(0, bytes_of(1000, 6));
        served.grant(0, 1, c.alone, c.magic);
        EXPECT_EQ(served.ended(), ErrorCode::io) << c.alone << " " << c.magic;
        EXPECT_TRUE(served.read(1).empty()) << "nothing is sent after it";
    }
}

TEST(StreamSender, DoesNotSendWhatWasDroppedElsewhere) {
    // This process has not heard of it yet, and knows it from what was granted alone.
    Served served(1000);
    std::vector<Bytes> messages;
    for (std::uint64_t place = 0; place < 6; ++place) {
        messages.push_back(bytes_of(1000, static_cast<unsigned>(place)));
        served.pack(place, messages.back());
    }
    served.grant(0, 2, 1);
    expect_chunk(served, messages[1], 1, 0, 1000);
    for (const std::uint64_t place : {1, 4}) served.grant(0, place + 1, 1);  // one of them again
    expect_chunk(served, messages[4], 4, 0, 1000);
    EXPECT_EQ(served.outbox().bytes_kept(), 3000u);  // with one that is to come
    served.grant(2, 0);
    served.grant(0, 6, 1);
    expect_chunk(served, messages[5], 5, 0, 1000);
    EXPECT_EQ(served.outbox().bytes_kept(), 2000u);
    served.outbox().forget("key");
    EXPECT_EQ(served.ended(), ErrorCode::peer_failed);
    EXPECT_EQ(served.outbox().bytes_sent(), 3000u);
}

TEST(StreamSender, SendsNothingMoreAfterAGrantThatMakesNoSense) {
    // More than the system keeps of it.
    constexpr std::uint64_t steps = 300, elems = 20'000;
    Served served(elems);
    const Bytes message = bytes_of(elems, 8);
    served.grant(0, steps);
    for (std::uint64_t place = 0; place < steps; ++place) served.pack(place, message);
    expect_chunk(served, message, 0, 0, elems);
    served.grant(0, steps, 2);
    EXPECT_EQ(served.ended(), ErrorCode::io);
    constexpr std::size_t bytes = sizeof(ChunkHeader) + elems;
    std::uint64_t come = 1;
    while (served.read(bytes).size() == bytes) ++come;
    EXPECT_LT(come, steps);
}

TEST(StreamSender, SendsWhatHasBeenPackedOfAMessage) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Connection here(ends[0]), there(ends[1]);
    std::atomic<std::uint64_t> sent{0};
    Box box;
    DataSender sender(here, box, 0, 1, {}, sent);
    std::thread serving([&sender] { EXPECT_THROW(sender.serve(), Error); });
    there.send(bytes_of_header(sealed(Grant{.may = 2})));
    const auto first = std::make_shared<const Memory>(100), second = box.memory(2000);
    std::memset(first->bytes().data(), 7, 100);
    first->set_packed(50);
    box.put(0, 0, first);
    Bytes come(2 * sizeof(ChunkHeader) + 100);
    const auto read = [&](std::size_t begin, std::size_t count) {
        there.read(std::span(come).subspan(begin, count), Clock::now() + std::chrono::minutes(1));
    };
    read(0, sizeof(ChunkHeader) + 50);
    second->set_packed(0);
    box.put(1, 0, second);
    box.tell(News::packs);  // of the second message, while more of the first is to come
    first->set_packed(100);
    box.tell(News::packs);
    read(sizeof(ChunkHeader) + 50, sizeof(ChunkHeader) + 50);
    EXPECT_TRUE(std::equal(come.end() - 50, come.end(), first->bytes().begin() + 50));
    sender.end();
    serving.join();
}

TEST(StreamSender, ServesWhoKnowsAKey) {
    Outbox outbox(2);
    outbox.open("key", 3);
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Connection connection(ends[0]);
    struct Case {
        const char* key;
        std::int64_t rank, pathway;
    };
    for (const Case& c : {Case{"", 0, 0}, Case{"key", 3, 0}, Case{"key", -1, 0}, Case{"key", 0, 2},
                          Case{"key", 0, -1}, Case{"key", std::int64_t{1} << 40, 0}}) {
        EXPECT_THROW(outbox.serve(connection, c.key, c.rank, c.pathway), Error);
    }
    ::close(ends[1]);
    for (const int wrong : {0, -1, 17}) EXPECT_THROW(Outbox{wrong}, Error);
}

TEST(StreamSender, ServesOneConnectionOfAPathway) {
    Served served(1000);
    const Bytes message = bytes_of(1000, 9);
    served.grant(0, 2);
    served.pack(0, message);
    expect_chunk(served, message, 0, 0, 1000);  // it is there
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Connection more(ends[0]);
    ::close(ends[1]);
    try {
        served.outbox().serve(more, "key", 0, 0);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
    }
    served.pack(1, message);
    expect_chunk(served, message, 1, 0, 1000);
}

TEST(StreamSender, KeepsNothingOfWhatCannotBePacked) {
    Outbox outbox(1);
    outbox.open("key", 2);
    const std::array<Outgoing, 2> outgoing{Outgoing(0, in_order(100)), Outgoing(1, in_order(101))};
    const Bytes bytes(100);
    EXPECT_THROW(outbox.pack("key", 0, 0, outgoing, {bytes.data(), {0, 100}}), Error);
    EXPECT_EQ(outbox.bytes_kept(), 0u);
}

}  // namespace
}  // namespace datamover::stream
