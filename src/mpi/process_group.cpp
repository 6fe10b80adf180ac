// SPDX-License-Identifier: BSD-3-Clause
// Process groups: the library's private view of a user's communicator.
#include "process_group.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
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

bool all_on_node(const ProcessGroup& group, bool mine) {
    return std::ranges::all_of(group.gather_on_node({mine}),
                               [](const auto& vote) { return vote[0] == 1; });
}

/// Finds the processes of this machine and of this node. Tests whether those of the node can read
/// each other's memory: each reads a mark of every other one. Makes no blocking MPI call: a process
/// that is stopped or killed in one would block the others forever.
void find_node(const ProcessGroup& group, Node& node) {
    static const std::int64_t own_mark =
        std::chrono::steady_clock::now().time_since_epoch().count() ^
        (std::int64_t{getpid()} << 32);
    std::vector<std::int64_t> mine{
        machine_number(), getpid(),
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&own_mark)), own_mark};
    const std::size_t first_processor = mine.size();
    for (const std::uint64_t word : usable_processors())
        mine.push_back(static_cast<std::int64_t>(word));
    const auto all = group.gather(mine);
    const auto of_rank = [&](int rank) -> const auto& {
        return all[static_cast<std::size_t>(rank)];
    };
    ProcessorSet usable{};
    for (int rank = 0; rank < node.group_size; ++rank) {
        if (of_rank(rank).front() != mine.front()) continue;
        node.machine_ranks.push_back(rank);
        for (std::size_t i = 0; i < usable.size(); ++i)
            usable[i] |= static_cast<std::uint64_t>(of_rank(rank)[first_processor + i]);
    }
    const auto processes = std::ssize(node.machine_ranks);
    node.processors = processes > count(usable) ? Processors::shared : Processors::one_each;
    const auto position =
        std::ranges::lower_bound(node.machine_ranks, node.rank) - node.machine_ranks.begin();
    const std::int64_t pretend = pretend_node_size();
    node.my_position = static_cast<int>(pretend > 0 ? position % pretend : position);
    const std::int64_t first = position - node.my_position;
    const std::int64_t end =
        pretend > 0 ? std::min<std::int64_t>(first + pretend, processes) : std::int64_t{processes};
    node.ranks.assign(node.machine_ranks.begin() + first, node.machine_ranks.begin() + end);
    bool readable = may_read_peers() && node.ranks.size() > 1;
    for (const int rank : node.ranks) {
        const auto& words = of_rank(rank);
        std::int64_t found = 0;
        readable = readable &&
                   memory::read_from_process(words[1], static_cast<std::uint64_t>(words[2]), &found,
                                             sizeof found) &&
                   found == words[3];
    }
    node.peers_readable = all_on_node(group, readable);
}

/// Makes this process's board and maps those of the node. Where shared memory does not work between
/// all processes of the node, each of them is a node of its own.
void connect_failures(const ProcessGroup& group, Node& node) {
    constexpr std::int64_t bytes = sizeof(Board);
    const auto make = [](std::byte* memory) { new (memory) Board{}; };
    NodeShares boards = share_on_node(group, bytes, make);
    if (node.ranks.size() > 1) node.why_no_shared_memory = boards.why_not;
    if (!boards.why_not.empty()) {
        node.ranks = {node.rank};
        node.my_position = 0;
        boards = {};
        boards.own = memory::SegmentPool::allocate_private(bytes);
        boards.data = {boards.own->data};
        make(boards.own->data);
    }
    std::vector<int> far_ranks;
    for (int rank = 0; rank < node.group_size; ++rank)
        if (node.position(rank) < 0) far_ranks.push_back(rank);
    group.failures().connect(std::move(boards), node.my_position, std::move(far_ranks));
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
    check(MPI_Comm_rank(comm_, &node_.rank), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &node_.group_size), "MPI_Comm_size");
    failures_ = std::make_unique<Failures>(comm_);
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
    find_node(*this, node_);
    // Last: from then on a failure of another process ends what this one waits for.
    connect_failures(*this, node_);
    const std::lock_guard lock(groups().lock);
    groups().alive.insert(this);
}

void fail_all(const Error& why) noexcept {
    if (!is_running() || is_ending()) return;
    const std::lock_guard lock(groups().lock);
    for (const ProcessGroup* group : groups().alive) group->failures().fail(why);
}

/// The communicators were made for this object; they are freed with it unless MPI ends them. A
/// group goes when its user communicator has been freed and the last array and mover are gone.
ProcessGroup::~ProcessGroup() {
    {
        const std::lock_guard lock(groups().lock);
        groups().alive.erase(this);
    }
    if (!is_running()) return;
    const bool has_failed = failures_->shows_failure();
    // Whether all that this process has begun with the communicators has ended. It cannot know of
    // what others have begun, nor of messages to other nodes.
    const bool nothing_is_under_way = node_.is_whole_group() && !may_be_busy_.load();
    if (has_failed && !is_ending() && nothing_is_under_way) {
        // Where another process has something under way, or has not come to this, they stay.
        Failures::leave(std::move(failures_), {comm_, std::move(kept_.memory)});
        return;
    }
    // Where MPI ends, it may find messages under way from a process that failed; MPICH 5 ends the
    // program when a communicator of theirs is freed then.
    if (is_ending() || has_failed) {
        // Messages that nobody will receive, operations that never end, and processes that have not
        // heard yet keep the communicators and this memory in use.
        for (auto& memory : kept_.memory) keep_forever(std::move(memory));
        for (auto& [type, kept] : extensions_) keep_forever(std::move(kept));
        failures_.release();
        return;
    }
    Failures::leave(std::move(failures_), {MPI_COMM_NULL, std::move(kept_.memory)});
    extensions_.clear();
    if (node_.is_whole_group())
        MPI_Comm_free(&comm_);
    else
        free_when_all_left(comm_);
}

void ProcessGroup::keep(std::shared_ptr<const void> memory) const noexcept {
    try {
        const std::lock_guard lock(kept_.lock);
        kept_.memory.push_back(memory);
    } catch (const std::bad_alloc&) {
        keep_forever(std::move(memory));
    }
}

void ProcessGroup::abandon(std::shared_ptr<const void> memory) const noexcept {
    may_be_busy_.store(true);
    keep_forever(std::move(memory));
}

/// Behind the objects is a mark by which a process finds that it has mapped another one's memory.
/// A process that is alone on its node shares none.
NodeShares share_on_node(const ProcessGroup& group, std::int64_t bytes,
                         const std::function<void(std::byte*)>& make) {
    const Node& node = group.node();
    NodeShares shares;
    const auto mark_at = [&](std::byte* memory) {
        return reinterpret_cast<std::int64_t*>(memory + memory::whole_lines(bytes));
    };
    try {
        if (node.ranks.size() > 1) {
            shares.own = memory::SegmentPool::of_process().allocate_shared(
                memory::whole_lines(bytes) + sizeof(std::int64_t));
            make(shares.own->data);
            *mark_at(shares.own->data) = node.rank;
        }
    } catch (const Error& e) {
        shares.why_not = e.what();
    }
    std::vector<std::int64_t> words;
    memory::put_offer(words, shares.own.get());
    const auto all = group.gather_on_node(words);
    bool works = shares.own != nullptr;
    for (std::size_t i = 0; i < all.size() && works; ++i) {
        try {
            const auto place = memory::OfferReader(all[i]).shared_place();
            const bool is_own = static_cast<int>(i) == node.my_position;
            works = place.has_value();
            if (works && !is_own)
                shares.mapped.push_back(memory::SegmentMap::of_process().open(place->name));
            if (works)
                shares.data.push_back(is_own ? shares.own->data
                                             : shares.mapped.back()->data() + place->offset_bytes);
            works = works && *mark_at(shares.data.back()) == node.ranks[i];
        } catch (const Error& e) {
            works = false;
            shares.why_not = e.what();
        }
    }
    works = all_on_node(group, works);
    if (!works && shares.why_not.empty())
        shares.why_not = "another process of the node cannot share memory";
    return shares;
}

int Node::position(std::int64_t of_rank) const {
    const auto it = std::lower_bound(ranks.begin(), ranks.end(), of_rank);
    return it != ranks.end() && *it == of_rank ? static_cast<int>(it - ranks.begin()) : -1;
}

bool Node::is_on_machine(std::int64_t of_rank) const {
    return std::ranges::binary_search(machine_ranks, of_rank);
}

}  // namespace datamover::mpi
