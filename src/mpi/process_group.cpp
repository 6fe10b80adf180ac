// SPDX-License-Identifier: BSD-3-Clause
// Who takes part, who shares a node with whom, and how do all agree?
#include "process_group.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>

#include "byte_message.hpp"
#include "checked_call.hpp"

namespace datamover::mpi {
namespace {

/// Called by MPI when the user's communicator goes (or at MPI_Finalize): the reference that the
/// communicator held is dropped.
int drop_cached_group(MPI_Comm, int, void* value, void*) {
    delete static_cast<ProcessGroupPtr*>(value);
    return MPI_SUCCESS;
}

int cache_key() {
    static int key = [] {
        int made = MPI_KEYVAL_INVALID;
        check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop_cached_group, &made, nullptr),
              "MPI_Comm_create_keyval");
        return made;
    }();
    return key;
}

/// Processes per pretend node, or 0.
int pretend_node_size() {
    const char* text = std::getenv("DATAMOVER_NODE_SIZE");
    return text ? std::max(0, std::atoi(text)) : 0;
}

void check_usable(MPI_Comm comm) {
    if (!is_running())
        throw Error(ErrorCode::mpi, "MPI is not running: call MPI_Init before, MPI_Finalize after");
    if (comm == MPI_COMM_NULL)
        throw Error(ErrorCode::invalid_argument, "the communicator is MPI_COMM_NULL");
    int inter = 0;
    check(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
    if (inter)
        throw Error(ErrorCode::invalid_argument,
                    "an intercommunicator was given; an intracommunicator is needed");
}

}  // namespace

ProcessGroupPtr ProcessGroup::of(MPI_Comm user_comm) {
    check_usable(user_comm);
    void* found = nullptr;
    int present = 0;
    check(MPI_Comm_get_attr(user_comm, cache_key(), static_cast<void*>(&found), &present),
          "MPI_Comm_get_attr");
    if (present) return *static_cast<ProcessGroupPtr*>(found);
    ProcessGroupPtr group(new ProcessGroup(user_comm));
    auto* cached = new ProcessGroupPtr(group);
    check(MPI_Comm_set_attr(user_comm, cache_key(), cached), "MPI_Comm_set_attr");
    return group;
}

ProcessGroup::ProcessGroup(MPI_Comm user_comm)
    : pool_(std::make_shared<memory::SegmentPool>()),
      segments_(std::make_shared<memory::SegmentMap>()) {
    check(MPI_Comm_dup(user_comm, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    int* tag_ub = nullptr;
    int present = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&tag_ub), &present),
          "MPI_Comm_get_attr");
    if (present) tag_limit_ = *tag_ub;
    find_node();
    if (!shared_memory_works()) {
        node_ranks_ = {rank_};
        my_node_position_ = 0;
        check(MPI_Comm_free(&node_comm_), "MPI_Comm_free");
        check(MPI_Comm_split(comm_, rank_, 0, &node_comm_), "MPI_Comm_split");
    }
}

/// The communicators were made for this object; they are freed with it unless MPI has ended. A
/// group goes when its user communicator has been freed and the last array and mover are gone.
ProcessGroup::~ProcessGroup() {
    if (!is_running()) return;
    if (node_comm_ != MPI_COMM_NULL) MPI_Comm_free(&node_comm_);
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

void ProcessGroup::find_node() {
    MPI_Comm real_node = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &real_node),
          "MPI_Comm_split_type");
    int position = 0;
    check(MPI_Comm_rank(real_node, &position), "MPI_Comm_rank");
    const int pretend = pretend_node_size();
    const int color = pretend > 0 ? position / pretend : 0;
    const int code = MPI_Comm_split(real_node, color, position, &node_comm_);
    MPI_Comm_free(&real_node);
    check(code, "MPI_Comm_split");
    check(MPI_Comm_set_errhandler(node_comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    int node_size = 0;
    check(MPI_Comm_size(node_comm_, &node_size), "MPI_Comm_size");
    check(MPI_Comm_rank(node_comm_, &my_node_position_), "MPI_Comm_rank");
    node_ranks_.resize(static_cast<std::size_t>(node_size));
    check(MPI_Allgather(&rank_, 1, MPI_INT, node_ranks_.data(), 1, MPI_INT, node_comm_),
          "MPI_Allgather");
}

/// Tries once whether every process of the node can map every other's segment.
bool ProcessGroup::shared_memory_works() const {
    if (node_ranks_.size() == 1) return true;
    int works = 1;
    memory::AllocationPtr probe;
    try {
        probe = pool_->allocate_shared(static_cast<std::int64_t>(sizeof(std::int64_t)));
        *reinterpret_cast<std::int64_t*>(probe->data) = rank_;
    } catch (const Error&) {
        works = 0;
    }
    const memory::SegmentName name = probe ? probe->segment->name() : memory::SegmentName{};
    const auto all = gather_on_node({name.pid, name.fd, name.device, name.inode, name.bytes,
                                     probe ? probe->segment_offset_bytes : -1});
    for (std::size_t i = 0; i < all.size() && works; ++i) {
        const auto& v = all[i];
        if (v[5] < 0 || static_cast<int>(i) == my_node_position_) continue;
        try {
            const auto segment = segments_->open({v[0], v[1], v[2], v[3], v[4]});
            const auto* value = reinterpret_cast<const std::int64_t*>(segment->data() + v[5]);
            if (*value != node_ranks_[i]) works = 0;
        } catch (const Error&) {
            works = 0;
        }
    }
    int all_work = 0;
    check(MPI_Allreduce(&works, &all_work, 1, MPI_INT, MPI_MIN, node_comm_), "MPI_Allreduce");
    return all_work == 1;
}

int ProcessGroup::node_position(std::int64_t rank) const {
    const auto it = std::lower_bound(node_ranks_.begin(), node_ranks_.end(), rank);
    return it != node_ranks_.end() && *it == rank ? static_cast<int>(it - node_ranks_.begin()) : -1;
}

int ProcessGroup::next_tag() {
    tag_count_ = tag_count_ == tag_limit_ ? 0 : tag_count_ + 1;
    return tag_count_;
}

void ProcessGroup::agree(const std::optional<Error>& mine) const {
    int first = mine ? rank_ : size_;
    int lowest = size_;
    check(MPI_Allreduce(&first, &lowest, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce");
    if (lowest == size_) return;
    int head[2] = {0, 0};
    std::string text;
    if (lowest == rank_) {
        text = mine->what();
        head[0] = static_cast<int>(mine->code());
        head[1] = to_int(static_cast<std::int64_t>(text.size()), "error message");
    }
    check(MPI_Bcast(head, 2, MPI_INT, lowest, comm_), "MPI_Bcast");
    text.resize(static_cast<std::size_t>(head[1]));
    check(MPI_Bcast(text.data(), head[1], MPI_CHAR, lowest, comm_), "MPI_Bcast");
    throw Error(static_cast<ErrorCode>(head[0]), text);
}

std::vector<std::int64_t> ProcessGroup::maximum(std::vector<std::int64_t> values) const {
    check(MPI_Allreduce(MPI_IN_PLACE, values.data(),
                        to_int(static_cast<std::int64_t>(values.size()), "count"), MPI_INT64_T,
                        MPI_MAX, comm_),
          "MPI_Allreduce");
    return values;
}

std::vector<std::vector<std::int64_t>> ProcessGroup::gather_on_node(
    const std::vector<std::int64_t>& values) const {
    const std::size_t n = node_ranks_.size();
    const int count = to_int(static_cast<std::int64_t>(values.size()), "count");
    std::vector<int> counts(n), starts(n, 0);
    check(MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, node_comm_),
          "MPI_Allgather");
    std::int64_t total = 0;
    for (std::size_t i = 0; i < n; ++i) {
        starts[i] = to_int(total, "displacement");
        total += counts[i];
    }
    std::vector<std::int64_t> flat(static_cast<std::size_t>(total));
    check(MPI_Allgatherv(values.data(), count, MPI_INT64_T, flat.data(), counts.data(),
                         starts.data(), MPI_INT64_T, node_comm_),
          "MPI_Allgatherv");
    std::vector<std::vector<std::int64_t>> result(n);
    for (std::size_t i = 0; i < n; ++i)
        result[i].assign(flat.begin() + starts[i], flat.begin() + starts[i] + counts[i]);
    return result;
}

}  // namespace datamover::mpi
