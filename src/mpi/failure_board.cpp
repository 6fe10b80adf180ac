// SPDX-License-Identifier: BSD-3-Clause
// How do the processes of a group learn that one of them has failed, or acts out of turn, and what
// does each of a node say?
#include "failure_board.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "byte_message.hpp"
#include "geometry/make_error.hpp"

namespace datamover::mpi {

FailureBoard::FailureBoard(MPI_Comm comm, memory::AllocationPtr own, std::vector<PeerBoard> peers,
                           int position, std::vector<int> far_ranks)
    : comm_(comm),
      memory_(std::move(own)),
      own_(reinterpret_cast<Board*>(memory_->data)),
      peers_(std::move(peers)),
      far_ranks_(std::move(far_ranks)) {
    MPI_Comm_rank(comm_, &rank_);
    for (const PeerBoard& peer : peers_) boards_.push_back(peer.board);
    boards_.insert(boards_.begin() + position, own_);
}

void FailureBoard::leave(std::unique_ptr<FailureBoard> board, Remains remains) noexcept {
    // Boards stay where another process has ended without leaving.
    static std::mutex mutex;
    static FailureBoard* looked_at = nullptr;
    const std::uint64_t begun = board->begun_.load() + 1;
    for (const PeerBoard& peer : board->peers_) {
        std::uint64_t others = 0;
        if (!peer.board->begun_by_left.compare_exchange_strong(others, begun) && others != begun)
            peer.board->begun_by_left.store(Board::differs);
        peer.board->left.fetch_add(1);
    }
    FailureBoard* ended = nullptr;
    {
        const std::lock_guard lock(mutex);
        board->remains_ = std::move(remains);
        board->next_left_ = looked_at;
        looked_at = board.release();
        for (FailureBoard** at = &looked_at; *at != nullptr;) {
            FailureBoard* const left = *at;
            if (!left->all_have_left()) {
                at = &left->next_left_;
                continue;
            }
            *at = std::exchange(left->next_left_, ended);
            ended = left;
        }
    }
    while (ended != nullptr) {
        const std::unique_ptr<FailureBoard> one(std::exchange(ended, ended->next_left_));
        if (one->all_have_begun_the_same()) one->free_communicators();
    }
}

void FailureBoard::free_communicators() noexcept {
    if (!is_running() || is_ending()) return;
    for (MPI_Comm* comm : {&remains_.node_comm, &remains_.comm})
        if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

bool FailureBoard::write(Board& board, const FailureNotice& notice) noexcept {
    int expected = empty;
    if (!board.state.compare_exchange_strong(expected, writing)) return false;
    board.notice = notice;
    board.state.store(written);
    return true;
}

void FailureBoard::tell(const Error& why) noexcept {
    if (own_->state.load(std::memory_order_acquire) != empty) return;
    FailureNotice notice;
    notice.rank = rank_;
    notice.code = static_cast<std::int32_t>(why.code());
    std::strncpy(notice.text, why.what(), sizeof notice.text - 1);
    if (!write(*own_, notice)) return;  // another thread tells, or another process does
    sent_ = notice;
    for (const PeerBoard& peer : peers_) {
        write(*peer.board, sent_);
        peer.board->bell.ring();
    }
    // Whom the message does not reach has the deadline of its wait.
    for (const int rank : far_ranks_) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (MPI_Isend(&sent_, sizeof sent_, MPI_BYTE, rank, FailureNotice::tag, comm_, &request) ==
            MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

bool FailureBoard::may_begin_turn(std::uint64_t turn) const {
    if (turn < Board::turns) return true;
    const std::size_t place = turn % Board::turns;
    const auto least = static_cast<std::uint32_t>(turn + 1 - Board::turns);
    return std::ranges::all_of(peers_, [&](const PeerBoard& peer) {
        const std::uint64_t theirs = peer.board->binding_of_turn[place].load();
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(theirs >> 32) - least) >= 0;
    });
}

void FailureBoard::begin_turn(std::uint64_t turn, int binding) const {
    const std::uint64_t mark = (turn + 1) << 32;
    const std::size_t place = turn % Board::turns;
    // The turn that is forgotten now is compared before, with those that have come to it since.
    compare_turn(place, own_->binding_of_turn[place].load());
    const std::uint64_t mine = mark | static_cast<std::uint32_t>(binding);
    own_->binding_of_turn[place].store(mine);
    compare_turn(place, mine);
}

Error another_order(int rank, std::string_view whose) {
    return make_error(ErrorCode::mismatch, "process ", rank,
                      " starts movers with a collective transport in another order than ", whose,
                      "; all processes must start them in the same order");
}

void FailureBoard::compare_turn(std::size_t place, std::uint64_t mine) const {
    for (const PeerBoard& peer : peers_) {
        const std::uint64_t theirs = peer.board->binding_of_turn[place].load();
        if ((theirs ^ mine) >> 32 == 0 && theirs != mine)
            throw another_order(rank_, "another process of its node");
    }
}

void FailureBoard::say(std::uint64_t agreement, Question question,
                       std::span<const std::int64_t> numbers) const {
    Said& said = own_->said[agreement % 2];
    said.question = question;
    said.count = numbers.size();
    if (numbers.size() <= Said::most) std::copy(numbers.begin(), numbers.end(), said.numbers);
    said.agreement.store(agreement + 1);
    // Of those that come last at the same time, one at least sees what the others have said.
    if (!all_have_said(agreement)) return;
    for (const PeerBoard& peer : peers_) peer.board->bell.ring();
}

bool FailureBoard::all_have_said(std::uint64_t agreement) const {
    return std::ranges::all_of(peers_, [&](const PeerBoard& peer) {
        const Said& theirs = peer.board->said[agreement % 2];
        return theirs.agreement.load() == agreement + 1;
    });
}

void FailureBoard::sleep(std::uint64_t agreement, std::chrono::nanoseconds longest) const {
    own_->bell.sleep(longest, [&] { return is_written() || all_have_said(agreement); });
}

std::optional<std::size_t> FailureBoard::who_differs(std::uint64_t agreement) const {
    const Said& first = boards_.front()->said[agreement % 2];
    const auto differs = [&](const Board* board) {
        const Said& theirs = board->said[agreement % 2];
        return theirs.question != first.question ||
               (first.question != Question::all && theirs.count != first.count);
    };
    const auto found = std::find_if(boards_.begin(), boards_.end(), differs);
    if (found == boards_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - boards_.begin());
}

std::optional<std::vector<std::vector<std::int64_t>>> FailureBoard::said(
    std::uint64_t agreement) const {
    std::vector<std::vector<std::int64_t>> all;
    for (const Board* board : boards_) {
        const Said& said = board->said[agreement % 2];
        if (said.count > Said::most) return std::nullopt;
        all.emplace_back(said.numbers, said.numbers + said.count);
    }
    return all;
}

void FailureBoard::check_while_waiting() {
    constexpr unsigned turns_per_look = 64;
    if (!far_ranks_.empty() && ++looks_ % turns_per_look == 0) look_for_messages();
    check();
}

bool FailureBoard::shows_failure() {
    if (!far_ranks_.empty()) look_for_messages();
    return is_written();
}

void FailureBoard::look_for_messages() {
    // Of two threads that see the same notice, one would wait for it in vain.
    if (looking_.test_and_set(std::memory_order_acquire)) return;
    receive_notice();
    looking_.clear(std::memory_order_release);
}

void FailureBoard::receive_notice() {
    int arrived = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, FailureNotice::tag, comm_, &arrived, &status) != MPI_SUCCESS ||
        !arrived)
        return;
    FailureNotice notice;
    if (MPI_Recv(&notice, sizeof notice, MPI_BYTE, status.MPI_SOURCE, FailureNotice::tag, comm_,
                 MPI_STATUS_IGNORE) == MPI_SUCCESS)
        write(*own_, notice);
}

void FailureBoard::throw_error() const {
    const FailureNotice& notice = own_->notice;
    const std::string_view text = notice.text;
    const std::string process = concat("process ", notice.rank, " ");
    throw make_error(ErrorCode::peer_failed,
                     text.starts_with(process) ? "" : process + "failed: ", text,
                     "; nothing moves on this communicator any more, a new one is needed");
}

}  // namespace datamover::mpi
