// SPDX-License-Identifier: BSD-3-Clause
// Non-blocking collectives in the order of movers' starts, for "collective".
#include "turn_transport.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::transport {
namespace {

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

}  // namespace

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

TurnTransport::TurnTransport(const BindContext& context, const std::vector<Pair>& pairs,
                             const char* name, const char* call, bool takes_addresses)
    : group_(context.group),
      name_(name),
      call_(call),
      number_(context.first_tag),
      exchange_(std::make_shared<Exchange>()) {
    for (const Pair& pair : pairs)
        exchange_->pairs.push_back(exchanged(context, pair, takes_addresses));
}

TurnTransport::~TurnTransport() {
    MPI_Request& request = exchange_->request;
    if (request == MPI_REQUEST_NULL || !mpi::is_running()) return;
    int ended = 0;
    if (MPI_Test(&request, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS || !ended)
        group_->abandon(exchange_);
}

std::int64_t TurnTransport::operations() const {
    std::size_t most = 0;
    for (const ExchangedPair& pair : exchange_->pairs) most = std::max(most, pair.program.chunks());
    return static_cast<std::int64_t>(most);
}

void TurnTransport::all_have_bound(std::int64_t operations) {
    operations_ = next_ = operations;
    if (operations == 0) return;
    group_->prepare_tickets();
    mpi::collectively(*group_, [this] { order_.emplace(group_, number_); });
}

void TurnTransport::take_ticket() {
    if (operations_ > 0) turn_ = group_->take_ticket();
}

void TurnTransport::start() {
    if (operations_ == 0) return;
    next_ = 0;
    if (group_->is_served(turn_)) begin();
}

Progress TurnTransport::progress() {
    if (operations_ == 0) return Progress::complete;
    if (next_ < operations_ && exchange_->request == MPI_REQUEST_NULL) {
        if (!group_->is_served(turn_)) return Progress::none;
        begin();
    }
    // Before anything that another order could keep from ending.
    const bool is_same_order = order_->is_done();
    if (next_ == operations_) return is_same_order ? Progress::complete : Progress::none;
    int ended = 0;
    mpi::check(MPI_Test(&exchange_->request, &ended, MPI_STATUS_IGNORE), call_);
    if (!ended) return Progress::none;
    const auto chunk = static_cast<std::size_t>(next_);
    for (const ExchangedPair& pair : exchange_->pairs)
        if (!pair.sends && pair.buffer && chunk < pair.program.chunks())
            pair.program.unpack(chunk, pair.buffer->data);
    if (++next_ < operations_) begin();
    return next_ == operations_ && is_same_order ? Progress::complete : Progress::some;
}

std::vector<std::int64_t> TurnTransport::waiting_for() const {
    std::vector<std::int64_t> peers;
    for (const ExchangedPair& pair : exchange_->pairs) peers.push_back(pair.peer);
    for (int rank = 0; exchange_->pairs.empty() && rank < group_->size(); ++rank)
        if (rank != group_->rank()) peers.push_back(rank);
    return peers;
}

void TurnTransport::report(std::vector<MoverPair>& lines) const {
    for (const ExchangedPair& p : exchange_->pairs) {
        lines.push_back(pair_line(p.peer, p.sends, name_, p.program));
        lines.back().why = why_call_;
    }
}

void TurnTransport::use_call(const char* call, std::size_t processes) {
    call_ = call;
    why_call_ = concat("by ", call);
    if (processes < static_cast<std::size_t>(group_->size()))
        why_call_ += concat(" of ", processes, " processes");
}

std::int64_t TurnTransport::extra_bytes() const {
    std::int64_t bytes = 0;
    for (const ExchangedPair& p : exchange_->pairs) bytes += p.buffer ? p.buffer->bytes : 0;
    return bytes;
}

/// The turn ends with the last operation of the round that begins, so that other movers' come
/// neither between these nor only after they have ended.
void TurnTransport::begin() {
    if (next_ == 0) {
        group_->claim_ticket(turn_, number_);
        order_->begin();
    }
    Exchange& e = *exchange_;
    const auto chunk = static_cast<std::size_t>(next_);
    for (const ExchangedPair& pair : e.pairs) {
        (pair.sends ? e.sent : e.received).set(pair, chunk);
        if (pair.sends && pair.buffer && chunk < pair.program.chunks())
            pair.program.pack(chunk, pair.buffer->data);
    }
    mpi::check(begin_operation(e, chunk, &e.request), call_);
    if (next_ + 1 == operations_) group_->serve_next();
}

}  // namespace datamover::transport
