// SPDX-License-Identifier: BSD-3-Clause
// Failures of a group's processes: notices on the boards of the node and by messages, and how a
// process leaves.
#include "failures.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "byte_message.hpp"
#include "environment.hpp"
#include "geometry/make_error.hpp"

namespace datamover::mpi {
namespace {

/// False where the board has a notice.
bool write(Board& board, const FailureNotice& notice) noexcept {
    int expected = Board::empty;
    if (!board.state.compare_exchange_strong(expected, Board::writing)) return false;
    board.notice = notice;
    board.state.store(Board::written);
    return true;
}

void receive_notice(MPI_Comm comm, Board& own) {
    int arrived = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, FailureNotice::tag, comm, &arrived, &status) != MPI_SUCCESS ||
        !arrived)
        return;
    FailureNotice notice;
    if (MPI_Recv(&notice, sizeof notice, MPI_BYTE, status.MPI_SOURCE, FailureNotice::tag, comm,
                 MPI_STATUS_IGNORE) == MPI_SUCCESS)
        write(own, notice);
}

}  // namespace

Failures::Failures(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
}

void Failures::connect(NodeShares shares, int position, std::vector<int> far_ranks) {
    far_ranks_ = std::move(far_ranks);
    for (std::byte* data : shares.data) boards_.all.push_back(reinterpret_cast<Board*>(data));
    Board* const own = boards_.all[static_cast<std::size_t>(position)];
    std::ranges::remove_copy(boards_.all, std::back_inserter(boards_.peers), own);
    boards_.memory = std::move(shares);
    boards_.own = own;
}

void Failures::leave(std::unique_ptr<Failures> connected, Remains remains) noexcept {
    // Boards stay where another process has ended without leaving.
    static std::mutex mutex;
    static Failures* looked_at = nullptr;
    const std::uint64_t begun = connected->begun_.load() + 1;
    for (Board* const peer : connected->boards_.peers) {
        std::uint64_t others = 0;
        if (!peer->begun_by_left.compare_exchange_strong(others, begun) && others != begun)
            peer->begun_by_left.store(Board::differs);
        peer->left.fetch_add(1);
    }
    Failures* ended = nullptr;
    {
        const std::lock_guard lock(mutex);
        connected->remains_ = std::move(remains);
        connected->next_left_ = looked_at;
        looked_at = connected.release();
        for (Failures** at = &looked_at; *at != nullptr;) {
            Failures* const left = *at;
            if (left->boards_.own->left.load() != left->boards_.peers.size()) {
                at = &left->next_left_;
                continue;
            }
            *at = std::exchange(left->next_left_, ended);
            ended = left;
        }
    }
    while (ended != nullptr) {
        const std::unique_ptr<Failures> one(std::exchange(ended, ended->next_left_));
        const bool have_begun_the_same =
            one->boards_.peers.empty() ||
            one->boards_.own->begun_by_left.load() == one->begun_.load() + 1;
        MPI_Comm& comm = one->remains_.comm;
        if (have_begun_the_same && is_running() && !is_ending() && comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
    }
}

void Failures::fail(const Error& why) noexcept {
    if (!is_connected() || boards_.own->state.load(std::memory_order_acquire) != Board::empty)
        return;
    FailureNotice notice;
    if (const FailureNotice* const first = first_notice()) {
        notice = *first;
    } else {
        notice.rank = rank_;
        notice.code = static_cast<std::int32_t>(why.code());
        std::strncpy(notice.text, why.what(), sizeof notice.text - 1);
    }
    if (!write(*boards_.own, notice)) return;  // another thread tells, or another process does
    sent_ = notice;
    for (Board* const peer : boards_.peers) {
        write(*peer, sent_);
        peer->bell.ring();
    }
    // Whom the message does not reach has the deadline of its wait.
    for (const int rank : far_ranks_) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (MPI_Isend(&sent_, sizeof sent_, MPI_BYTE, rank, FailureNotice::tag, comm_, &request) ==
            MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

void Failures::check_while_waiting() {
    constexpr unsigned turns_per_look = 64;
    if (!far_ranks_.empty() && ++looks_ % turns_per_look == 0) look_for_messages();
    check();
}

bool Failures::shows_failure() {
    if (!far_ranks_.empty()) look_for_messages();
    return is_written();
}

void Failures::look_for_messages() {
    // Of two threads that see the same notice, one would wait for it in vain.
    if (looking_.test_and_set(std::memory_order_acquire)) return;
    receive_notice(comm_, *boards_.own);
    looking_.clear(std::memory_order_release);
}

void Failures::let_mpi_progress() noexcept {
    try {
        if (!is_connected() || !may_call()) return;
        look_for_messages();
        if (boards_.all.size() + far_ranks_.size() > 1) return;
        // MPICH looks no further where it is asked for messages of a process to itself, or finds
        // one.
        constexpr int unlikely_tag = 32767;  // the largest that every MPI has
        int found = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, unlikely_tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    } catch (...) {
        // What fails here will fail where its result is wanted.
    }
}

const FailureNotice* Failures::first_notice() const {
    if (is_written()) return &boards_.own->notice;
    const auto found = std::ranges::find_if(
        boards_.all, [](const Board* board) { return board->state.load() == Board::written; });
    return found == boards_.all.end() ? nullptr : &(*found)->notice;
}

Error Failures::cause_of(const Error& why) const {
    const FailureNotice* const notice =
        why.code() == ErrorCode::peer_failed ? first_notice() : nullptr;
    return notice ? error_of(*notice) : why;
}

Error error_of(const FailureNotice& notice) {
    const std::string_view text = notice.text;
    const std::string process = concat("process ", notice.rank, " ");
    return make_error(ErrorCode::peer_failed,
                      text.starts_with(process) ? "" : process + "failed: ", text,
                      "; nothing moves on this communicator any more, a new one is needed");
}

}  // namespace datamover::mpi
