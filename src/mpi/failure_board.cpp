// SPDX-License-Identifier: BSD-3-Clause
// Failure boards: failure notices, turn order and agreements in shared memory of a node.
#include "failure_board.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "byte_message.hpp"
#include "geometry/make_error.hpp"
#include "process_group.hpp"

namespace datamover::mpi {

FailureBoard::FailureBoard(MPI_Comm comm, const NodeShares& boards, int position,
                           std::vector<int> far_ranks)
    : comm_(comm), memory_(boards.own), mapped_(boards.mapped), far_ranks_(std::move(far_ranks)) {
    MPI_Comm_rank(comm_, &rank_);
    for (std::byte* data : boards.data) boards_.push_back(reinterpret_cast<Board*>(data));
    own_ = boards_[static_cast<std::size_t>(position)];
    std::ranges::remove_copy(boards_, std::back_inserter(peers_), own_);
}

void FailureBoard::leave(std::unique_ptr<FailureBoard> board, Remains remains) noexcept {
    // Boards stay where another process has ended without leaving.
    static std::mutex mutex;
    static FailureBoard* looked_at = nullptr;
    const std::uint64_t begun = board->begun_.load() + 1;
    for (Board* const peer : board->peers_) {
        std::uint64_t others = 0;
        if (!peer->begun_by_left.compare_exchange_strong(others, begun) && others != begun)
            peer->begun_by_left.store(Board::differs);
        peer->left.fetch_add(1);
    }
    FailureBoard* ended = nullptr;
    {
        const std::lock_guard lock(mutex);
        board->remains_ = std::move(remains);
        board->next_left_ = looked_at;
        looked_at = board.release();
        for (FailureBoard** at = &looked_at; *at != nullptr;) {
            FailureBoard* const left = *at;
            if (left->own_->left.load() != left->peers_.size()) {
                at = &left->next_left_;
                continue;
            }
            *at = std::exchange(left->next_left_, ended);
            ended = left;
        }
    }
    while (ended != nullptr) {
        const std::unique_ptr<FailureBoard> one(std::exchange(ended, ended->next_left_));
        const bool have_begun_the_same =
            one->peers_.empty() || one->own_->begun_by_left.load() == one->begun_.load() + 1;
        MPI_Comm& comm = one->remains_.comm;
        if (have_begun_the_same && is_running() && !is_ending() && comm != MPI_COMM_NULL)
            MPI_Comm_free(&comm);
    }
}

bool FailureBoard::write(Board& board, const FailureNotice& notice) noexcept {
    int expected = empty;
    if (!board.state.compare_exchange_strong(expected, writing)) return false;
    board.notice = notice;
    board.state.store(written);
    return true;
}

void FailureBoard::notify(const Error& why) noexcept {
    if (own_->state.load(std::memory_order_acquire) != empty) return;
    FailureNotice notice;
    if (const FailureNotice* const first = first_notice()) {
        notice = *first;
    } else {
        notice.rank = rank_;
        notice.code = static_cast<std::int32_t>(why.code());
        std::strncpy(notice.text, why.what(), sizeof notice.text - 1);
    }
    if (!write(*own_, notice)) return;  // another thread tells, or another process does
    sent_ = notice;
    for (Board* const peer : peers_) {
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

bool FailureBoard::may_claim_ticket(std::uint64_t ticket) const {
    if (ticket < Board::turns) return true;
    const std::size_t place = ticket % Board::turns;
    const auto least = static_cast<std::uint32_t>(ticket + 1 - Board::turns);
    return std::ranges::all_of(peers_, [&](const Board* peer) {
        const std::uint64_t theirs = peer->binding_of_ticket[place].load();
        return static_cast<std::int32_t>(static_cast<std::uint32_t>(theirs >> 32) - least) >= 0;
    });
}

void FailureBoard::claim_ticket(std::uint64_t ticket, int binding) const {
    const std::uint64_t mark = (ticket + 1) << 32;
    const std::size_t place = ticket % Board::turns;
    // The ticket that is forgotten now is compared before, with those that have come to it since.
    compare_ticket(place, own_->binding_of_ticket[place].load());
    const std::uint64_t mine = mark | static_cast<std::uint32_t>(binding);
    own_->binding_of_ticket[place].store(mine);
    compare_ticket(place, mine);
}

Error another_order(int rank, std::string_view whose) {
    return make_error(ErrorCode::mismatch, "process ", rank,
                      " starts movers with a collective transport in another order than ", whose,
                      "; all processes must start them in the same order");
}

void FailureBoard::compare_ticket(std::size_t place, std::uint64_t mine) const {
    for (Board* const peer : peers_) {
        const std::uint64_t theirs = peer->binding_of_ticket[place].load();
        if ((theirs ^ mine) >> 32 == 0 && theirs != mine)
            throw another_order(rank_, "another process of its node");
    }
}

namespace {

bool has_posted(const FailureBoard::Board& board, std::uint64_t agreement) {
    return board.agreement_slots[agreement % 2].agreement.load() == agreement + 1;
}

}  // namespace

void FailureBoard::post(std::uint64_t agreement, Question question,
                        std::span<const std::int64_t> numbers) const {
    AgreementSlot& slot = own_->agreement_slots[agreement % 2];
    slot.question = question;
    slot.count = numbers.size();
    std::ranges::copy(numbers, slot.numbers);
    slot.agreement.store(agreement + 1);
    // Of those that come last at the same time, one at least sees what the others have posted.
    if (!all_posted(agreement)) return;
    for (Board* const peer : peers_) peer->bell.ring();
}

bool FailureBoard::all_posted(std::uint64_t agreement) const {
    return std::ranges::all_of(peers_,
                               [&](const Board* peer) { return has_posted(*peer, agreement); });
}

std::vector<int> FailureBoard::not_posted(std::uint64_t agreement) const {
    std::vector<int> positions;
    for (std::size_t i = 0; i < boards_.size(); ++i)
        if (!has_posted(*boards_[i], agreement)) positions.push_back(static_cast<int>(i));
    return positions;
}

void FailureBoard::sleep(std::uint64_t agreement, std::chrono::nanoseconds longest) const {
    own_->bell.sleep(longest, [&] { return is_written() || all_posted(agreement); });
}

std::optional<std::size_t> FailureBoard::first_mismatch(std::uint64_t agreement) const {
    const AgreementSlot& first = boards_.front()->agreement_slots[agreement % 2];
    const auto differs = [&](const Board* board) {
        const AgreementSlot& theirs = board->agreement_slots[agreement % 2];
        return theirs.question != first.question ||
               (first.question != Question::all && theirs.count != first.count);
    };
    const auto found = std::find_if(boards_.begin(), boards_.end(), differs);
    if (found == boards_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - boards_.begin());
}

std::vector<std::vector<std::int64_t>> FailureBoard::collect(std::uint64_t agreement) const {
    std::vector<std::vector<std::int64_t>> all;
    for (const Board* board : boards_) {
        const AgreementSlot& slot = board->agreement_slots[agreement % 2];
        all.emplace_back(slot.numbers, slot.numbers + slot.count);
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

const FailureNotice* FailureBoard::first_notice() const {
    if (is_written()) return &own_->notice;
    const auto found = std::ranges::find_if(
        boards_, [](const Board* board) { return board->state.load() == written; });
    return found == boards_.end() ? nullptr : &(*found)->notice;
}

Error FailureBoard::cause_of(const Error& why) const {
    const FailureNotice* const notice =
        why.code() == ErrorCode::peer_failed ? first_notice() : nullptr;
    return notice ? error_of(*notice) : why;
}

Error FailureBoard::error_of(const FailureNotice& notice) {
    const std::string_view text = notice.text;
    const std::string process = concat("process ", notice.rank, " ");
    return make_error(ErrorCode::peer_failed,
                      text.starts_with(process) ? "" : process + "failed: ", text,
                      "; nothing moves on this communicator any more, a new one is needed");
}

}  // namespace datamover::mpi
