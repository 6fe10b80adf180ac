// SPDX-License-Identifier: BSD-3-Clause
// Binding: finds a mover's peers and the transport of each pair.
//
// In three steps: a survey of what all bring (one reduction), what the processes of a node offer
// each other (one exchange, a second one where data goes through slots), and an agreement that all
// could bind. Between them every process works alone; what goes wrong there waits for the next
// step.
#include "binding.hpp"

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "choice.hpp"
#include "geometry/checked.hpp"
#include "geometry/digest.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/collectives.hpp"
#include "mpi/message_tags.hpp"
#include "plan/compile.hpp"
#include "plan/process_parts.hpp"
#include "survey.hpp"
#include "transport/transport.hpp"
#include "tuning.hpp"

namespace datamover {
namespace {

using transport::BindContext;
using transport::BoundMotion;

ElementUpdate update_of(const PerSide<ArrayPart>& array, const MoverOptions& options) {
    const ElementUpdate update{options.op,        array.source.type, array.destination.type,
                               options.conjugate, options.alpha,     options.beta};
    return update.is_plain_copy() ? ElementUpdate{} : update;
}

std::int64_t wire_bytes(const Motion& motion) {
    return std::min(motion.array.source.elem_bytes, motion.array.destination.elem_bytes);
}

/// Counts the bytes of one round; elements that cross a pair, by their bytes on the wire. Sums end
/// at the largest integer: what does not fit 64 bits is refused where it is compiled.
MoverCounters moved_per_round(const Moves& moves, std::int64_t me) {
    MoverCounters c;
    for (std::size_t m = 0; m < moves.motions.size(); ++m) {
        const auto add = [&](std::int64_t& bytes, const PeerPart& p) {
            bytes = geometry::bounded_add(
                bytes, geometry::bounded_multiply(p.part.size(), wire_bytes(moves.motions[m])));
        };
        for (const PeerPart& p : moves.parts_of(m).outgoing)
            if (p.rank != me) add(c.bytes_sent, p);
        for (const PeerPart& p : moves.parts_of(m).incoming)
            add(p.rank == me ? c.bytes_kept : c.bytes_received, p);
    }
    return c;
}

/// Messages are what a process exchanges with each other process, of all motions together.
void count_messages(MoverCounters& c, const Moves& moves, std::int64_t me) {
    const auto peers = [&](auto parts) {
        std::set<std::int64_t> ranks;
        for (const PlannedParts& planned : moves.plans)
            for (const PeerPart& p : planned.*parts)
                if (p.rank != me) ranks.insert(p.rank);
        return std::ssize(ranks);
    };
    c.messages_sent = peers(&PlannedParts::outgoing);
    c.messages_received = peers(&PlannedParts::incoming);
}

/// Tells a binding from all others of this process, and from most other words in memory.
std::uint64_t next_number() {
    static std::atomic<std::uint64_t> count{std::random_device{}()};
    constexpr std::uint64_t mixer = 0x9E3779B97F4A7C15;
    return (count.fetch_add(1, std::memory_order_relaxed) + 1) * mixer | 1;
}

/// Whether one array is source and destination at once: what would go to itself stays where it is.
bool in_place(const Motion& motion) {
    return is_same(motion.array.source, motion.array.destination);
}

/// A number of the node of each rank: the lowest rank there. Collective at the first call for a
/// group, then local.
std::span<const std::int64_t> nodes_of(const mpi::ProcessGroup& group) {
    struct Nodes {
        std::vector<std::int64_t> of_rank;
    };
    auto& nodes = group.extension<Nodes>([] { return std::make_shared<Nodes>(); })->of_rank;
    if (!nodes.empty()) return nodes;
    const mpi::Node& node = group.node();
    const bool is_one = node.is_whole_group();
    std::vector<std::int64_t> made(static_cast<std::size_t>(group.size()),
                                   is_one ? node.ranks.front() : 0);
    made[static_cast<std::size_t>(group.rank())] = node.ranks.front();
    nodes = is_one ? std::move(made) : group.maximum(std::move(made));
    return nodes;
}

/// Works out what this process moves, where `moves` has not got it yet.
void work_out_parts(Moves& moves, std::int64_t me, std::span<const std::int64_t> nodes) {
    for (std::size_t i = 0; i < moves.plans.size(); ++i) {
        PlannedParts& p = moves.plans[i];
        const auto moves_in_place = [&](const Motion& m) { return m.plan != i || in_place(m); };
        const bool all_in_place = std::ranges::all_of(moves.motions, moves_in_place);
        if ((!p.outgoing.empty() || !p.incoming.empty()) && p.in_place == all_in_place) continue;
        p.outgoing = plan::parts_of(p.plan, me, Side::source, nodes, all_in_place);
        p.incoming = plan::parts_of(p.plan, me, Side::destination, nodes, all_in_place);
        p.in_place = all_in_place;
    }
    check_overlaps(moves, me);
}

/// Whether a message of this process needs a buffer. Once one does, it does not look further.
bool packs(const Moves& moves, std::int64_t me) {
    const auto scattered = [&](std::size_t m, const PeerPart& p, Side side) {
        if (p.rank == me) return false;
        const ArrayPart& part = moves.motions[m].array[side];
        return plan::mean_run_bytes(p.part, part.memory, side, part.elem_bytes) <
               geometry::bounded_multiply(p.part.size(), part.elem_bytes);
    };
    if (moves.motions.size() > 1) return true;
    for (std::size_t m = 0; m < moves.motions.size(); ++m) {
        for (const PeerPart& p : moves.parts_of(m).outgoing)
            if (scattered(m, p, Side::source)) return true;
        for (const PeerPart& p : moves.parts_of(m).incoming)
            if (scattered(m, p, Side::destination)) return true;
    }
    return false;
}

/// The messages of a few pages of an array that go to another process in place.
void take_rewritten(const Moves& moves, std::int64_t me, MustAgree& bytes_of_all) {
    for (const Motion& motion : moves.motions) {
        if (!in_place(motion)) continue;
        for (const PeerPart& p : moves.plans[motion.plan].outgoing) {
            const std::int64_t bytes = geometry::bounded_multiply(
                p.part.size(), wire_bytes(motion) * std::ssize(moves.motions));
            if (p.rank != me && is_few_pages(bytes)) bytes_of_all.take(bytes);
        }
    }
}

/// Signal lines of this process, given back with the result; null where there can be none.
memory::AllocationPtr signal_memory(const mpi::Node& node, std::uint64_t number) {
    const std::size_t lines = node.ranks.size() * transport::transport_kinds().size();
    if (node.ranks.size() == 1) return nullptr;
    try {
        const auto memory = memory::SegmentPool::of_process().allocate_shared(
            transport::signal_memory_bytes(lines));
        transport::clear_signal_lines(memory->data, lines, number);
        return {memory.get(), [memory](const memory::Allocation*) {
                    if (!mpi::is_forked_child()) transport::retire_signal_lines(memory->data);
                }};
    } catch (const Error&) {
        return nullptr;
    }
}

void keep_memory(const BindContext& context, const Moves& moves, Binding& bound) {
    bound.memory.push_back(context.signals);
    if (context.signals) bound.signals = context.signals->data;
    for (const auto& segment : context.node->mapped()) bound.memory.push_back(segment);
    for (const transport::SlotRing& ring : context.rings_in) bound.memory.push_back(ring.memory);
    for (const Motion& motion : moves.motions)
        for (const Side side : both_sides) {
            bound.memory.push_back(motion.array[side].allocation);
            bound.memory.push_back(motion.array[side].owner);
        }
    std::erase(bound.memory, nullptr);
}

/// One binding on its way.
class Binder {
public:
    Binder(const mpi::ProcessGroupPtr& group, Moves& moves, const BindRequest& request)
        : group_(group),
          moves_(moves),
          request_(request),
          options_(request.options),
          transports_(request.transports),
          why_(request.why) {}

    /// Whether it binds other transports than were asked for, which were the fastest before.
    bool remembers() const { return transports_ != request_.transports; }

    Binding operator()(const std::optional<Error>& mine) {
        error_ = mine;
        reduction();
        if (survey_.checks.holds()) check_bound(*group_, moves_, options_);
        claim_tags();
        std::optional<Binding> bound = attempt(true);
        if (!bound) bound = attempt(false);
        return *std::move(bound);
    }

private:
    void claim_tags() {
        mpi::MessageTags& tags = group_->tags();
        const int count =
            BindContext::tags_per_kind * static_cast<int>(transport::transport_kinds().size());
        const int first = tags.next(*group_, count);
        alone([&] { tags_ = tags.claim(first, count); });
    }

    /// Runs what one process does alone; an error waits for the next agreement.
    template <class Work>
    void alone(Work&& work) {
        if (error_) return;
        try {
            work();
        } catch (...) {
            error_ = mpi::current_error(*group_);
        }
    }

    void reduction() {
        const auto nodes = nodes_of(*group_);
        alone([&] { transport::check_transport_names(transports_); });
        alone([&] { check_arguments(moves_, *group_, options_); });
        alone([&] { work_out_parts(moves_, group_->rank(), nodes); });
        signals_ = signal_memory(group_->node(), number_);
        motions_.assign(moves_.motions.size(), {});
        alone([&] { take_own(); });
        survey_.reduce(*group_, error_);
        if (!survey_.passed.same()) throw_difference(*group_, moves_, options_);
        settle_types();
        if (survey_.remembered.same() && survey_.remembered.number.value > 0) {
            transports_ = remembered_;
            why_ = "measured before";
        } else {
            remembered_.clear();  // others remember something else, and all measure together
        }
    }

    void take_own() {
        survey_.passed.take(digest_of(moves_, options_));
        survey_.checks.take(options_.check);
        if (request_.uses_memory) remembered_ = remembered_transports(*group_, moves_, options_);
        survey_.remembered.take(remembered_.empty() ? 0 : geometry::text_digest(remembered_) | 1);
        survey_.has_limit.take(options_.max_bytes > 0);
        survey_.lacks_signals.take(group_->node().ranks.size() > 1 && !signals_);
        for (std::size_t m = 0; m < motions_.size(); ++m) {
            motions_[m].two_arrays.take(!in_place(moves_.motions[m]));
            for (const Side side : both_sides)
                motions_[m].take(side, moves_.motions[m].array[side]);
        }
        if (!motions_.empty()) survey_.first_motion = motions_.front();
        const MoverCounters c = moved_per_round(moves_, group_->rank());
        survey_.sent_bytes.take(c.bytes_sent);
        survey_.received_bytes.take(c.bytes_received);
        survey_.exchanged_bytes.take(geometry::bounded_add(c.bytes_sent, c.bytes_received));
        survey_.packs.take(packs(moves_, group_->rank()));
        take_rewritten(moves_, group_->rank(), survey_.small_ghost_exchange_bytes);
        if (group_->rank() == 0) survey_.take(transport_rates());
        survey_.sent_and_kept_bytes.take(geometry::bounded_add(c.bytes_sent, c.bytes_kept));
        survey_.received_and_kept_bytes.take(geometry::bounded_add(c.bytes_received, c.bytes_kept));
    }

    void settle_types() {
        if (!motions_.empty()) motions_.front() = survey_.first_motion;
        if (motions_.size() > 1) reduce(*group_, motions_);
        for (std::size_t m = 0; m < motions_.size(); ++m)
            for (const Side side : both_sides) {
                ArrayPart& part = moves_.motions[m].array[side];
                if (!motions_[m].element[side].same()) throw_different_types(*group_, side, part);
                motions_[m].settle(side, part);
            }
        alone([&] {
            for (const Motion& motion : moves_.motions)
                check_types(motion.array.source, motion.array.destination,
                            motion.options(options_));
        });
    }

    BindContext context() const {
        BindContext made;
        made.group = group_;
        made.signals = signals_;
        made.first_tag = tags_ ? *tags_ : 0;  // none: this process has an error
        // The less loaded side copies, what a process keeps included. Between equals, in place the
        // sender: the cache lines around a face are rewritten by their owner in every step, those
        // of a ghost are only read (measured: a halo of 16³ blocks takes a third of the time that
        // it takes when receivers copy). Between two arrays the receiver: where several processes
        // send into one cache line, it is written by one (measured: half the time from cyclic(1)
        // to cyclic(2) within the caches).
        const std::int64_t received = survey_.received_and_kept_bytes.value;
        const std::int64_t sent = survey_.sent_and_kept_bytes.value;
        const bool in_place = std::ranges::any_of(
            motions_, [](const MotionReduction& motion) { return !motion.two_arrays.holds(); });
        made.receivers_copy = received < sent || (received == sent && !in_place);
        for (std::size_t m = 0; m < moves_.motions.size(); ++m) {
            const Motion& motion = moves_.motions[m];
            made.motions.push_back({&moves_.parts_of(m).plan,
                                    {&motion.array.source, &motion.array.destination},
                                    update_of(motion.array, motion.options(options_)),
                                    motions_[m].prefers_row_major.holds()
                                        ? plan::MessageOrder::row_major
                                        : plan::MessageOrder::column_major,
                                    !motions_[m].two_arrays.holds()});
        }
        return made;
    }

    /// Nothing where memory that was offered could not be mapped by a process: then nobody maps.
    std::optional<Binding> attempt(bool shares) {
        BindContext context = this->context();
        shares = shares && !survey_.lacks_signals.holds();
        std::vector<std::vector<std::int64_t>> offers(1);
        if (group_->node().ranks.size() > 1)
            offers = group_->gather_on_node(transport::offer_to_node(
                context.motions, signals_.get(), group_->node().peers_readable));
        transport::NodeMemory node(*group_, std::move(offers), moves_.motions.size());
        context.node = &node;
        const TransportChoice choice(context, moves_, survey_, transports_, shares);
        const MessageSizes sizes = choice.message_sizes(options_.max_bytes);
        context.buffers = sizes.buffers;
        context.packs = survey_.packs.holds();
        context.one_way = choice.one_way();
        exchange_slots(context, choice, sizes);
        Binding bound;
        alone([&] { bound = bind_transports(context, choice, sizes); });
        const bool cannot_map = shares && error_ && error_->code() == ErrorCode::no_memory;
        const auto votes = group_->maximum(
            {cannot_map, error_ && !cannot_map ? group_->size() - group_->rank() : 0});
        if (votes[1] > 0)
            mpi::throw_error_of(*group_, group_->size() - static_cast<int>(votes[1]), error_);
        error_.reset();
        if (votes[0] > 0) return {};
        for (const auto& t : bound.transports) t->all_have_bound();
        return bound;
    }

    void exchange_slots(BindContext& context, const TransportChoice& choice,
                        const MessageSizes& sizes) {
        const std::size_t node_size = group_->node().ranks.size();
        const auto without_rings = [&] {
            context.rings_in.assign(node_size, {});
            context.rings_out.assign(node_size, {});
        };
        without_rings();
        if (!choice.may_need_slots(motions_)) return;
        std::vector<std::int64_t> bytes(node_size, 0);
        alone([&] { bytes = choice.bytes_through_slots(); });
        if (error_) std::ranges::fill(bytes, 0);
        const auto manner = transport::options_of_transport(transports_, "staged");
        try {
            offer_slots(context, bytes, manner.chunk_bytes, sizes.share_bytes, number_);
        } catch (const Error&) {  // all else comes before the exchange, which others wait for
            if (!error_) error_ = mpi::current_error(*group_);
            without_rings();
        }
    }

    Binding bind_transports(BindContext& context, const TransportChoice& choice,
                            const MessageSizes& sizes) const {
        Binding bound;
        bound.tags = tags_;
        bound.remembered = !remembered_.empty() && transports_ == remembered_;
        bound.per_round = moved_per_round(moves_, group_->rank());
        count_messages(bound.per_round, moves_, group_->rank());
        const auto chosen = choice.pairs(why_, bound.remembered);
        // Far peers are served first, the own copy last: it needs nobody.
        const auto& kinds = transport::transport_kinds();
        for (std::size_t i = kinds.size(); i-- > 0;) {
            const bool is_for_everyone =
                kinds[i].everyone && transport::names_transport(transports_, kinds[i].name);
            if (chosen[i].empty() && !is_for_everyone) continue;
            context.kind = i;
            context.options = transport::options_of_transport(transports_, kinds[i].name);
            // The length that the user names, which a limit may shorten.
            const std::int64_t named = context.options.chunk_bytes;
            const bool is_as_named =
                named > 0 && (sizes.share_bytes == 0 || named < sizes.chunk_bytes);
            context.chunk_bytes = is_as_named ? named : sizes.chunk_bytes;
            bound.transports.push_back(kinds[i].bind(context, chosen[i]));
            bound.sends_messages = bound.sends_messages || kinds[i].sends_messages;
        }
        keep_memory(context, moves_, bound);
        return bound;
    }

    const mpi::ProcessGroupPtr& group_;
    Moves& moves_;
    const BindRequest& request_;
    const MoverOptions& options_;
    std::string transports_, why_;
    std::string remembered_;      ///< what this process remembers to be the fastest
    std::optional<Error> error_;  ///< of what this process did alone
    BindingReduction survey_;
    std::vector<MotionReduction> motions_;
    memory::AllocationPtr signals_;
    mpi::ClaimedTags tags_;
    std::uint64_t number_ = next_number();  ///< of this binding, among this process's
};

}  // namespace

Binding bind_moves(const mpi::ProcessGroupPtr& group, Moves& moves, const BindRequest& request,
                   const std::optional<Error>& mine) {
    Binder binder(group, moves, request);
    try {
        return binder(mine);
    } catch (const Error& e) {
        // What was remembered may no longer be had; all processes hear the same.
        const bool refused = e.code() == ErrorCode::unsupported || e.code() == ErrorCode::no_memory;
        if (!refused || !binder.remembers()) throw;
    }
    BindRequest anew = request;
    anew.uses_memory = false;
    return Binder(group, moves, anew)(mine);
}

}  // namespace datamover
