// SPDX-License-Identifier: BSD-3-Clause
// Choice of the transport of each pair, and the slots that receivers offer for it.
#include "choice.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "memory/cache_lines.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/byte_message.hpp"
#include "plan/compile.hpp"

namespace datamover {
namespace {

using transport::BindContext;
using transport::MessageMemory;
using transport::Pair;
using transport::PairFacts;
using transport::SlotRing;

constexpr std::int64_t line_bytes = SlotRing::line_bytes;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
/// Longer messages go in chunks of this length, so that buffers stay small and in reach of the
/// caches (measured; see docs/decisions).
constexpr std::int64_t default_chunk_bytes = std::int64_t{1} << 20;
constexpr std::int64_t default_buffers = 3;
/// Longer messages that both sides rewrite go straight: programs that do little between exchanges
/// lose most by slots (measured, docs/decisions/0020).
constexpr std::int64_t most_rewritten_bytes = 48 << 10;
/// Longer runs do too: the processor asks for their lines ahead.
constexpr std::int64_t least_long_run_bytes = 8 << 10;

std::int64_t wire_bytes(const BindContext& context, std::size_t motion) {
    return context.motions[motion].wire().elem_bytes;
}

std::int64_t most_wire_bytes(const BindContext& context) {
    std::int64_t most = 1;
    for (std::size_t m = 0; m < context.motions.size(); ++m)
        most = std::max(most, wire_bytes(context, m));
    return most;
}

/// Whether the rates say that slots pay for a message of so few pages.
bool slots_may_pay(const TransportRates& rates, std::int64_t bytes) {
    return is_few_pages(bytes) && rates.staged_ns(bytes) <= rates.shared_ns(bytes);
}

/// Below this, slots are too small to hide what a hand-over costs: fewer are better.
constexpr std::int64_t least_slot_bytes = 4096;
/// How much memory slots may take, and in which portions (measured; see docs/decisions).
constexpr std::int64_t usual_slot_bytes = std::int64_t{512} << 10, usual_slots = 2;
constexpr std::int64_t most_slot_bytes = std::int64_t{64} << 20;  ///< of one process for one mover

/// The ring for a message in so much room, which is enough for one element.
SlotRing ring_for(std::int64_t message_bytes, std::int64_t elem_bytes, std::int64_t room_bytes,
                  std::int64_t chunk_bytes) {
    const std::int64_t least = std::max(least_slot_bytes, memory::whole_lines(elem_bytes));
    const std::int64_t slots_room = room_bytes - SlotRing::signal_bytes;
    SlotRing ring;
    ring.slots = std::clamp<std::int64_t>(slots_room / least, 1, usual_slots);
    // Slots and the counts behind them begin lines, whatever length the user names.
    const std::int64_t chunk = std::max(chunk_bytes / SlotRing::line_bytes * SlotRing::line_bytes,
                                        memory::whole_lines(elem_bytes));
    const std::int64_t most =
        std::min(chunk, slots_room / ring.slots / SlotRing::line_bytes * SlotRing::line_bytes);
    // Its pieces begin lines of their own. Only a sum that stays below 2^63 is made.
    const std::int64_t bytes = std::min(message_bytes, most);
    ring.slot_bytes =
        std::min(memory::whole_lines(bytes + bytes / 16) + 4 * SlotRing::line_bytes, most);
    // A short message needs one slot in this round, and one in the next.
    if (message_bytes <= ring.slot_bytes) ring.slots = std::min<std::int64_t>(ring.slots, 2);
    return ring;
}

/// One allocation for all rings of this process; null when there is not enough.
memory::AllocationPtr allocate(std::vector<SlotRing>& rings, std::uint64_t binding) {
    std::int64_t bytes = 0;
    for (const SlotRing& ring : rings) bytes += ring.slots > 0 ? ring.bytes() : 0;
    if (bytes == 0) return nullptr;
    try {
        const auto memory = memory::SegmentPool::of_process().allocate_shared(bytes);
        std::byte* at = memory->data;
        for (SlotRing& ring : rings) {
            if (ring.slots == 0) continue;
            ring.data = at;
            ring.clear_counts(binding);
            at += ring.bytes();
        }
        // A sender that has not heard that the rings are gone must not fill them.
        const std::shared_ptr<const void> retiring(
            memory->data, [memory, offered = rings](const void*) {
                for (const SlotRing& ring : offered)
                    if (ring.data && !mpi::is_forked_child())
                        ring.binding().store(0, std::memory_order_release);
            });
        for (SlotRing& ring : rings)
            if (ring.slots > 0) ring.memory = retiring;
        return memory;
    } catch (const Error&) {
        return nullptr;
    }
}

/// A place, then slot size and number of slots for each process of the node.
std::vector<std::int64_t> offer_of(const memory::AllocationPtr& memory,
                                   const std::vector<SlotRing>& rings) {
    std::vector<std::int64_t> words;
    memory::put_offer(words, memory.get());
    for (const SlotRing& ring : rings)
        words.insert(words.end(), {ring.data ? ring.data - memory->data : 0, ring.slot_bytes,
                                   memory ? ring.slots : 0});
    return words;
}

/// The ring from this process to the one that offered these words, if there is one.
SlotRing mapped_ring(const std::vector<std::int64_t>& words, int my_position,
                     memory::SegmentMap& segments) {
    memory::OfferReader offer(words);
    const auto place = offer.shared_place();
    SlotRing ring;
    if (!place) return ring;
    std::int64_t offset_bytes = 0;
    for (int position = 0; position <= my_position; ++position) {
        offset_bytes = offer.next();
        ring.slot_bytes = offer.next();
        ring.slots = offer.next();
    }
    if (ring.slots == 0) return {};
    auto segment = segments.open(place->name);
    ring.data = segment->data() + place->offset_bytes + offset_bytes;
    ring.memory = std::move(segment);
    return ring;
}

}  // namespace

bool is_few_pages(std::int64_t bytes) {
    return bytes > 0 && bytes <= most_rewritten_bytes;
}

/// Calls visit(motion, facts, direction, part of the peer) for everything that this process sends,
/// then for everything that it receives.
template <class Visit>
void TransportChoice::for_each_share(Visit&& visit) const {
    const std::int64_t me = context_.group->rank();
    for (std::size_t m = 0; m < moves_.motions.size(); ++m)
        for (const PeerPart& p : moves_.parts_of(m).outgoing)
            visit(m, facts_of(m, me, p.rank, p.part), transport::outgoing, p);
    for (std::size_t m = 0; m < moves_.motions.size(); ++m)
        for (const PeerPart& p : moves_.parts_of(m).incoming)
            visit(m, facts_of(m, p.rank, me, p.part), transport::incoming, p);
}

PairFacts TransportChoice::facts_of(std::size_t motion, std::int64_t from, std::int64_t to,
                                    const PairPart& part) const {
    const mpi::ProcessGroup& group = *context_.group;
    PairFacts facts;
    facts.source_rank = from;
    facts.destination_rank = to;
    facts.same_process = from == to;
    facts.plain_copy = context_.motions[motion].update.is_plain_copy();
    const std::string& why = group.node().why_no_shared_memory;
    if (!why.empty()) facts.why_not_shared = "shared memory does not work on this node: " + why;
    if (group.node().position(from) < 0 || group.node().position(to) < 0) return facts;
    facts.same_node = true;
    if (facts.same_process || !shares_) return facts;
    add_sharing(facts, motion);
    weigh_rewritten(facts, motion, part);
    if (group.node().peers_readable) add_reading(facts, motion, part);
    return facts;
}

void TransportChoice::add_sharing(PairFacts& facts, std::size_t motion) const {
    const bool signals = context_.signals && peer(facts).signals;
    for (const Side side : both_sides) {
        const bool here = (side == Side::source) == sends(facts);
        const ArrayPart& own = *context_.motions[motion].array[side];
        const bool shared = here ? own.allocation && own.allocation->segment
                                 : peer(facts).arrays[motion][side].place.has_value();
        facts.shared[side] = shared && signals;
        if (here && own.allocation && !own.allocation->why_private.empty())
            facts.why_not_shared =
                concat("the ", side_name(side),
                       " array is in private memory: ", own.allocation->why_private);
    }
}

/// All arrays go in one message; most have the same plan.
void TransportChoice::weigh_rewritten(PairFacts& facts, std::size_t motion,
                                      const PairPart& part) const {
    const std::int64_t bytes = geometry::bounded_multiply(
        part.size(),
        wire_bytes(context_, motion) * static_cast<std::int64_t>(context_.motions.size()));
    if (!may_be_rewritten() || !facts.plain_copy || !facts.shared.source ||
        !facts.shared.destination || !context_.motions[motion].in_place || !is_few_pages(bytes) ||
        runs_of(facts, motion, part).direct() >= least_long_run_bytes)
        return;
    facts.rewriting = {rates_.shared_ns(bytes), rates_.staged_ns(bytes), built_in()};
    facts.small_ghost_exchange = slots_may_pay(rates_, bytes);
}

bool TransportChoice::one_way() const {
    const std::int64_t most =
        geometry::bounded_add(survey_.sent_bytes.value, survey_.received_bytes.value);
    return most - survey_.exchanged_bytes.value > most / 4;
}

/// Both sides know both memories, and so come to the same decisions.
TransportChoice::Runs TransportChoice::runs_of(const PairFacts& facts, std::size_t motion,
                                               const PairPart& part) const {
    const transport::BoundMotion& bound = context_.motions[motion];
    const auto& of_peer = peer(facts).arrays[motion];
    const MemoryLayout& source = sends(facts) ? bound.array.source->memory : of_peer.source.memory;
    const MemoryLayout& destination =
        sends(facts) ? of_peer.destination.memory : bound.array.destination->memory;
    return {plan::mean_run_bytes(part, source, Side::source, bound.array.source->elem_bytes),
            plan::mean_run_bytes(part, destination, Side::destination,
                                 bound.array.destination->elem_bytes),
            plan::fastest_alike(part, source, destination)};
}

void TransportChoice::add_reading(PairFacts& facts, std::size_t motion,
                                  const PairPart& part) const {
    if (!context_.signals || !peer(facts).signals) return;
    const Runs runs = runs_of(facts, motion, part);
    facts.balanced = !one_way();
    facts.readable = true;
    // Two writers could meet in one element: elements are combined by their owner. Between equals,
    // long runs belong on the far side.
    if (!facts.plain_copy)
        facts.receiver_reads = true;
    else if (survey_.sent_bytes.value == survey_.received_bytes.value)
        facts.receiver_reads = runs.source_bytes >= runs.destination_bytes;
    else
        facts.receiver_reads = survey_.received_bytes.value < survey_.sent_bytes.value;
    facts.direct_run_bytes = runs.direct();
    if (facts.direct_run_bytes == 0) return;
    const std::int64_t bytes =
        geometry::bounded_multiply(part.size(), wire_bytes(context_, motion));
    facts.reading = {rates_.read_ns(bytes, facts.direct_run_bytes),
                     rates_.slots_ns(bytes, facts.direct_run_bytes), built_in()};
}

bool TransportChoice::may_need_slots(const std::vector<MotionReduction>& motions) const {
    if (context_.group->node().ranks.size() == 1) return false;
    if (transport::names_transport(transports_, "staged")) return true;
    if (!transport::names_transport(transports_, "auto")) return false;
    // What holds for some length of those that are rewritten holds for the longest or the shortest.
    const MustAgree& bytes = survey_.small_ghost_exchange_bytes;
    if (bytes.any() && may_be_rewritten() &&
        (slots_may_pay(rates_, bytes.number.value) || slots_may_pay(rates_, -bytes.negated.value)))
        return true;
    for (std::size_t m = 0; m < motions.size(); ++m) {
        const auto& in_private_memory = motions[m].in_private_memory;
        const bool plain = context_.motions[m].update.is_plain_copy();
        if (in_private_memory.source.holds() && (in_private_memory.destination.holds() || !plain))
            return true;
    }
    return survey_.lacks_signals.holds();
}

const transport::TransportKind& TransportChoice::kind_with_slots(PairFacts facts) const {
    facts.slots = facts.same_node && !facts.same_process;
    return transport::choose_transport(facts, transports_);
}

/// What one direction of one pair may take of this process's memory, or no_limit. Throws
/// invalid_argument.
std::int64_t TransportChoice::share_of_limit(std::int64_t max_bytes) const {
    if (max_bytes == 0) return no_limit;
    std::set<std::pair<std::int64_t, transport::Direction>> pairs;
    for_each_share([&](std::size_t, const PairFacts& f, transport::Direction d, const PeerPart& p) {
        if (kind_with_slots(f).memory != MessageMemory::none) pairs.emplace(p.rank, d);
    });
    if (pairs.empty()) return no_limit;
    const auto count = static_cast<std::int64_t>(pairs.size());
    const std::int64_t share = max_bytes / count;
    const std::int64_t least =
        SlotRing::signal_bytes + memory::whole_lines(most_wire_bytes(context_));
    if (share < least)
        throw make_error(ErrorCode::invalid_argument, "max_bytes is ", max_bytes, ", but process ",
                         context_.group->rank(), " sends and receives ", count,
                         " messages and needs ", count * least, " bytes for them");
    return share;
}

MessageSizes TransportChoice::message_sizes(std::int64_t max_bytes) const {
    MessageSizes sizes{default_chunk_bytes, default_buffers, 0};
    if (!survey_.has_limit.holds()) return sizes;
    std::int64_t share = no_limit;
    mpi::collectively(*context_.group, [&] { share = share_of_limit(max_bytes); });
    share = -context_.group->maximum({-share})[0];
    if (share == no_limit) return sizes;
    // Several buffers, so that one is packed while another is sent, unless elements are too large.
    const std::int64_t elem_bytes = memory::whole_lines(most_wire_bytes(context_));
    sizes.share_bytes = share;
    sizes.buffers = std::clamp<std::int64_t>(share / elem_bytes, 1, 2);
    sizes.chunk_bytes =
        std::min(default_chunk_bytes, share / sizes.buffers / line_bytes * line_bytes);
    return sizes;
}

std::vector<std::int64_t> TransportChoice::bytes_through_slots() const {
    const mpi::Node& node = context_.group->node();
    std::vector<std::int64_t> bytes(node.ranks.size(), 0);
    for_each_share(
        [&](std::size_t m, const PairFacts& f, transport::Direction d, const PeerPart& p) {
            if (d == transport::outgoing || !f.same_node || f.same_process) return;
            if (kind_with_slots(f).memory != MessageMemory::slots) return;
            std::int64_t& of_peer = bytes[static_cast<std::size_t>(node.position(p.rank))];
            of_peer = geometry::bounded_add(
                of_peer, geometry::bounded_multiply(p.part.size(), wire_bytes(context_, m)));
        });
    return bytes;
}

std::vector<std::vector<Pair>> TransportChoice::pairs(const std::string& why_named,
                                                      bool remembered) const {
    const auto& kinds = transport::transport_kinds();
    std::vector<std::vector<Pair>> chosen(kinds.size());
    for_each_share([&](std::size_t m, PairFacts f, transport::Direction d, const PeerPart& p) {
        const int position = context_.group->node().position(p.rank);
        const auto& rings = d == transport::outgoing ? context_.rings_out : context_.rings_in;
        f.slots = position >= 0 && rings[static_cast<std::size_t>(position)].slots > 0;
        const auto& kind = transport::choose_transport(f, transports_);
        auto& pairs = chosen[static_cast<std::size_t>(&kind - kinds.data())];
        auto pair = std::ranges::find_if(
            pairs, [&](const Pair& x) { return x.peer == p.rank && x.direction == d; });
        if (pair == pairs.end()) pair = pairs.insert(pairs.end(), {p.rank, d, {}, {}});
        pair->shares.push_back({m, &p.part, f});
        std::string why = why_named;
        if (!transport::concerns(transports_, kind)) {
            why = kind.reason(f);
            // "auto" was the fastest, which has reasons of its own.
            if (remembered && !f.same_process) why += ", " + why_named;
        }
        // Several arrays often have one reason.
        if (pair->why.find(why) == std::string::npos)
            pair->why = pair->why.empty() ? why : why + ", " + pair->why;
    });
    return chosen;
}

void offer_slots(BindContext& context, const std::vector<std::int64_t>& incoming_bytes,
                 std::int64_t chunk_bytes, std::int64_t ring_bytes, std::uint64_t binding) {
    const mpi::ProcessGroup& group = *context.group;
    const std::int64_t elem_bytes = most_wire_bytes(context);
    const std::int64_t senders = std::ssize(incoming_bytes) - std::ranges::count(incoming_bytes, 0);
    if (chunk_bytes == 0) chunk_bytes = usual_slot_bytes;
    if (ring_bytes == 0) ring_bytes = no_limit;
    for (std::size_t i = 0; i < incoming_bytes.size(); ++i) {
        if (incoming_bytes[i] == 0) continue;
        const std::int64_t room = std::max(
            most_slot_bytes / senders, SlotRing::signal_bytes + memory::whole_lines(elem_bytes));
        context.rings_in[i] =
            ring_for(incoming_bytes[i], elem_bytes, std::min(room, ring_bytes), chunk_bytes);
    }
    const auto memory = allocate(context.rings_in, binding);
    if (!memory) context.rings_in.assign(incoming_bytes.size(), {});
    const auto offers = group.gather_on_node(offer_of(memory, context.rings_in));
    try {
        for (std::size_t i = 0; i < offers.size(); ++i)
            context.rings_out[i] =
                mapped_ring(offers[i], group.node().my_position, memory::SegmentMap::of_process());
    } catch (const std::bad_alloc&) {  // no Error, but the others do not wait for this process
        throw mpi::current_error(group);
    }
}

}  // namespace datamover
