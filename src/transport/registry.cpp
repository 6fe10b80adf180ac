// SPDX-License-Identifier: BSD-3-Clause
// Which transports are there, and which of them carries a pair?
#include "transport.hpp"

#include <algorithm>

#include "datamover/error.hpp"

namespace datamover::transport {

extern const TransportKind self_kind;
extern const TransportKind shared_kind;
extern const TransportKind read_kind;
extern const TransportKind staged_kind;
extern const TransportKind p2p_kind;

const std::vector<TransportKind>& transport_kinds() {
    static const std::vector<TransportKind> kinds{
        self_kind, shared_kind, read_kind, staged_kind, p2p_kind,
    };
    return kinds;
}

namespace {

std::string known_names() {
    std::string names = "auto";
    for (const TransportKind& kind : transport_kinds()) names += std::string(", ") + kind.name;
    return names;
}

std::string pair_name(const PairFacts& facts) {
    return std::to_string(facts.source_rank) + " to " + std::to_string(facts.destination_rank);
}

}  // namespace

const TransportKind& choose_transport(const PairFacts& facts, std::string_view forced) {
    const auto& kinds = transport_kinds();
    const auto named = [&](const TransportKind& kind) { return forced == kind.name; };
    if (forced != "auto" && std::none_of(kinds.begin(), kinds.end(), named))
        throw Error(ErrorCode::invalid_argument, "there is no transport \"" + std::string(forced) +
                                                     "\"; known are " + known_names());
    for (const TransportKind& kind : kinds) {
        const bool wanted = forced == "auto" ? kind.pays(facts) : named(kind);
        if (kind.carries(facts) && (wanted || facts.same_process)) return kind;
    }
    throw Error(ErrorCode::unsupported, "transport \"" + std::string(forced) +
                                            "\" cannot carry from process " + pair_name(facts));
}

std::string reason_for(const TransportKind& kind, const PairFacts& facts, std::string_view forced) {
    if (facts.same_process) return "within the process";
    if (forced == kind.name) return "asked for";
    if (!facts.same_node) return "on another node";
    const std::string_view name = kind.name;
    if (name == "shared")
        return facts.source_shared ? "the source array is in shared memory"
                                   : "the destination array is in shared memory";
    const std::string runs = "runs of " + std::to_string(facts.direct_run_bytes) + " bytes";
    if (name == "read") return runs + " on both sides";
    if (name == "staged" && !facts.readable) return "neither array can be reached";
    if (name == "staged" && !facts.plain_copy) return "elements are combined or converted";
    if (name == "staged" && !facts.balanced) return "both sides share the work of the busier one";
    if (name == "staged")
        return facts.direct_run_bytes > 0 ? runs + " are too short to be read"
                                          : "the two arrays run along different axes";
    return "no shared memory is to be had";
}

plan::RelationSide BindContext::source_side() const {
    return {&plan->source(), &source->memory, source->elem_bytes, group->rank()};
}

plan::RelationSide BindContext::destination_side() const {
    return {&plan->destination(), &destination->memory, destination->elem_bytes, group->rank()};
}

plan::RelationSide BindContext::message_side() const {
    return {nullptr, nullptr, wire().bytes, group->rank()};
}

WireElement BindContext::wire() const {
    return source->elem_bytes <= destination->elem_bytes
               ? WireElement{source->type, source->elem_bytes}
               : WireElement{destination->type, destination->elem_bytes};
}

ElementUpdate BindContext::packing_update() const {
    ElementUpdate packing;
    if (wire().type == source->type) return packing;
    packing.source_type = source->type;
    packing.destination_type = wire().type;
    return packing;
}

ElementUpdate BindContext::unpacking_update() const {
    ElementUpdate unpacking = update;
    if (!update.is_plain_copy()) unpacking.source_type = wire().type;
    return unpacking;
}

MoverLeg leg_line(std::int64_t peer, bool sends, const char* transport,
                  const AddressRelation& relation, const CopyKernel& kernel) {
    return {peer,
            sends,
            transport,
            "",
            relation.size(),
            relation.size() * relation.source_elem_bytes(),
            encoding_name(relation.encoding()),
            relation.nbytes(),
            kernel.describe()};
}

}  // namespace datamover::transport
