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

/// Memory that messages may take, and how it is used.
struct MessageSizes {
    std::int64_t chunk_bytes = 0;  ///< longest message
    std::int64_t buffers = 1;      ///< per direction of a pair
    std::int64_t share_bytes = 0;  ///< most bytes of one direction of a pair; 0: no limit
};

/// Which transports carry what one binding moves, chosen from the facts of each direction of a
/// pair, of which both sides find the same. Throws as choose_transport does.
class TransportChoice {
public:
    /// `transports` are names; `shares`: memory of others may be mapped.
    TransportChoice(const transport::BindContext& context, const Moves& moves,
                    const BindingReduction& survey, const std::string& transports, bool shares)
        : context_(context),
          moves_(moves),
          survey_(survey),
          transports_(transports),
          rates_(survey.rates()),
          shares_(shares) {}

    /// Whether the processes with the most to do mostly send or mostly receive.
    bool one_way() const;
    /// Whether any pair may need slots: where both its arrays may be private, where ghosts are
    /// exchanged, or on request.
    bool may_need_slots(const std::vector<MotionReduction>& motions) const;
    /// The sizes under a limit of so many bytes (0: none here), the same on all processes.
    /// Collective if any process has a limit; throws invalid_argument, on all processes, for a
    /// limit that leaves no room for an element per message.
    MessageSizes message_sizes(std::int64_t max_bytes) const;
    /// Bytes that each process of the node sends here through slots, in order of the node's ranks.
    std::vector<std::int64_t> bytes_through_slots() const;
    /// Pairs by the transport that carries them, in order of transport_kinds(), with the reasons;
    /// `why` is that of those that are named. `remembered`: also of the others between processes.
    /// Local.
    std::vector<std::vector<transport::Pair>> pairs(const std::string& why, bool remembered) const;

private:
    /// The mean lengths of unbroken runs on both sides.
    struct Runs {
        std::int64_t source_bytes = 0, destination_bytes = 0;
        bool alike = false;  ///< they come in the same order

        std::int64_t direct() const {
            return alike ? std::min(source_bytes, destination_bytes) : 0;
        }
    };
    template <class Visit>
    void for_each_share(Visit&& visit) const;
    /// The facts of the direction from one rank to another, one of which is this process.
    transport::PairFacts facts_of(std::size_t motion, std::int64_t from, std::int64_t to,
                                  const PairPart& part) const;
    Runs runs_of(const transport::PairFacts& facts, std::size_t motion, const PairPart& part) const;
    bool sends(const transport::PairFacts& facts) const {
        return facts.source_rank == context_.group->rank();
    }
    const transport::NodePeer& peer(const transport::PairFacts& facts) const {
        return context_.node->peer(sends(facts) ? facts.destination_rank : facts.source_rank);
    }
    bool built_in() const { return rates_ == TransportRates{}; }
    /// Whether any pair may be found to be rewritten.
    bool may_be_rewritten() const { return !survey_.has_limit.holds() && !one_way(); }
    void add_sharing(transport::PairFacts& facts, std::size_t motion) const;
    void weigh_rewritten(transport::PairFacts& facts, std::size_t motion,
                         const PairPart& part) const;
    void add_reading(transport::PairFacts& facts, std::size_t motion, const PairPart& part) const;
    /// The kind for a pair, supposing that the receiver has slots for it.
    const transport::TransportKind& kind_with_slots(transport::PairFacts facts) const;
    std::int64_t share_of_limit(std::int64_t max_bytes) const;

    const transport::BindContext& context_;
    const Moves& moves_;
    const BindingReduction& survey_;
    const std::string& transports_;
    TransportRates rates_;
    bool shares_;
};

/// Sets rings aside for the messages that come from each process of the node (`incoming_bytes`, 0
/// for none) and offers them to the senders, and maps those that this process sends through: sets
/// `rings_in` and `rings_out` of the context. Slots have `chunk_bytes`, a ring at most `ring_bytes`
/// (0: as usual). A process that cannot allocate the memory offers nothing; one that cannot map a
/// ring throws no_memory. `binding` is this process's number of the binding. Collective on the
/// node.
void offer_slots(transport::BindContext& context, const std::vector<std::int64_t>& incoming_bytes,
                 std::int64_t chunk_bytes, std::int64_t ring_bytes, std::uint64_t binding);

}  // namespace datamover
