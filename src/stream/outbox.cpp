// SPDX-License-Identifier: BSD-3-Clause
// How do packed messages get into boxes, and connections to the box of their receiving process?
#include "stream/outbox.hpp"

#include <signal.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

#include "datamover/error.hpp"
#include "stream/data_sender.hpp"
#include "stream/message_words.hpp"

namespace datamover::stream {
namespace {

/// Packs what goes to one process.
MessagePtr packed(Box& box, const AddressRelation& relation, SourceMemory source) {
    const auto bytes = static_cast<std::size_t>(relation.size()) *
                       static_cast<std::size_t>(relation.source_elem_bytes());
    MessagePtr message = box.memory(bytes);
    const AddressBounds all{0, static_cast<std::int64_t>(bytes)};
    relation.bind_gather(source.data, source.bounds, message->bytes().data(), all)();
    return message;
}

/// A consumer that takes none of a message for so long has failed.
constexpr int stalled_seconds = 600;

/// A data connection, its box and its place in the counters, for its thread.
class Served {
public:
    /// Throws io where there are too many.
    Served(std::shared_ptr<Box> box, std::shared_ptr<OutboxCounters> counters)
        : counters_(std::move(counters)), box_(std::move(box)) {
        if (++counters_->connections > Outbox::max_connections) {
            --counters_->connections;
            throw Error(ErrorCode::io, "there are too many connections already");
        }
    }
    Served(Served&&) = default;
    ~Served() {
        sender_.reset();
        if (counters_) --counters_->connections;
    }

    void begin(std::unique_ptr<Connection> connection, int pathway, int pathways) {
        sender_ = std::make_unique<DataSender>(std::move(connection), *box_, pathway, pathways,
                                               counters_->bytes_sent);
    }

    void run() noexcept {
        try {
            sender_->serve();
        } catch (const Error& error) {
            if (error.code() == ErrorCode::io) ++counters_->refused;
        } catch (...) {
            ++counters_->refused;  // no memory: the connection ends, the program goes on
        }
    }

private:
    std::shared_ptr<OutboxCounters> counters_;
    std::shared_ptr<Box> box_;
    std::unique_ptr<DataSender> sender_;
};

/// Threads that begin meanwhile get no signals: those are for the program's own.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

}  // namespace

Outbox::Outbox(int pathways) : pathways_(pathways), process_(::getpid()) {
    if (pathways < 1 || pathways > max_pathways)
        throw Error(ErrorCode::invalid_argument, "pathways are " + std::to_string(pathways) +
                                                     ", they must be 1 to " +
                                                     std::to_string(max_pathways));
}

void Outbox::open(const std::string& key, int nprocs) {
    Boxes boxes;
    for (int rank = 0; rank < nprocs; ++rank) boxes.push_back(std::make_shared<Box>());
    const std::lock_guard lock(lock_);
    boxes_.emplace(key, std::move(boxes));
}

void Outbox::pack(const std::string& key, std::uint64_t place, std::uint32_t array,
                  std::span<const Outgoing> outgoing, SourceMemory source) {
    const Boxes boxes = boxes_of(key);
    std::vector<MessagePtr> messages;
    for (const Outgoing& one : outgoing)
        messages.push_back(
            packed(*boxes.at(static_cast<std::size_t>(one.peer)), *one.relation, source));
    for (std::size_t n = 0; n < messages.size(); ++n)
        boxes[static_cast<std::size_t>(outgoing[n].peer)]->put(place, array,
                                                               std::move(messages[n]));
}

void Outbox::drop(const std::string& key, std::uint64_t place) {
    for (const auto& box : boxes_of(key)) box->drop(place);
}

void Outbox::forget(const std::string& key) {
    const Boxes boxes = boxes_of(key);
    {
        const std::lock_guard lock(lock_);
        boxes_.erase(key);
    }
    for (const auto& box : boxes) box->end_all();
}

void Outbox::serve(int socket, const std::string& key, std::int64_t rank, std::int64_t pathway) {
    auto connection = std::make_unique<Connection>(socket, stalled_seconds);
    if (pathway < 0 || pathway >= pathways_)
        throw Error(ErrorCode::io, "the stream has no such pathway");
    Served served(box_of(key, rank), counters_);
    served.begin(std::move(connection), static_cast<int>(pathway), pathways_);
    const SignalsBlocked blocked;
    try {
        std::thread([served = std::move(served)]() mutable { served.run(); }).detach();
    } catch (const std::system_error& error) {
        throw Error(ErrorCode::io, std::string("no thread for a connection: ") + error.what());
    }
}

void Outbox::close() {
    if (::getpid() != process_) return;
    const std::lock_guard lock(lock_);
    for (const auto& [key, boxes] : boxes_)
        for (const auto& box : boxes) box->end_all();
}

std::shared_ptr<Box> Outbox::box_of(const std::string& key, std::int64_t rank) {
    const Boxes boxes = boxes_of(key);
    if (boxes.empty()) throw Error(ErrorCode::io, "no consumer has this key");
    if (rank < 0 || rank >= static_cast<std::int64_t>(boxes.size()))
        throw Error(ErrorCode::io, "the consumer has no process " + std::to_string(rank));
    return boxes[static_cast<std::size_t>(rank)];
}

Outbox::Boxes Outbox::boxes_of(const std::string& key) {
    const std::lock_guard lock(lock_);
    const auto found = boxes_.find(key);
    return found != boxes_.end() ? found->second : Boxes();
}

std::vector<std::string> Outbox::keys() {
    const std::lock_guard lock(lock_);
    std::vector<std::string> names;
    for (const auto& [key, boxes] : boxes_) names.push_back(key);
    return names;
}

std::uint64_t Outbox::bytes_kept() {
    const std::lock_guard lock(lock_);
    std::uint64_t bytes = 0;
    for (const auto& [key, boxes] : boxes_)
        for (const auto& box : boxes) bytes += box->bytes_kept();
    return bytes;
}

}  // namespace datamover::stream
