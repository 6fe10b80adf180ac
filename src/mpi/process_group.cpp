// SPDX-License-Identifier: BSD-3-Clause
// Process groups: the library's private view of a user's communicator.
#include "process_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "byte_message.hpp"
#include "checked_call.hpp"
#include "communicators.hpp"
#include "environment.hpp"
#include "memory/cache_lines.hpp"
#include "memory/process_memory.hpp"
#include "memory/segment_pool.hpp"
#include "message_tags.hpp"

namespace datamover::mpi {
namespace {

/// The reference that the user's communicator holds.
struct CachedGroup {
    ProcessGroupPtr group;
};

/// All groups of this process that others can be told by.
struct Groups {
    std::mutex lock;
    std::set<const ProcessGroup*> alive;
};

/// Never destroyed: groups go when MPI ends, which may be after all else.
Groups& groups() {
    static auto* const all = new Groups;
    return *all;
}

/// Keeps memory until the program ends. Takes none for that.
void keep_forever(std::shared_ptr<const void> memory) noexcept {
    using Reference = std::shared_ptr<const void>;
    alignas(Reference) std::byte never_destroyed[sizeof(Reference)];
    new (never_destroyed) Reference(std::move(memory));
}

}  // namespace

ProcessGroupPtr ProcessGroup::of(MPI_Comm user_comm) {
    check_usable(user_comm);
    using Cached = Attribute<CachedGroup>;
    if (const CachedGroup* const found = Cached::find(user_comm)) return found->group;
    const ProcessGroupPtr group(new ProcessGroup(user_comm));
    Cached::keep(user_comm, std::make_unique<CachedGroup>(group));
    return group;
}

ProcessGroup::ProcessGroup(MPI_Comm user_comm) {
    free_left();
    comm_ = duplicate_when_all_came(user_comm);
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    int* tag_ub = nullptr;
    int present = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&tag_ub), &present),
          "MPI_Comm_get_attr");
    constexpr int least_tag_ub = 32767;
    tags_ = std::make_shared<MessageTags>(present ? *tag_ub : least_tag_ub);
    try {
        agree(environment_error());
    } catch (...) {
        MPI_Comm_free(&comm_);
        throw;
    }
    find_node();
    // Last: from then on a failure of another process ends what this one waits for.
    create_failure_boards();
    const std::lock_guard lock(groups().lock);
    groups().alive.insert(this);
}

void ProcessGroup::fail_all(const Error& why) noexcept {
    if (!is_running() || is_ending()) return;
    const std::lock_guard lock(groups().lock);
    for (const ProcessGroup* group : groups().alive) group->fail(why);
}

/// The communicators were made for this object; they are freed with it unless MPI ends them. A
/// group goes when its user communicator has been freed and the last array and mover are gone.
ProcessGroup::~ProcessGroup() {
    {
        const std::lock_guard lock(groups().lock);
        groups().alive.erase(this);
    }
    if (!is_running()) return;
    const bool has_failed = board_ && board_->shows_failure();
    // Whether all that this process has begun with the communicators has ended. It cannot know of
    // what others have begun, nor of messages to other nodes.
    const bool nothing_is_under_way =
        is_one_node() && !may_be_busy_.load() && turns_comm_ == MPI_COMM_NULL;
    if (has_failed && !is_ending() && nothing_is_under_way) {
        // Where another process has something under way, or has not come to this, they stay.
        FailureBoard::leave(std::move(board_), {comm_, std::move(kept_)});
        return;
    }
    // Where MPI ends, it may find messages under way from a process that failed; MPICH 5 ends the
    // program when a communicator of theirs is freed then.
    if (is_ending() || has_failed) {
        // Messages that nobody will receive, operations that never end, and processes that have not
        // heard yet keep the communicators and this memory in use.
        for (auto& memory : kept_) keep_forever(std::move(memory));
        for (auto& [type, kept] : extensions_) keep_forever(std::move(kept));
        board_.release();
        return;
    }
    if (board_) FailureBoard::leave(std::move(board_), {MPI_COMM_NULL, std::move(kept_)});
    extensions_.clear();
    LeftCommunicators comms{comm_, turns_comm_};
    if (!is_one_node()) {
        free_when_all_left(comms);
        return;
    }
    free(comms);
}

void ProcessGroup::keep(std::shared_ptr<const void> memory) const noexcept {
    try {
        const std::lock_guard lock(kept_lock_);
        kept_.push_back(memory);
    } catch (const std::bad_alloc&) {
        keep_forever(std::move(memory));
    }
}

void ProcessGroup::abandon(std::shared_ptr<const void> memory) const noexcept {
    may_be_busy_.store(true);
    keep_forever(std::move(memory));
}

/// Finds the processes of this machine and of this node. Tests whether those of the node can read
/// each other's memory: each reads a mark of every other one. Makes no blocking MPI call: a process
/// that is stopped or killed in one would block the others forever.
void ProcessGroup::find_node() {
    static const std::int64_t own_mark =
        std::chrono::steady_clock::now().time_since_epoch().count() ^
        (std::int64_t{getpid()} << 32);
    std::vector<std::int64_t> mine{
        machine_number(), getpid(),
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&own_mark)), own_mark};
    const std::size_t first_processor = mine.size();
    for (const std::uint64_t word : usable_processors())
        mine.push_back(static_cast<std::int64_t>(word));
    const auto all = gather(mine);
    const auto of_rank = [&](int rank) -> const auto& {
        return all[static_cast<std::size_t>(rank)];
    };
    ProcessorSet usable{};
    for (int rank = 0; rank < size_; ++rank) {
        if (of_rank(rank).front() != mine.front()) continue;
        machine_ranks_.push_back(rank);
        for (std::size_t i = 0; i < usable.size(); ++i)
            usable[i] |= static_cast<std::uint64_t>(of_rank(rank)[first_processor + i]);
    }
    const auto processes = std::ssize(machine_ranks_);
    processors_ = processes > count(usable) ? Processors::shared : Processors::one_each;
    const auto position = std::ranges::lower_bound(machine_ranks_, rank_) - machine_ranks_.begin();
    const std::int64_t pretend = pretend_node_size();
    my_node_position_ = static_cast<int>(pretend > 0 ? position % pretend : position);
    const std::int64_t first = position - my_node_position_;
    const std::int64_t end =
        pretend > 0 ? std::min<std::int64_t>(first + pretend, processes) : std::int64_t{processes};
    node_ranks_.assign(machine_ranks_.begin() + first, machine_ranks_.begin() + end);
    bool readable = may_read_peers() && node_ranks_.size() > 1;
    for (const int rank : node_ranks_) {
        const auto& words = of_rank(rank);
        std::int64_t found = 0;
        readable = readable &&
                   memory::read_from_process(words[1], static_cast<std::uint64_t>(words[2]), &found,
                                             sizeof found) &&
                   found == words[3];
    }
    peers_readable_ = all_on_node(readable);
}

void ProcessGroup::let_mpi_progress() const noexcept {
    try {
        if (!board_ || !may_call()) return;
        board_->look_for_messages();
        if (size_ > 1) return;
        // MPICH looks no further where it is asked for messages of a process to itself, or finds
        // one.
        constexpr int unlikely_tag = 32767;  // the largest that every MPI has
        int found = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, unlikely_tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    } catch (...) {
        // What fails here will fail where its result is wanted.
    }
}

/// Makes this process's board of failures and maps those of the node. Where shared memory does not
/// work between all processes of the node, each of them is a node of its own.
void ProcessGroup::create_failure_boards() {
    constexpr std::int64_t bytes = sizeof(FailureBoard::Board);
    const auto make = [](std::byte* memory) { new (memory) FailureBoard::Board{}; };
    NodeShares boards = share_on_node(bytes, make);
    if (node_ranks_.size() > 1) why_no_shared_memory_ = boards.why_not;
    if (!boards.why_not.empty()) {
        node_ranks_ = {rank_};
        my_node_position_ = 0;
        boards = {};
        boards.own = memory::SegmentPool::allocate_private(bytes);
        boards.data = {boards.own->data};
        make(boards.own->data);
    }
    std::vector<int> far_ranks;
    for (int rank = 0; rank < size_; ++rank)
        if (node_position(rank) < 0) far_ranks.push_back(rank);
    board_ = std::make_unique<FailureBoard>(comm_, boards, my_node_position_, std::move(far_ranks));
}

/// Behind the objects is a mark by which a process finds that it has mapped another one's memory.
/// A process that is alone on its node shares none.
NodeShares ProcessGroup::share_on_node(std::int64_t bytes,
                                       const std::function<void(std::byte*)>& make) const {
    NodeShares shares;
    const auto mark_at = [&](std::byte* memory) {
        return reinterpret_cast<std::int64_t*>(memory + memory::whole_lines(bytes));
    };
    try {
        if (node_ranks_.size() > 1) {
            shares.own = pool().allocate_shared(memory::whole_lines(bytes) + sizeof(std::int64_t));
            make(shares.own->data);
            *mark_at(shares.own->data) = rank_;
        }
    } catch (const Error& e) {
        shares.why_not = e.what();
    }
    std::vector<std::int64_t> words;
    memory::put_offer(words, shares.own.get());
    const auto all = gather_on_node(words);
    bool works = shares.own != nullptr;
    for (std::size_t i = 0; i < all.size() && works; ++i) {
        try {
            const auto place = memory::OfferReader(all[i]).shared_place();
            const bool is_own = static_cast<int>(i) == my_node_position_;
            works = place.has_value();
            if (works && !is_own) shares.mapped.push_back(segments().open(place->name));
            if (works)
                shares.data.push_back(is_own ? shares.own->data
                                             : shares.mapped.back()->data() + place->offset_bytes);
            works = works && *mark_at(shares.data.back()) == node_ranks_[i];
        } catch (const Error& e) {
            works = false;
            shares.why_not = e.what();
        }
    }
    works = all_on_node(works);
    if (!works && shares.why_not.empty())
        shares.why_not = "another process of the node cannot share memory";
    return shares;
}

int ProcessGroup::node_position(std::int64_t rank) const {
    const auto it = std::lower_bound(node_ranks_.begin(), node_ranks_.end(), rank);
    return it != node_ranks_.end() && *it == rank ? static_cast<int>(it - node_ranks_.begin()) : -1;
}

bool ProcessGroup::on_same_machine(std::int64_t rank) const {
    return std::ranges::binary_search(machine_ranks_, rank);
}

std::span<const std::int64_t> ProcessGroup::nodes() {
    if (nodes_.empty()) {
        std::vector<std::int64_t> nodes(static_cast<std::size_t>(size_), 0);
        nodes[static_cast<std::size_t>(rank_)] = node_ranks_.front();
        nodes_ = is_one_node() ? std::vector<std::int64_t>(nodes.size(), node_ranks_.front())
                               : maximum(std::move(nodes));
    }
    return nodes_;
}

bool ProcessGroup::all_on_node(bool mine) const {
    return std::ranges::all_of(gather_on_node({mine}),
                               [](const auto& vote) { return vote[0] == 1; });
}

void ProcessGroup::prepare_tickets() {
    if (turns_comm_ != MPI_COMM_NULL) return;
    const auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
    carry_out("MPI_Comm_idup", made,
              [&](MPI_Request* request) { return MPI_Comm_idup(comm_, made.get(), request); });
    check(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    turns_comm_ = *made;
}

}  // namespace datamover::mpi
