// SPDX-License-Identifier: BSD-3-Clause
// Which transports are there, and which of them carries a pair?
#include <algorithm>

#include "datamover/error.hpp"
#include "transport.hpp"

namespace datamover::transport {

extern const TransportKind self_kind;
extern const TransportKind shared_kind;
extern const TransportKind read_kind;
extern const TransportKind staged_kind;
extern const TransportKind p2p_kind;
extern const TransportKind datatype_kind;

const std::vector<TransportKind>& transport_kinds() {
    static const std::vector<TransportKind> kinds{
        self_kind, shared_kind, read_kind, staged_kind, p2p_kind, datatype_kind,
    };
    return kinds;
}

void check_transport_name(std::string_view name) {
    const auto& kinds = transport_kinds();
    const auto named = [&](const TransportKind& kind) { return name == kind.name; };
    if (name == "auto" || std::any_of(kinds.begin(), kinds.end(), named)) return;
    std::string known = "auto";
    for (const TransportKind& kind : kinds) known += std::string(", ") + kind.name;
    throw Error(ErrorCode::invalid_argument,
                "there is no transport \"" + std::string(name) + "\"; known are " + known);
}

const TransportKind& choose_transport(const PairFacts& facts, std::string_view forced) {
    for (const TransportKind& kind : transport_kinds()) {
        const bool wanted = forced == "auto" ? kind.pays(facts) : forced == kind.name;
        if (kind.carries(facts) && (wanted || facts.same_process)) return kind;
    }
    throw Error(ErrorCode::unsupported, "transport \"" + std::string(forced) +
                                            "\" cannot carry from process " +
                                            std::to_string(facts.source_rank) + " to " +
                                            std::to_string(facts.destination_rank));
}

MoverPair pair_line(std::int64_t peer, bool sends, const char* transport,
                    const PairProgram& program) {
    const ProgramFigures& f = program.figures();
    MoverPair line{peer,    sends,      transport,        "",      f.elems,
                   f.bytes, f.encoding, f.relation_bytes, f.kernel};
    line.chunks = std::max<std::int64_t>(1, static_cast<std::int64_t>(program.chunks()));
    return line;
}

}  // namespace datamover::transport
