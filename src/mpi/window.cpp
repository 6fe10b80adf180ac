// SPDX-License-Identifier: BSD-3-Clause
// MPI windows for one-sided access.
#include "window.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "byte_message.hpp"
#include "checked_call.hpp"
#include "communicators.hpp"
#include "environment.hpp"
#include "geometry/make_error.hpp"
#include "waiting.hpp"

namespace datamover::mpi {
namespace {

/// Each keeps a communicator, of which MPICH has 2048.
constexpr std::size_t most_windows = 512;

constexpr std::int64_t word_bytes = sizeof(std::int64_t);
/// What each process writes to the next one, and reads from it, in the trial.
constexpr std::int64_t trial_words = 4097;
constexpr std::int64_t trial_bytes = trial_words * word_bytes;

/// MPI may register whole pages.
constexpr std::uintptr_t page_bytes = 4096;
std::uintptr_t first_page(const std::byte* at) {
    return reinterpret_cast<std::uintptr_t>(at) / page_bytes;
}
std::uintptr_t page_after(const std::byte* end) {
    return (reinterpret_cast<std::uintptr_t>(end) + page_bytes - 1) / page_bytes;
}

/// Above 0; no other window will have the largest that its processes draw.
std::int64_t drawn_number() {
    std::random_device device;
    constexpr int half = 32;
    const std::uint64_t drawn = std::uint64_t{device()} << half | device();
    return static_cast<std::int64_t>(drawn >> 1 | 1);
}

std::int64_t trial_word(int rank, std::int64_t i) {
    return rank * trial_words + i + 1;
}

/// Whether windows that are made at the same time may get the same memory. Open MPI before 5.0
/// names a window's shared memory after its communicator's number, which is the same in
/// communicators without a common process (open-mpi/ompi#9492).
bool windows_may_collide() {
    const std::string version = library_version();
    constexpr std::string_view named = "Open MPI v";
    return version.starts_with(named) && version.compare(named.size(), 2, "5.") < 0 &&
           version.compare(named.size() + 1, 1, ".") == 0;
}

/// The right to make a window on all machines of a group, if windows may collide. Held by the
/// lowest rank of each machine, in the form of a socket with a name that only one socket of the job
/// can have.
class WindowTurn {
public:
    WindowTurn() = default;
    /// Waits until no other group makes a window, for a minute at most: another user may have taken
    /// the name. Collective. Throws timeout.
    void take(const ProcessGroup& group) {
        if (!windows_may_collide()) return;
        Waiting waiting(group);
        std::minstd_rand random(std::random_device{}());
        const bool holds = group.node().machine_ranks.front() == group.rank();
        for (int round = 1;; ++round) {
            const bool is_held_by_others = holds && !try_hold();
            const bool is_late = waiting.seconds() > patience_seconds;
            const auto found = group.maximum({is_held_by_others, waiting.expired(), is_late});
            if (found[0] == 0 || found[2] != 0) return;
            release();
            if (found[1] != 0)
                throw make_error(ErrorCode::timeout,
                                 "another communicator has been making a window for ",
                                 waiting.seconds(), " seconds on a machine of this one");
            // Two groups with several machines in common could each hold one forever.
            const auto longest = std::min(round, 10) * 1000;
            std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
            waiting.pause();
        }
    }
    ~WindowTurn() { release(); }
    WindowTurn(const WindowTurn&) = delete;
    WindowTurn& operator=(const WindowTurn&) = delete;

private:
    static constexpr double patience_seconds = 60;

    /// False if another process holds it. Without sockets, nobody does.
    bool try_hold() {
        socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (socket_ < 0) return true;
        const char* const job = std::getenv("PMIX_NAMESPACE");
        const std::string name = concat("datamover-window-", geteuid(), "-", job ? job : "");
        sockaddr_un address{};
        if (name.size() + 1 > sizeof address.sun_path) return true;
        address.sun_family = AF_UNIX;
        name.copy(address.sun_path + 1, name.size());
        const auto bytes =
            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return true;
        return errno != EADDRINUSE;
    }
    void release() {
        if (socket_ >= 0) close(socket_);
        socket_ = -1;
    }

    int socket_ = -1;
};

}  // namespace

/// Windows of this process, which are never freed. A communicator uses a window only if all its
/// processes find the same one: threads may make windows of several communicators at a time.
class Windows {
public:
    static Windows& of_process() {
        static auto* windows = new Windows;
        return *windows;
    }

    /// The newest window that has all processes of the group, in any order, or null. Collective:
    /// null if the processes find different ones.
    std::shared_ptr<Window> common(const ProcessGroup& group) const {
        auto window = known(group);
        const std::int64_t number = window ? window->number_.load() : 0;
        const auto votes = group.maximum({number, -number});
        return votes[0] > 0 && votes[0] == -votes[1] ? window : nullptr;
    }

    /// Collective. Null where data comes out wrong. Throws unsupported if a process has too many.
    std::shared_ptr<Window> make(const ProcessGroup& group) {
        std::shared_ptr<Window> made;
        collectively(group, [&] {
            check_room(group);
            made.reset(new Window(group));
        });
        // MPICH gives a window the number of its communicator, which the next communicator gets
        // once that one is freed.
        collectively(group, [&] { made->comm_ = split(group, 0); });
        {
            const std::lock_guard lock(mutex_);
            all_.push_back(made);
        }
        {
            WindowTurn turn;
            turn.take(group);
            collectively(group, [&] { made->open(); });
        }
        for (const auto& words : group.gather({displacement_of(made->marks_->data)}))
            made->marks_of_.push_back(static_cast<MPI_Aint>(words[0]));
        if (!made->works(group)) return nullptr;
        made->number_ = group.maximum({drawn_number()})[0];
        return made;
    }

private:
    std::shared_ptr<Window> known(const ProcessGroup& group) const {
        const std::lock_guard lock(mutex_);
        for (auto w = all_.rbegin(); w != all_.rend(); ++w)
            if ((*w)->number_ > 0 && !(*w)->spoiled_ && !(*w)->ranks_of(group).empty()) return *w;
        return nullptr;
    }
    void check_room(const ProcessGroup& group) const {
        const std::lock_guard lock(mutex_);
        if (all_.size() < most_windows) return;
        throw make_error(ErrorCode::unsupported, "process ", group.rank(), " has ", all_.size(),
                         " windows of MPI, the most there may be; bind the program's first mover "
                         "with \"put\" or \"get\" on a communicator of all processes: its window "
                         "also serves communicators of some of them");
    }

    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<Window>> all_;
};

const GroupWindow& window_of(const ProcessGroup& group) {
    GroupWindow& known =
        *group.extension<GroupWindow>([] { return std::make_shared<GroupWindow>(); });
    const auto refuse = [&] { throw Error(ErrorCode::unsupported, known.why_not); };
    if (!known.why_not.empty()) refuse();
    if (known.window) return known;
    known.window = Windows::of_process().common(group);
    const std::string cannot = "transports \"put\" and \"get\" cannot carry here: ";
    try {
        if (!known.window) known.window = Windows::of_process().make(group);
        if (!known.window)
            known.why_not = cannot + "one-sided operations of this MPI bring wrong data";
    } catch (const Error& e) {
        if (e.code() != ErrorCode::mpi && e.code() != ErrorCode::unsupported) throw;
        known.why_not = cannot + e.what();
    }
    if (!known.window) refuse();
    known.ranks = known.window->ranks_of(group);
    return known;
}

Window::Window(const ProcessGroup& group)
    : writes_(static_cast<std::size_t>(group.size())),
      marks_(memory::SegmentPool::allocate_pages(word_bytes + 4 * trial_bytes)) {
    std::memset(marks_->data, 0, static_cast<std::size_t>(marks_->bytes));
}

void Window::open() {
    check(MPI_Win_create_dynamic(MPI_INFO_NULL, comm_, &window_), "MPI_Win_create_dynamic");
    check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
    int* model = nullptr;
    int is_set = 0;
    check(MPI_Win_get_attr(window_, MPI_WIN_MODEL, static_cast<void*>(&model), &is_set),
          "MPI_Win_get_attr");
    if (!is_set || *model != MPI_WIN_UNIFIED)
        throw Error(ErrorCode::unsupported,
                    "MPI keeps copies of the memory that others access (MPI_WIN_SEPARATE)");
    marks_attached_ = attach(marks_->data, marks_->bytes);
    if (!marks_attached_)
        throw Error(ErrorCode::unsupported, "MPI_Win_attach of this MPI does not work");
}

/// The next process is written to and read from, in the way in which data moves.
bool Window::works(const ProcessGroup& group) {
    const int size = group.size(), next = (group.rank() + 1) % size,
              last = (group.rank() + size - 1) % size;
    auto* readable = reinterpret_cast<std::int64_t*>(marks_->data) + 1;
    auto* written = readable + trial_words;
    auto* out = written + trial_words;
    auto* in = out + trial_words;
    for (std::int64_t i = 0; i < trial_words; ++i) {
        readable[i] = trial_word(group.rank(), i);
        out[i] = -trial_word(group.rank(), i);
    }
    sync();
    group.maximum({0});  // all are ready
    const MPI_Aint theirs =
        MPI_Aint_add(marks_of_[static_cast<std::size_t>(next)], static_cast<MPI_Aint>(word_bytes));
    bool right = true;
    collectively(group, [&] {
        MPI_Request request = MPI_REQUEST_NULL;
        transfer(true, reinterpret_cast<std::byte*>(out), trial_bytes, next,
                 MPI_Aint_add(theirs, trial_bytes), request);
        complete(group, request, "MPI_Rput", Load::data);
        in[0] = -1;
        probe(next, in[0], request);
        complete(group, request, "MPI_Rget", Load::data);
        right = in[0] == 0;
        check(MPI_Win_flush(next, window_), "MPI_Win_flush");
        transfer(false, reinterpret_cast<std::byte*>(in), trial_bytes, next, theirs, request);
        complete(group, request, "MPI_Rget", Load::data);
        for (std::int64_t i = 0; i < trial_words; ++i)
            right = right && in[i] == trial_word(next, i);
    });
    sync();
    for (std::int64_t i = 0; i < trial_words; ++i)
        right = right && written[i] == -trial_word(last, i);
    return group.maximum({!right})[0] == 0;
}

std::vector<int> Window::ranks_of(const ProcessGroup& group) const {
    std::vector<int> theirs(static_cast<std::size_t>(group.size())), mine(theirs.size());
    std::iota(theirs.begin(), theirs.end(), 0);
    MPI_Group users = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
    int code = MPI_Comm_group(group.comm(), &users);
    if (code == MPI_SUCCESS) code = MPI_Comm_group(comm_, &all);
    if (code == MPI_SUCCESS)
        code = MPI_Group_translate_ranks(users, group.size(), theirs.data(), all, mine.data());
    for (MPI_Group* made : {&users, &all})
        if (*made != MPI_GROUP_NULL) MPI_Group_free(made);
    if (code != MPI_SUCCESS || std::ranges::count(mine, MPI_UNDEFINED) > 0) mine.clear();
    return mine;
}

std::size_t Window::regions() const {
    const std::lock_guard lock(mutex_);
    return regions_.size();
}

std::shared_ptr<const void> Window::attach(const std::byte* begin, std::int64_t bytes) {
    const std::byte* end = begin + bytes;
    std::shared_ptr<const void> memory;
    if (const auto found = memory::SegmentPool::of_process().find(begin, begin + 1)) {
        const std::byte* segment_end = found->segment->data() + found->segment->bytes();
        if (end > segment_end) return nullptr;
        memory = found->segment;
        begin = found->segment->data();
        end = segment_end;
    }
    std::unique_lock lock(mutex_);
    auto region = regions_.upper_bound(begin);
    if (region != regions_.begin() && std::prev(region)->second.end >= end) {
        --region;
    } else {
        const auto overlaps = [&](const auto& entry) {
            return first_page(begin) < page_after(entry.second.end) &&
                   first_page(entry.first) < page_after(end);
        };
        if (std::ranges::any_of(regions_, overlaps)) return nullptr;
        region = regions_.emplace(begin, Region{end, 0, std::move(memory)}).first;
        const int code = MPI_Win_attach(window_, const_cast<std::byte*>(begin), end - begin);
        if (code != MPI_SUCCESS) regions_.erase(region);
        if (is_of_class(code, MPI_ERR_RMA_ATTACH)) return nullptr;  // no more, or not this memory
        if (code != MPI_SUCCESS) spoil();  // nobody knows what is attached now
        check(code, "MPI_Win_attach");
    }
    ++region->second.uses;
    begin = region->first;
    lock.unlock();  // the last reference takes it
    return {begin, [this](const std::byte* first) { release(first); }};
}

void Window::release(const std::byte* begin) {
    std::shared_ptr<const void> memory;  // goes after the lock
    const std::lock_guard lock(mutex_);
    const auto region = regions_.find(begin);
    if (--region->second.uses > 0) return;
    memory = std::move(region->second.memory);
    regions_.erase(region);
    if (is_running()) MPI_Win_detach(window_, begin);
}

void Window::transfer(bool puts, std::byte* here, std::int64_t bytes, int rank, MPI_Aint address,
                      MPI_Request& request) {
    const ByteMessage message(bytes);
    const int count = message.count();
    const MPI_Datatype type = message.type();
    if (puts)
        check(MPI_Rput(here, count, type, rank, address, count, type, window_, &request),
              "MPI_Rput");
    else
        check(MPI_Rget(here, count, type, rank, address, count, type, window_, &request),
              "MPI_Rget");
}

void Window::probe(int rank, std::int64_t& word, MPI_Request& request) {
    transfer(false, reinterpret_cast<std::byte*>(&word), word_bytes, rank,
             marks_of_[static_cast<std::size_t>(rank)], request);
}

bool Window::flush_if_quiet(int rank) {
    if (writes_[static_cast<std::size_t>(rank)].load() > 0) return false;
    check(MPI_Win_flush(rank, window_), "MPI_Win_flush");
    return true;
}

void Window::sync() const {
    check(MPI_Win_sync(window_), "MPI_Win_sync");
}

}  // namespace datamover::mpi
