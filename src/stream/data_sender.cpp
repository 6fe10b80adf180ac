// SPDX-License-Identifier: BSD-3-Clause
// What does the thread of a data connection do? What it hears is compared with limits.
#include "stream/data_sender.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "datamover/error.hpp"
#include "stream/crc32c.hpp"

namespace datamover::stream {
namespace {

/// A consumer that takes none of a message for so long has failed.
constexpr int stalled_seconds = 600;
/// Steps that a receiving process may have granted one by one and not taken.
constexpr std::size_t max_granted = 1 << 12;
/// What is read of requests at once.
constexpr std::size_t read_bytes = 1 << 12;

Error broken(const char* what) {
    return Error(ErrorCode::peer_failed, std::string(what) + ": " + std::strerror(errno));
}

/// A message that a connection reads, given back at the end.
class Reading {
public:
    Reading(Box& box, KeptMessage kept) : box_(box), kept_(std::move(kept)) {}
    ~Reading() { box_.give_back(std::move(kept_.message)); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    const KeptMessage& kept() const { return kept_; }

private:
    Box& box_;
    KeptMessage kept_;
};

}  // namespace

DataSender::DataSender(const Connection& connection, Box& box, int pathway, int pathways,
                       std::atomic<std::uint64_t>& bytes_sent)
    : connection_(connection),
      box_(box),
      pathway_(pathway),
      pathways_(connection_.is_local() ? 1 : pathways),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      bytes_sent_(bytes_sent) {
    if (wake_ < 0) throw broken("a connection cannot be served");
    if (!may_keep(wake_)) {
        ::close(wake_);
        throw Error(ErrorCode::peer_failed, "a connection cannot be served: too many files");
    }
    box_.add(this, connection_.is_local());
}

DataSender::~DataSender() {
    box_.remove(this);
    ::close(wake_);
}

void DataSender::wake() {
    // Fails only where so much was written that it is awake.
    [[maybe_unused]] const int result = ::eventfd_write(wake_, 1);
}

void DataSender::serve() {
    connection_.limit_sending(stalled_seconds);
    while (true) {
        wait();
        hear();
        while (send_next()) {
        }
    }
}

void DataSender::wait() const {
    std::array<pollfd, 2> waiting{pollfd{connection_.socket(), POLLIN, 0},
                                  pollfd{wake_, POLLIN, 0}};
    while (::poll(waiting.data(), waiting.size(), -1) < 0)
        if (errno != EINTR) throw broken("a connection cannot be waited for");
    eventfd_t count = 0;
    if (waiting[1].revents != 0) ::eventfd_read(wake_, &count);
}

void DataSender::hear() {
    std::array<std::byte, read_bytes> room;
    const auto come = connection_.receive(room);
    if (!come) return;
    requests_.insert(requests_.end(), come->begin(), come->end());
    std::span<const std::byte> rest = requests_;
    while (rest.size() >= Request::size_bytes) {
        obey(Request::read(rest.first<Request::size_bytes>()));
        rest = rest.subspan(Request::size_bytes);
    }
    requests_.erase(requests_.begin(), requests_.end() - static_cast<std::ptrdiff_t>(rest.size()));
}

void DataSender::obey(const Request& request) {
    if (request.operation == Operation::advance) {
        advance(request);
        return;
    }
    if (asked_ || request.bytes == 0 || request.bytes > chunk_bytes)
        throw Error(ErrorCode::io, "one chunk can be asked for again at a time");
    asked_ = request;
}

void DataSender::advance(const Request& request) {
    may_ = std::max(may_, request.offset);
    if (request.bytes != 0) {
        if (!alone_) alone_.emplace();
        alone_->erase(alone_->begin(), alone_->lower_bound(request.place));
        alone_->insert(request.offset - 1);
        if (alone_->size() > max_granted)
            throw Error(ErrorCode::io, "more than " + std::to_string(max_granted) +
                                           " steps granted and not taken");
    }
    box_.advance(request.place);
}

bool DataSender::send_next() {
    if (asked_) {
        send_again(*std::exchange(asked_, std::nullopt));
        return true;
    }
    Box::Next next = box_.next(next_, may_, alone_);
    next_ = next.number;
    if (!next.kept) return false;
    ++next_;
    const Reading reading(box_, *std::move(next.kept));
    const std::uint64_t bytes = reading.kept().message->bytes().size();
    const auto [begin, end] = share_of(bytes, pathway_, pathways_);
    send(reading.kept(), begin, end, connection_.is_local());
    return true;
}

void DataSender::send_again(const Request& asked) {
    MessagePtr message = box_.find(asked.place, asked.array);
    const std::uint64_t bytes = message ? message->bytes().size() : 0;
    if (asked.offset > bytes || asked.bytes > bytes - asked.offset)
        throw Error(ErrorCode::io, "there are no " + std::to_string(asked.bytes) + " bytes at " +
                                       std::to_string(asked.offset) + " of array " +
                                       std::to_string(asked.array) + " of step " +
                                       std::to_string(asked.place));
    const Reading reading(box_, {asked.place, asked.array, std::move(message)});
    send(reading.kept(), asked.offset, asked.offset + asked.bytes, false);
}

void DataSender::send(const KeptMessage& kept, std::uint64_t begin, std::uint64_t end,
                      bool shared) {
    const Segment* const segment = shared ? kept.message->segment() : nullptr;
    for (std::uint64_t at = begin; at < end; at += chunk_bytes) {
        const std::uint64_t bytes = std::min(chunk_bytes, end - at);
        const std::span<const std::byte> chunk = kept.message->bytes().subspan(at, bytes);
        ChunkHeader header{
            segment != nullptr, crc32c(chunk), kept.array, kept.place, at, bytes, 0, 0};
        if (segment != nullptr) {
            header.segment = segment->number();
            header.position = at;
            send_header(header, *segment);
        } else {
            connection_.send(header.write(), chunk);
        }
        bytes_sent_ += bytes;
    }
}

/// Hands the segment over when it is used first.
void DataSender::send_header(const ChunkHeader& header, const Segment& segment) {
    if (!known_segments_.insert(segment.number()).second) {
        connection_.send(header.write());
        return;
    }
    const int file = segment.open_for_reading();
    try {
        connection_.send_with_file(header.write(), file);
    } catch (...) {
        ::close(file);
        throw;
    }
    ::close(file);
}

}  // namespace datamover::stream
