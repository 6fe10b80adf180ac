// SPDX-License-Identifier: BSD-3-Clause
// Exchanges of "collective", and the check of their order.
#include "exchange.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/failure_board.hpp"

namespace datamover::transport {
namespace {

/// Of all messages on the communicator of turns.
constexpr int tag = 0;

void add_types(ExchangedPair& pair) {
    std::vector<std::pair<const std::byte*, std::int64_t>> known;
    for (std::size_t i = 0; i < pair.program.chunks(); ++i) {
        const std::pair place{pair.bytes_of(i), pair.program.chunk_bytes(i)};
        const auto found = pair.buffer ? std::ranges::find(known, place) : known.end();
        pair.type_index.push_back(static_cast<std::size_t>(found - known.begin()));
        if (found != known.end()) continue;
        known.push_back(place);
        pair.types.push_back(mpi::bytes_at(place.first, place.second));
    }
}

}  // namespace

ExchangedPair exchanged(const BindContext& context, const Pair& pair, bool takes_addresses) {
    ExchangedPair made;
    made.peer = pair.peer;
    made.sends = pair.sends();
    made.place = static_cast<std::size_t>(pair.peer);
    // Longer ones take MPI another way, which is slower here (measured with mpich 5).
    made.program = context.message_program(pair, {context.chunk_bytes});
    const std::int64_t most_bytes = made.program.most_chunk_bytes();
    if (!made.program.all_in_place())
        made.buffer = memory::SegmentPool::allocate_private(most_bytes);
    if (!takes_addresses || most_bytes > std::numeric_limits<int>::max()) add_types(made);
    return made;
}

void Exchange::Half::resize(std::size_t places) {
    counts.assign(places, 0);
    zeros.assign(places, 0);
    long_counts.assign(places, 0);
    displacements.assign(places, 0);
    types.assign(places, MPI_BYTE);
}

void Exchange::Half::set(const ExchangedPair& pair, std::size_t chunk) {
    const bool any = chunk < pair.program.chunks();
    const bool as_bytes = any && pair.types.empty();
    counts[pair.place] = as_bytes ? static_cast<int>(pair.program.chunk_bytes(chunk)) : any;
    long_counts[pair.place] = counts[pair.place];
    displacements[pair.place] = as_bytes ? mpi::displacement_of(pair.bytes_of(chunk)) : 0;
    types[pair.place] = any && !as_bytes ? pair.types[pair.type_index[chunk]].get() : MPI_BYTE;
}

void* Exchange::Half::address(std::size_t place) const {
    if (displacements[place] == 0) return MPI_BOTTOM;
    return reinterpret_cast<void*>(displacements[place]);
}

OrderCheck::OrderCheck(mpi::ProcessGroupPtr group, int number)
    : group_(std::move(group)),
      before_((group_->rank() + group_->size() - 1) % group_->size()),
      numbers_(std::make_shared<Numbers>(Numbers{number, 0})) {
    const int after = (group_->rank() + 1) % group_->size();
    const auto is_far = [&](int rank) { return group_->node_position(rank) < 0; };
    if (is_far(before_)) {
        received_ = {true, false, requests_.size()};
        requests_.add_receive(&numbers_->theirs, sizeof numbers_->theirs, before_, tag,
                              group_->ticket_comm());
    }
    if (is_far(after)) {
        sent_ = {true, false, requests_.size()};
        requests_.add_send(&numbers_->own, sizeof numbers_->own, after, tag, group_->ticket_comm());
    }
}

OrderCheck::~OrderCheck() {
    bool have_ended = true;
    for (std::size_t i = 0; i < requests_.size(); ++i) have_ended = requests_.free(i) && have_ended;
    if (!have_ended) group_->abandon(numbers_);
}

void OrderCheck::begin() {
    for (Message* message : {&received_, &sent_}) {
        if (!message->is_there) continue;
        MPI_Request request = requests_[message->request];
        mpi::check(MPI_Start(&request), "MPI_Start");
        message->is_under_way = true;
    }
}

bool OrderCheck::has_ended(Message& message) {
    if (!message.is_under_way) return true;
    MPI_Request request = requests_[message.request];
    int ended = 0;
    mpi::check(MPI_Test(&request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    message.is_under_way = ended == 0;
    return ended != 0;
}

bool OrderCheck::is_done() {
    const bool hears = received_.is_under_way;
    const bool has_heard = has_ended(received_);
    if (hears && has_heard && numbers_->theirs != numbers_->own)
        throw mpi::another_order(group_->rank(), concat("process ", before_));
    return has_ended(sent_) && has_heard;
}

}  // namespace datamover::transport
