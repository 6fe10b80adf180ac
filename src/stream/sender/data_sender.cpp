// SPDX-License-Identifier: BSD-3-Clause
// Sending end of a data connection and its thread. All received values are checked against limits.
#include "stream/sender/data_sender.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "geometry/make_error.hpp"
#include "stream/wire/crc32c.hpp"

namespace datamover::stream {

void ChunkOnItsWay::begin(const ChunkHeader& header, std::span<const std::byte> body, int file) {
    close_file();
    words_ = header.write();
    header_ = words_;
    body_ = body;
    file_ = file;
}

bool ChunkOnItsWay::send_more(const Connection& connection) {
    const std::size_t count = file_ >= 0 ? connection.send_now_with_file(header_, file_)
                                         : connection.send_now(header_, body_);
    if (count != 0) close_file();
    const std::size_t of_header = std::min(count, header_.size());
    header_ = header_.subspan(of_header);
    body_ = body_.subspan(count - of_header);
    return count != 0;
}

void ChunkOnItsWay::close_file() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
}

namespace {

/// A consumer that takes none of a message for so long has failed.
constexpr std::chrono::minutes stalled_time{10};
/// What the sending program sends of a message to another machine itself: a thread takes more time
/// to be woken than this takes to be sent, and finds it in the caches of another processor. Within
/// a machine, where what is packed is best sent from the caches at once, it sends all that goes.
constexpr std::uint64_t most_sent_at_once = 1 << 20;
/// The program waits so long for the thread to have sent a short message.
constexpr std::chrono::microseconds turn_time{50};
/// What the system keeps of short messages, and of others, where it only copies them to another
/// process: more than that goes out of the processor's caches before it is received.
constexpr int kept_of_short = 320 << 10, kept_of_long = 512 << 10;
constexpr std::uint64_t long_bytes = 1 << 19;
/// Of such messages both ends have more in hand than their caches hold: to wait for each other
/// rarely is worth more. Best is what the system finds by itself, which is lost where it was ever
/// told.
constexpr int kept_of_very_long = 2 << 20;
constexpr std::uint64_t very_long_bytes = 2 << 20;
/// Where several processes send, a receiving one reads what others sent meanwhile: a message that
/// the system does not take whole has its sender sleep, and woken, as often as the receiver.
constexpr std::uint64_t very_long_bytes_of_several = 1 << 19;
/// Steps that a receiving process may have granted one by one and not taken.
constexpr std::size_t max_granted = 1 << 12;
/// What is read of grants at once.
constexpr std::size_t read_bytes = 1 << 12;

Error broken(const char* what) {
    return make_error(ErrorCode::peer_failed, what, ": ", std::strerror(errno));
}

}  // namespace

DataSender::DataSender(const Connection& connection, Box& box, int pathway, int pathways,
                       SendingHabits habits, std::atomic<std::uint64_t>& bytes_sent,
                       TakenCall taken)
    : connection_(connection),
      box_(box),
      loops_back_(connection.loops_back()),
      pathway_(pathway),
      pathways_(connection_.is_local() ? 1 : pathways),
      habits_(habits),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      taken_call_(std::move(taken)),
      bytes_sent_(bytes_sent) {
    try {
        if (wake_ < 0 || !may_keep(wake_))
            throw Error(ErrorCode::io, "cannot serve a connection: too many files are open");
        box_.add(this, pathway, connection_.is_local());
    } catch (...) {
        if (wake_ >= 0) ::close(wake_);
        throw;
    }
}

DataSender::~DataSender() {
    box_.remove(this);
    ::close(wake_);
}

void DataSender::wake() {
    // Fails only where so much was written that it is awake.
    [[maybe_unused]] const int result = ::eventfd_write(wake_, 1);
}

/// The lock, soon; none where the thread has it for longer. What the thread sends that the program
/// could have sent goes on in the thread for as long as the program does not get its turn.
std::unique_lock<std::mutex> DataSender::entered() {
    std::unique_lock lock(lock_, std::try_to_lock);
    if (lock || sends_long_) return lock;
    const Clock::time_point end = Clock::now() + turn_time;
    while (!lock.try_lock() && Clock::now() < end) ::sched_yield();
    return lock;
}

void DataSender::sends_more() {
    std::unique_lock lock = entered();
    if (!lock) return wake();  // its thread may not have seen the message
    program_left_ = Clock::now();
    if (sending_ && !chunk_.is_sent()) return;  // its thread goes on with that, then looks
    try {
        const std::uint64_t before = said_taken_;
        send_what_goes(most_at_once());
        if (rests_ && waits_ && hear_grants()) send_what_goes(most_at_once());
        if ((sending_ && !waits_for_packing()) || (rests_ && waits_)) wake();
        tell_taken(std::move(lock), before);
    } catch (...) {
        end();
    }
}

void DataSender::sends_on(bool is_whole) {
    if (is_whole || loops_back_ || connection_.is_local()) sends_more();
}

std::uint64_t DataSender::most_at_once() const {
    return loops_back_ || connection_.is_local() ? std::numeric_limits<std::uint64_t>::max()
                                                 : most_sent_at_once;
}

void DataSender::hears() {
    std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock || !rests_) return;
    try {
        hear(std::move(lock));
    } catch (...) {
        end();
    }
}

void DataSender::leaves() {
    program_left_ = long_ago;
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock || rests_) wake();  // its thread may not have seen it
}

void DataSender::end() {
    program_left_ = long_ago;
    connection_.end();
    wake();  // its thread finds it so, and says why
}

void DataSender::serve() {
    while (true) {
        wait(send_more());
        std::unique_lock lock(lock_);
        if (!rests_) hear(std::move(lock));
    }
}

DataSender::Awaited DataSender::send_more() {
    const std::lock_guard lock(lock_);
    if (wrong_) throw *wrong_;
    send_what_goes(std::numeric_limits<std::uint64_t>::max());
    // To be woken for what a receiving process says takes more time than to send a short message.
    const std::chrono::milliseconds patience{patience_milliseconds};
    rests_ = habits_.may_hear_later && !sending_ && !waits_ &&
             program_left_.load() > Clock::now() - patience;
    if (sending_ && !waits_for_packing()) return Awaited::room;
    return rests_ ? Awaited::program : Awaited::what_comes;
}

void DataSender::wait(Awaited awaited) {
    const short events = awaited == Awaited::room ? POLLIN | POLLOUT : POLLIN;
    std::array<pollfd, 2> waiting{pollfd{wake_, POLLIN, 0},
                                  pollfd{connection_.socket(), events, 0}};
    const auto limit = std::chrono::milliseconds(stalled_time).count();
    const int found =
        awaited == Awaited::program
            ? ::poll(waiting.data(), 1, patience_milliseconds)
            : ::poll(waiting.data(), 2, awaited == Awaited::room ? static_cast<int>(limit) : -1);
    if (found < 0 && errno != EINTR) throw broken("waiting for a connection failed");
    if (found < 0) return;
    const std::lock_guard lock(lock_);
    if (awaited == Awaited::room && sending_ && Clock::now() - taken_ > stalled_time)
        throw Error(ErrorCode::timeout, "the other end of the connection accepted no data in time");
    eventfd_t count = 0;
    if (waiting[0].revents != 0) ::eventfd_read(wake_, &count);
}

void DataSender::hear(std::unique_lock<std::mutex> lock) {
    const std::uint64_t before = said_taken_;
    hear_grants();
    tell_taken(std::move(lock), before);
}

/// Tells what has been said to be taken since all before a place was.
void DataSender::tell_taken(std::unique_lock<std::mutex> lock, std::uint64_t before) {
    if (said_taken_ == before || !taken_call_) return;
    const std::uint64_t taken = said_taken_;
    lock.unlock();  // whoever is told has a lock of their own
    taken_call_(taken);
}

/// Whether anything has come.
bool DataSender::hear_grants() {
    std::array<std::byte, read_bytes> room;
    const auto come = connection_.receive(room);
    if (!come) return false;
    if (wrong_) return true;
    grants_.insert(grants_.end(), come->begin(), come->end());
    try {
        obey_grants();
    } catch (const Error& error) {
        wrong_ = error;
        wake();  // the thread ends the connection
    }
    return true;
}

/// All of them that have come whole.
void DataSender::obey_grants() {
    std::span<const std::byte> rest = grants_;
    while (rest.size() >= Grant::size_bytes) {
        obey(Grant::read(rest.first<Grant::size_bytes>()));
        rest = rest.subspan(Grant::size_bytes);
    }
    grants_.erase(grants_.begin(), grants_.end() - static_cast<std::ptrdiff_t>(rest.size()));
}

void DataSender::obey(const Grant& grant) {
    may_ = std::max(may_, grant.may);
    said_taken_ = std::max(said_taken_, grant.taken);
    if (grant.alone) {
        if (!alone_) alone_.emplace();
        alone_->erase(alone_->begin(), alone_->lower_bound(grant.taken));
        alone_->insert(grant.may - 1);
        if (alone_->size() > max_granted)
            throw make_error(ErrorCode::io, "more than ", max_granted,
                             " steps were granted and not taken");
    }
    box_.advance(grant.taken);
}

/// Sends until there is no more to be sent now, or the system takes no more, or what comes next is
/// longer than `most` or not packed yet: then `sending_` stays.
void DataSender::send_what_goes(std::uint64_t most) {
    if (wrong_) return;
    while (sending_ || begin_next()) {
        if (sending_->end - sending_->at > most) return;
        while (!chunk_.is_sent()) {
            if (!chunk_.send_more(connection_)) return;
            taken_ = Clock::now();
        }
        if (sending_->at == sending_->end)
            sending_.reset();
        else if (!begin_chunk())
            return;
    }
}

bool DataSender::waits_for_packing() const {
    return sending_ && chunk_.is_sent() && sending_->at < sending_->end &&
           sending_->at >= sending_->kept.message->packed();
}

/// False where there is nothing to send now.
bool DataSender::begin_next() {
    Box::Next next = box_.next(next_, may_, alone_);
    next_ = next.number;
    waits_ = next.is_to_come;
    if (!next.kept) return false;
    ++next_;
    const std::uint64_t bytes = next.kept->message->bytes().size();
    sending_.emplace(box_, *std::move(next.kept));
    std::tie(sending_->at, sending_->end) = share_of(bytes, pathway_, pathways_);
    sending_->is_shared = connection_.is_local() && sending_->kept.message->segment() != nullptr;
    sends_long_ = sending_->end - sending_->at > most_sent_at_once;
    taken_ = Clock::now();
    if (loops_back_) limit_kept(sending_->end - sending_->at);
    return true;
}

void DataSender::limit_kept(std::uint64_t bytes) {
    const std::uint64_t least_very_long =
        habits_.is_one_of_several ? very_long_bytes_of_several : very_long_bytes;
    if (bytes >= least_very_long && kept_limit_ == 0) return;
    const int limit = bytes < long_bytes        ? kept_of_short
                      : bytes < least_very_long ? kept_of_long
                                                : kept_of_very_long;
    if (std::exchange(kept_limit_, limit) != limit) connection_.limit_kept(limit);
}

/// False where no more of the message has been packed.
bool DataSender::begin_chunk() {
    const KeptMessage& kept = sending_->kept;
    const std::uint64_t at = sending_->at;
    const std::uint64_t end = std::min<std::uint64_t>(sending_->end, kept.message->packed());
    if (end <= at) return false;
    const std::uint64_t bytes = std::min(chunk_bytes, end - at);
    const std::span<const std::byte> chunk = kept.message->bytes().subspan(at, bytes);
    ChunkHeader header{sending_->is_shared, crc32c(chunk), kept.array, kept.place, at, bytes, 0, 0,
                       kept.number};
    if (sending_->is_shared) {
        const Segment& segment = *kept.message->segment();
        header.segment = segment.number();
        header.position = at;
        chunk_.begin(header, {}, file_for(segment));
    } else {
        chunk_.begin(header, chunk);
    }
    sending_->at += bytes;
    bytes_sent_ += bytes;
    return true;
}

/// The segment is handed over when it is used first.
int DataSender::file_for(const Segment& segment) {
    return known_segments_.insert(segment.number()).second ? segment.open_for_reading() : -1;
}

}  // namespace datamover::stream
