// SPDX-License-Identifier: BSD-3-Clause
// Choice of the transport of each pair, and the slots that receivers offer for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "binding.hpp"
#include "datamover/advanced/transport_rates.hpp"
#include "survey.hpp"
#include "transport/transport.hpp"

namespace datamover {

/// Whether a message that both sides rewrite from round to round is so short that it may go through
/// slots (docs/decisions/0020).
bool is_few_pages(std::int64_t bytes);
/// Whether the rates say that slots pay for one.
bool slots_may_pay(const TransportRates& rates, std::int64_t bytes);

/// The facts of the direction from one rank to another, one of which is this process.
class FactFinder {
public:
    /// `shares`: memory of others may be mapped.
    FactFinder(const transport::BindContext& context, const BindingReduction& survey, bool shares)
        : context_(context), survey_(survey), rates_(survey.rates()), shares_(shares) {}

    transport::PairFacts operator()(std::size_t motion, std::int64_t from, std::int64_t to,
                                    const PairPart& part) const;
    /// Whether the processes with the most to do mostly send or mostly receive.
    bool one_way() const;
    /// Whether any pair may be found to be rewritten.
    bool may_be_rewritten() const { return !survey_.has_limit.holds() && !one_way(); }

private:
    /// The mean lengths of unbroken runs on both sides.
    struct Runs {
        std::int64_t source_bytes = 0, destination_bytes = 0;
        bool alike = false;  ///< they come in the same order

        std::int64_t direct() const {
            return alike ? std::min(source_bytes, destination_bytes) : 0;
        }
    };
    Runs runs_of(const transport::PairFacts& facts, std::size_t motion, const PairPart& part) const;
    bool sends(const transport::PairFacts& facts) const {
        return facts.source_rank == context_.group->rank();
    }
    const transport::NodePeer& peer(const transport::PairFacts& facts) const {
        return context_.node->peer(sends(facts) ? facts.destination_rank : facts.source_rank);
    }
    bool built_in() const { return rates_ == TransportRates{}; }
    void add_sharing(transport::PairFacts& facts, std::size_t motion) const;
    void weigh_rewritten(transport::PairFacts& facts, std::size_t motion,
                         const PairPart& part) const;
    void add_reading(transport::PairFacts& facts, std::size_t motion, const PairPart& part) const;

    const transport::BindContext& context_;
    const BindingReduction& survey_;
    TransportRates rates_;
    bool shares_;
};

/// Memory that messages may take, and how it is used.
struct MessageSizes {
    std::int64_t chunk_bytes = 0;  ///< longest message
    std::int64_t buffers = 1;      ///< per direction of a pair
    std::int64_t share_bytes = 0;  ///< most bytes of one direction of a pair; 0: no limit

    /// The longest message where the user names a length (0: none), which a limit may shorten.
    std::int64_t longest(std::int64_t named_bytes) const {
        if (named_bytes == 0) return chunk_bytes;
        return share_bytes == 0 ? named_bytes : std::min(named_bytes, chunk_bytes);
    }
};

/// The sizes under a limit of so many bytes (0: none here), the same on all processes. Collective
/// if any process has a limit; throws invalid_argument, on all processes, for a limit that leaves
/// no room for an element per message.
MessageSizes message_sizes(const transport::BindContext& context, const Moves& moves,
                           const FactFinder& facts, std::int64_t max_bytes,
                           const std::string& transports, bool any_has_limit);

/// Bytes that each process of the node sends here through slots, in order of node_ranks.
std::vector<std::int64_t> bytes_through_slots(const transport::BindContext& context,
                                              const Moves& moves, const FactFinder& facts,
                                              const std::string& transport);

/// Sorts pairs by the transport that carries them, in order of transport_kinds(), and appends why
/// to `reasons`; `why` is that of those that are named. Local. Throws as choose_transport does.
std::vector<std::vector<transport::Pair>> choose_pairs(const transport::BindContext& context,
                                                       const Moves& moves, const FactFinder& facts,
                                                       const std::string& transports,
                                                       const std::string& why,
                                                       std::vector<PairReason>& reasons);

/// Sets rings aside for the messages that come from each process of the node (`incoming_bytes`, 0
/// for none) and offers them to the senders, and maps those that this process sends through: sets
/// `rings_in` and `rings_out` of the context. Slots have `chunk_bytes`, a ring at most `ring_bytes`
/// (0: as usual). A process that cannot allocate the memory offers nothing; one that cannot map a
/// ring throws no_memory. `binding` is this process's number of the binding. Collective on the
/// node.
void offer_slots(transport::BindContext& context, const std::vector<std::int64_t>& incoming_bytes,
                 std::int64_t chunk_bytes, std::int64_t ring_bytes, std::uint64_t binding);

}  // namespace datamover
