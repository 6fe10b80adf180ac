// SPDX-License-Identifier: BSD-3-Clause
// Boards in shared memory of a node, and the agreements of its processes on them.
#include "node_boards.hpp"

#include <algorithm>

namespace datamover::mpi {

void NodeAgreement::post(Question question, std::span<const std::int64_t> numbers) const {
    Board::Slot& mine = slot(boards_.own);
    mine.question = question;
    mine.count = numbers.size();
    std::ranges::copy(numbers, mine.numbers);
    mine.agreement.store(number_ + 1);
    // Of those that come last at the same time, one at least sees what the others have posted.
    if (!all_posted()) return;
    for (Board* const peer : boards_.peers) peer->bell.ring();
}

bool NodeAgreement::all_posted() const {
    return std::ranges::all_of(boards_.peers, [&](Board* peer) { return has_posted(peer); });
}

std::vector<std::size_t> NodeAgreement::not_posted() const {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < boards_.all.size(); ++i)
        if (!has_posted(boards_.all[i])) positions.push_back(i);
    return positions;
}

void NodeAgreement::sleep(std::chrono::nanoseconds longest) const {
    Board& own = *boards_.own;
    own.bell.sleep(longest, [&] { return own.state.load() == Board::written || all_posted(); });
}

std::optional<std::size_t> NodeAgreement::first_mismatch() const {
    const Board::Slot& first = slot(boards_.all.front());
    for (std::size_t i = 1; i < boards_.all.size(); ++i) {
        const Board::Slot& theirs = slot(boards_.all[i]);
        if (theirs.question != first.question ||
            (first.question != Question::all && theirs.count != first.count))
            return i;
    }
    return std::nullopt;
}

std::vector<std::vector<std::int64_t>> NodeAgreement::collect() const {
    std::vector<std::vector<std::int64_t>> all;
    for (Board* board : boards_.all)
        all.emplace_back(slot(board).numbers, slot(board).numbers + slot(board).count);
    return all;
}

}  // namespace datamover::mpi
