// SPDX-License-Identifier: BSD-3-Clause
// Accepting and checking of new connections, within limits on their number and on time.
#include "stream/sender/reception.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

constexpr int greeting_seconds = 10;
constexpr std::chrono::milliseconds retry_time{50};

std::size_t connections_at_once() {
    return std::min<std::size_t>(max_connections.load(), max_files() / 2);
}

}  // namespace

struct Reception::State : std::enable_shared_from_this<Reception::State> {
    using ConnectionPtr = std::shared_ptr<Connection>;
    struct Open {
        ConnectionPtr connection;
        bool is_silent = true;  ///< has not said who it is
    };

    void accept_all(int listener) {
        while (true) {
            int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
            if (socket >= 0) {
                try {
                    begin(socket);
                } catch (const std::exception&) {  // no more threads or memory, for now
                    ++refused;
                }
                continue;
            }
            std::unique_lock held(lock);
            // Else a connection broke before it was there, or no descriptors are left, for now.
            if (!closed) changed.wait_for(held, retry_time);
            if (!closed) continue;
            --accepting;
            changed.notify_all();
            return;
        }
    }
    void begin(int socket) {
        evict_silent();
        // The same with the lowest descriptor there is now: accept4 chooses before it waits.
        const int moved = may_keep(socket) ? -1 : ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
        if (moved >= 0) ::close(std::exchange(socket, moved));
        const auto connection = std::make_shared<Connection>(socket);
        {
            const std::lock_guard held(lock);
            if (closed || open.size() >= connections_at_once() || !may_keep(socket)) {
                ++refused;
                return;
            }
            open.push_back({connection});
        }
        try {
            std::thread([self = shared_from_this(), connection]() mutable {
                self->run(std::move(connection));
            }).detach();
        } catch (...) {
            remove(connection);
            throw;
        }
    }
    void evict_silent() {
        std::unique_lock held(lock);
        const auto is_silent = [](const Open& one) { return one.is_silent; };
        const auto silent = static_cast<std::size_t>(std::ranges::count_if(open, is_silent));
        const std::size_t all = open.size();
        // Each of the others may need a file more.
        const auto most_silent = std::min<std::size_t>(max_connections.load(), max_files()) / 8;
        if (silent == 0 || (silent < most_silent && all < connections_at_once())) return;
        const auto oldest = std::ranges::find_if(open, is_silent);
        oldest->is_silent = false;
        oldest->connection->end();  // its thread takes it out
        ++refused;
        changed.wait_for(held, retry_time, [&] { return closed || open.size() < all; });
    }
    void run(ConnectionPtr connection) noexcept {
        try {
            serve(connection);
        } catch (
            const Error& error) {  // whoever it was: it is no concern of the program that sends
            const bool has_just_ended = error.code() == ErrorCode::peer_failed;
            refused += !has_just_ended;
        } catch (...) {
            ++refused;
        }
        connection->end();
        remove(std::move(connection));
    }
    void serve(const ConnectionPtr& connection) {
        connection->look_after();
        send_frame(*connection, {.type = Frame::Type::greeting});
        // No other frame of a stranger is parsed: it may need work, such as a layout's.
        const Frame said = read_frame(*connection, max_greeting_bytes,
                                      Clock::now() + std::chrono::seconds(greeting_seconds), {},
                                      Frame::Type::data);
        if (!token.empty() && !connection->is_of_this_user() &&
            !equal_in_constant_time(said.token, token)) {
            send_frame(*connection,
                       {.type = Frame::Type::failed,
                        .error = Error(ErrorCode::invalid_argument,
                                       "the stream requires its token, which was not sent; "
                                       "pass token= or set DATAMOVER_STREAM_TOKEN")});
            throw Error(ErrorCode::io, "a connection has a wrong token");
        }
        {
            const std::lock_guard held(lock);
            find(connection)->is_silent = false;
        }
        if (said.type == Frame::Type::data) {
            TakenCall taken;
            if (audience != nullptr && said.pathway == 0)
                taken = [this, &said](std::uint64_t place) {
                    audience->taken_before(said.key, said.rank, place);
                };
            outbox->serve(*connection, said.key, said.rank, said.pathway, std::move(taken));
        } else if (said.type == Frame::Type::control && audience != nullptr) {
            audience->serve(connection, said);
        } else {
            throw Error(ErrorCode::io, "a connection must be for control or for data");
        }
    }
    std::list<Open>::iterator find(const ConnectionPtr& connection) {
        return std::ranges::find(open, connection, &Open::connection);
    }
    /// Closes it, where nobody else has it, before another one takes its place.
    void remove(ConnectionPtr connection) {
        const std::lock_guard held(lock);
        open.erase(find(connection));
        connection.reset();
        changed.notify_all();
    }

    std::string token;
    std::unique_ptr<TokenFile> token_file;
    std::shared_ptr<Outbox> outbox;
    std::shared_ptr<Audience> audience;
    const int process = ::getpid();
    std::mutex lock;
    std::condition_variable changed;
    std::vector<Descriptor> listeners;
    std::size_t accepting = 0;  ///< threads
    std::list<Open> open;       ///< the oldest first
    bool closed = false;
    std::atomic<std::uint64_t> refused{0};
};

Reception::Reception(std::vector<Descriptor> sockets, std::string token,
                     std::shared_ptr<Outbox> outbox, std::shared_ptr<Audience> audience,
                     std::unique_ptr<TokenFile> token_file)
    : state_(std::make_shared<State>()) {
    state_->token = std::move(token);
    state_->token_file = std::move(token_file);
    state_->outbox = std::move(outbox);
    state_->audience = std::move(audience);
    state_->listeners = std::move(sockets);
    try {
        for (const Descriptor& socket : state_->listeners) {
            const auto accept = [state = state_, number = socket.get()] {
                state->accept_all(number);
            };
            thread_without_signals("listens", accept).detach();
            const std::lock_guard lock(state_->lock);
            ++state_->accepting;
        }
    } catch (...) {
        close();
        throw;
    }
}

void Reception::close() {
    State& state = *state_;
    if (!is_of_this_process()) return;
    std::unique_lock lock(state.lock);
    if (state.closed) return;
    state.closed = true;
    state.token_file.reset();
    for (const Descriptor& listener : state.listeners) ::shutdown(listener.get(), SHUT_RDWR);
    for (const auto& one : state.open) one.connection->end();
    state.changed.notify_all();
    // The addresses are free afterwards.
    state.changed.wait(lock, [&state] { return state.accepting == 0; });
    state.listeners.clear();
}

bool Reception::is_of_this_process() const {
    return ::getpid() == state_->process;
}

std::uint64_t Reception::refused() const {
    return state_->refused;
}

std::size_t Reception::connections() const {
    const std::lock_guard lock(state_->lock);
    return state_->open.size();
}

}  // namespace datamover::stream
