// SPDX-License-Identifier: BSD-3-Clause
// Agreements and collectives of a group that no process failure blocks; comparison of passed
// values.
//
// Non-blocking collectives, polled: whoever waits looks at the board of failures between the polls.
// An operation that a failed process never joins cannot end; its buffers are kept.
#include "collectives.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "byte_message.hpp"
#include "checked_call.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "process_group.hpp"
#include "waiting.hpp"

#if MPI_VERSION >= 4
// Compiled against a newer MPI than it is loaded beside, as in a wheel, this is null.
#pragma weak MPI_Ialltoallv_c
#endif

namespace datamover::mpi {
namespace {

/// Made when there is memory. Errors are copied without any.
const Error out_of_memory(ErrorCode::no_memory, "a process ran out of memory");
static_assert(std::is_nothrow_copy_constructible_v<Error>);

}  // namespace

/// A started operation cannot be canceled: if this process gives up, all others are notified, and
/// the memory is kept.
void ProcessGroup::carry_out(const char* call, std::shared_ptr<const void> memory,
                             const std::function<int(MPI_Comm, MPI_Request*)>& begin,
                             Load load) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check_still_running();
    failures_->check();
    failures_->count_operation();
    try {
        check(begin(comm_, &request), call);
        complete(*this, request, call, load);
    } catch (...) {
        failures_->fail(current_error(*this));
        if (request != MPI_REQUEST_NULL) abandon(std::move(memory));
        throw;
    }
}

Error current_error(const ProcessGroup& group) noexcept try {
    const std::string process = concat("process ", group.rank());
    try {
        throw;
    } catch (const Error& e) {
        return group.failures().cause_of(e);
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::no_memory, process, " ran out of memory");
    } catch (const std::length_error&) {
        return make_error(ErrorCode::no_memory, process,
                          " needs more entries than memory can hold");
    } catch (const Interrupted&) {
        return make_error(ErrorCode::peer_failed, process, " was interrupted");
    } catch (const std::exception& e) {
        return make_error(ErrorCode::peer_failed, process, " failed: ", e.what());
    } catch (...) {
        return make_error(ErrorCode::peer_failed, process,
                          " failed for a reason that it does not say");
    }
} catch (...) {
    return out_of_memory;
}

namespace {

/// Exchanges at most Board::Slot::most numbers of each process of this node by shared memory.
/// Returns them in order of rank. Collective on the node, once there are boards.
std::vector<std::vector<std::int64_t>> allgather_on_node(const ProcessGroup& group,
                                                         Question question,
                                                         std::span<const std::int64_t> mine) {
    check_still_running();
    group.failures().check();
    const NodeAgreement agreement(group.failures().boards());
    const std::vector<int>& ranks = group.node().ranks;
    return notifying_failure(group, [&] {
        agreement.post(question, mine);
        Waiting waiting(group);
        waiting.sleep_by([&](std::chrono::nanoseconds longest) { agreement.sleep(longest); });
        wait(
            waiting, [&] { return agreement.all_posted(); },
            [&] {
                std::vector<int> missing;
                for (const std::size_t position : agreement.not_posted())
                    missing.push_back(ranks[position]);
                throw make_error(ErrorCode::timeout, "process ", group.rank(), " waited ",
                                 waiting.timeout_seconds(), " s for ", processes_text(missing),
                                 " to make the same call");
            });
        // The two calls could not interpret each other's numbers.
        if (const auto other = agreement.first_mismatch())
            throw make_error(ErrorCode::mismatch, "processes ", ranks.front(), " and ",
                             ranks[*other],
                             " make different calls; all processes must make the same calls in the "
                             "same order");
        return agreement.collect();
    });
}

std::vector<std::int64_t> largest(const ProcessGroup& group, Question question,
                                  std::vector<std::int64_t> values) {
    if (group.failures().is_connected() && group.node().is_whole_group() &&
        values.size() <= Board::Slot::most) {
        for (const auto& theirs : allgather_on_node(group, question, values))
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] = std::max(values[i], theirs[i]);
        return values;
    }
    const auto all = notifying_failure(
        group, [&] { return std::make_shared<std::vector<std::int64_t>>(std::move(values)); });
    const int count = to_int(static_cast<std::int64_t>(all->size()), "count");
    group.carry_out("MPI_Iallreduce", all, [&](MPI_Comm comm, MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, all->data(), count, MPI_INT64_T, MPI_MAX, comm,
                              request);
    });
    return std::move(*all);
}

}  // namespace

std::vector<std::int64_t> ProcessGroup::maximum(std::vector<std::int64_t> values) const {
    return largest(*this, Question::largest, std::move(values));
}

bool all_equal(const ProcessGroup& group, std::uint32_t value) {
    const std::int64_t number = value;
    const auto most = group.maximum({number, -number});
    return most[0] == -most[1];
}

std::vector<std::int64_t> exchange(const ProcessGroup& group, std::vector<std::int64_t> values) {
    struct Buffers {
        std::vector<std::int64_t> told, heard;
    };
    const auto buffers = notifying_failure(group, [&] {
        const std::size_t n = values.size();
        return std::make_shared<Buffers>(Buffers{std::move(values), std::vector<std::int64_t>(n)});
    });
    group.carry_out("MPI_Ialltoall", buffers, [&](MPI_Comm comm, MPI_Request* request) {
        return MPI_Ialltoall(buffers->told.data(), 1, MPI_INT64_T, buffers->heard.data(), 1,
                             MPI_INT64_T, comm, request);
    });
    return std::move(buffers->heard);
}

void ProcessGroup::agree(const std::optional<Error>& mine) const {
    // The largest number comes from the lowest rank with an error.
    const std::int64_t first = largest(*this, Question::error, {mine ? size() - rank() : 0})[0];
    if (first > 0) throw_error_of(*this, size() - static_cast<int>(first), mine);
}

void throw_error_of(const ProcessGroup& group, int lowest, const std::optional<Error>& mine) {
    const std::string told = notifying_failure(group, [&] {
        std::string text;
        if (lowest == group.rank()) {
            text = static_cast<char>(mine->code()) + std::string(mine->what());
            if (group.size() > 1 && text.find("process ") == std::string::npos)
                text += concat(" (on process ", lowest, ")");
        }
        return broadcast(group, lowest, std::move(text));
    });
    throw Error(static_cast<ErrorCode>(told.front()), told.substr(1));
}

std::string broadcast(const ProcessGroup& group, int rank, std::string text) {
    const auto length = std::make_shared<std::int64_t>(std::ssize(text));
    group.carry_out("MPI_Ibcast", length, [&](MPI_Comm comm, MPI_Request* request) {
        return MPI_Ibcast(length.get(), 1, MPI_INT64_T, rank, comm, request);
    });
    const auto all = std::make_shared<std::string>(std::move(text));
    all->resize(static_cast<std::size_t>(*length));
    group.carry_out("MPI_Ibcast", all, [&](MPI_Comm comm, MPI_Request* request) {
        return MPI_Ibcast(all->data(), to_int(*length, "text"), MPI_CHAR, rank, comm, request);
    });
    return std::move(*all);
}

namespace {

/// With few processes, the first numbers of each are exchanged with their count: if no process has
/// more, nothing else is exchanged.
std::vector<std::vector<std::int64_t>> gather_of_all(const ProcessGroup& group,
                                                     const std::vector<std::int64_t>& values) {
    constexpr std::size_t most_with_numbers = 64, first_numbers = 47;
    const auto n = static_cast<std::size_t>(group.size());
    const std::size_t slot = n <= most_with_numbers ? first_numbers + 1 : 1;
    struct Buffers {
        std::vector<int> counts, starts;
        std::vector<std::int64_t> mine, all;
    };
    const auto buffers = std::make_shared<Buffers>();
    Buffers& b = *buffers;
    b.mine.assign(slot, 0);
    b.mine[0] = std::ssize(values);
    std::copy_n(values.begin(), std::min(values.size(), slot - 1), b.mine.begin() + 1);
    b.all.resize(n * slot);
    group.carry_out("MPI_Iallgather", buffers, [&](MPI_Comm comm, MPI_Request* request) {
        const int count = static_cast<int>(slot);
        return MPI_Iallgather(b.mine.data(), count, MPI_INT64_T, b.all.data(), count, MPI_INT64_T,
                              comm, request);
    });
    bool fit = true;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t count = b.all[i * slot];
        fit = fit && count < static_cast<std::int64_t>(slot);
        b.counts.push_back(to_int(count, "count"));
        b.starts.push_back(to_int(total, "displacement"));
        total += count;
    }
    if (fit) {
        for (std::size_t i = 0; i < n; ++i) b.starts[i] = static_cast<int>(i * slot + 1);
    } else {
        b.mine = values;
        b.all.resize(static_cast<std::size_t>(total));
        group.carry_out("MPI_Iallgatherv", buffers, [&](MPI_Comm comm, MPI_Request* request) {
            return MPI_Iallgatherv(b.mine.data(), static_cast<int>(b.mine.size()), MPI_INT64_T,
                                   b.all.data(), b.counts.data(), b.starts.data(), MPI_INT64_T,
                                   comm, request);
        });
    }
    std::vector<std::vector<std::int64_t>> result(n);
    for (std::size_t i = 0; i < n; ++i) {
        const auto begin = b.all.begin() + b.starts[i];
        result[i].assign(begin, begin + b.counts[i]);
    }
    return result;
}

/// Gathers by the boards, in rounds: each process posts how many numbers it has left, and as many
/// as fit. If one has many left and all processes are on this node, MPI gathers all instead. Before
/// there are boards, all processes of the group make this call.
std::vector<std::vector<std::int64_t>> gather_of_node(const ProcessGroup& group,
                                                      const std::vector<std::int64_t>& values) {
    // Measured on two busy processors: 4000 numbers of one process 1 ms by the boards, 256,000
    // 30 ms; by MPI 0.3 and 3 ms.
    constexpr std::int64_t most_by_boards = 4096;
    std::vector<std::vector<std::int64_t>> here(group.node().ranks.size());
    if (!group.failures().is_connected()) {
        auto all = gather_of_all(group, values);
        for (std::size_t i = 0; i < here.size(); ++i)
            here[i] = std::move(all[static_cast<std::size_t>(group.node().ranks[i])]);
        return here;
    }
    std::span<const std::int64_t> rest = values;
    for (bool more = true; more;) {
        const auto some = rest.first(std::min(rest.size(), Board::Slot::most - 1));
        rest = rest.subspan(some.size());
        std::vector<std::int64_t> mine{std::ssize(rest)};
        mine.insert(mine.end(), some.begin(), some.end());
        const auto come = allgather_on_node(group, Question::all, mine);
        std::int64_t most_left = 0;
        for (std::size_t i = 0; i < here.size(); ++i) {
            here[i].insert(here[i].end(), come[i].begin() + 1, come[i].end());
            most_left = std::max(most_left, come[i].front());
        }
        if (most_left > most_by_boards && group.node().is_whole_group())
            return gather_of_all(group, values);
        more = most_left > 0;
    }
    return here;
}

}  // namespace

std::vector<std::vector<std::int64_t>> ProcessGroup::gather_on_node(
    const std::vector<std::int64_t>& values) const {
    check_still_running();  // a forked process must not notify its parent's group
    return notifying_failure(*this, [&] { return gather_of_node(*this, values); });
}

/// The values may be long. If one process has no memory for them, the others wait for it.
std::vector<std::vector<std::int64_t>> ProcessGroup::gather(
    const std::vector<std::int64_t>& values) const {
    if (failures_->is_connected() && node_.is_whole_group()) return gather_on_node(values);
    check_still_running();
    return notifying_failure(*this, [&] { return gather_of_all(*this, values); });
}

namespace {

/// Longer texts are cut.
constexpr std::size_t most_chars = 400;

/// The text of process `rank`, on all processes. Collective.
std::string text_of(const ProcessGroup& group, int rank, std::string text) {
    if (text.size() > most_chars) {
        text.resize(most_chars - 3);
        constexpr auto continues = [](char c) { return (c & 0xC0) == 0x80; };
        while (!text.empty() && continues(text.back())) text.pop_back();  // of UTF-8
        if (!text.empty() && (text.back() & 0x80) != 0) text.pop_back();
        text += "...";
    }
    return broadcast(group, rank, std::move(text));
}

}  // namespace

void require_same(const ProcessGroup& group, std::span<const std::int64_t> digests,
                  const std::function<PassedValue(std::size_t)>& describe, std::string_view verb) {
    const auto all = group.gather({digests.begin(), digests.end()});
    const auto found = std::ranges::find_if(all, [&](const auto& v) { return v != all[0]; });
    if (found == all.end()) return;
    const int other = static_cast<int>(found - all.begin());
    const auto at =
        static_cast<std::size_t>(std::ranges::mismatch(all[0], *found).in1 - all[0].begin());
    PassedValue mine;
    collectively(group, [&] {
        const bool is_asked = group.rank() == 0 || group.rank() == other;
        if (is_asked && at < digests.size()) mine = describe(at);
    });
    const std::string what = text_of(group, other, mine.what);
    const std::string first = text_of(group, 0, mine.value);
    const std::string second = text_of(group, other, mine.value);
    throw Error(ErrorCode::mismatch, difference_text(verb, what, 0, first, other, second));
}

void require_same(const ProcessGroup& group, const std::vector<PassedValue>& values,
                  std::string_view verb) {
    std::vector<std::int64_t> digests;
    for (const PassedValue& passed : values)
        digests.push_back(geometry::text_digest(passed.what + '\0' + passed.value));
    require_same(group, digests, [&](std::size_t i) { return values[i]; }, verb);
}

// The alarm: a process makes the others stop independent work.

Alarm::Alarm(ProcessGroupPtr group) : group_(std::move(group)), tag_(claim_tags(*group_, 1)) {}

void Alarm::ring() {
    if (has_rung_) return;
    has_rung_ = true;
    notifying_failure(*group_, [&] {
        group_->keep(tag_);  // what is sent may never be received
        for (int rank = 0; rank < group_->size(); ++rank) {
            if (rank == group_->rank()) continue;
            MPI_Request request = MPI_REQUEST_NULL;
            check(MPI_Isend(nullptr, 0, MPI_BYTE, rank, *tag_, group_->comm(), &request),
                  "MPI_Isend");
            check(MPI_Request_free(&request), "MPI_Request_free");
        }
    });
}

bool Alarm::rings() const {
    group_->failures().check_while_waiting();
    int arrived = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, *tag_, group_->comm(), &arrived, MPI_STATUS_IGNORE),
          "MPI_Iprobe");
    return arrived != 0;
}

void Alarm::settle() {
    const auto rang = group_->gather({has_rung_ ? 1 : 0});
    for (int rank = 0; rank < group_->size(); ++rank) {
        if (rank == group_->rank() || rang[static_cast<std::size_t>(rank)][0] == 0) continue;
        group_->carry_out("MPI_Irecv", nullptr, [&](MPI_Comm comm, MPI_Request* request) {
            return MPI_Irecv(nullptr, 0, MPI_BYTE, rank, *tag_, comm, request);
        });
    }
}

// All-to-all exchange with 64-bit sizes.

namespace {

template <class T>
std::vector<T> converted(const std::vector<std::int64_t>& values) {
    std::vector<T> result;
    for (const std::int64_t value : values)
        if constexpr (sizeof(T) < sizeof(value))
            result.push_back(to_int(value, "number of elements"));
        else
            result.push_back(static_cast<T>(value));
    return result;
}

/// What MPI may look at until the operation is complete.
template <class Count, class Start>
struct Arguments {
    std::vector<std::shared_ptr<const void>> memory;
    std::vector<Count> send_counts, receive_counts;
    std::vector<Start> send_starts, receive_starts;
    Datatype type;
};

/// MPI_Ialltoallv, or the call of MPI 4 with 64-bit counts.
template <class Count, class Start>
using Call = int (*)(const void*, const Count*, const Start*, MPI_Datatype, void*, const Count*,
                     const Start*, MPI_Datatype, MPI_Comm, MPI_Request*);

}  // namespace

bool has_large_counts() {
#if MPI_VERSION >= 4
    return &MPI_Ialltoallv_c != nullptr;
#else
    return false;
#endif
}

Blocks Blocks::behind(std::vector<std::int64_t> counts) {
    Blocks blocks;
    std::int64_t start = 0;
    for (const std::int64_t count : counts) {
        blocks.starts.push_back(start);
        start += count;
    }
    blocks.counts = std::move(counts);
    return blocks;
}

std::int64_t Blocks::total() const {
    return counts.empty() ? 0 : starts.back() + counts.back();
}

bool all_to_all_reaches(std::int64_t elems) {
    return has_large_counts() || elems <= std::numeric_limits<int>::max();
}

void all_to_all(std::vector<std::shared_ptr<const void>> memory, const std::byte* send,
                const Blocks& sent, std::byte* receive, const Blocks& received,
                std::int64_t elem_bytes, const ProcessGroup& group) {
    const auto carry_out = [&]<class Count, class Start>(Call<Count, Start> begin) {
        const auto a = std::make_shared<Arguments<Count, Start>>();
        a->memory = std::move(memory);
        a->send_counts = converted<Count>(sent.counts);
        a->receive_counts = converted<Count>(received.counts);
        a->send_starts = converted<Start>(sent.starts);
        a->receive_starts = converted<Start>(received.starts);
        a->type = contiguous(elem_bytes, MPI_BYTE);
        a->type.commit();
        const auto begin_it = [&](MPI_Comm comm, MPI_Request* request) {
            return begin(send, a->send_counts.data(), a->send_starts.data(), a->type.get(), receive,
                         a->receive_counts.data(), a->receive_starts.data(), a->type.get(), comm,
                         request);
        };
        group.carry_out("MPI_Ialltoallv", a, begin_it, Load::data);
    };
#if MPI_VERSION >= 4
    if (has_large_counts()) return carry_out(&MPI_Ialltoallv_c);
#endif
    carry_out(&MPI_Ialltoallv);
}

}  // namespace datamover::mpi
