// SPDX-License-Identifier: BSD-3-Clause
// The registry of transports, and the choice for a pair.
#include <algorithm>
#include <cmath>
#include <utility>

#include "geometry/make_error.hpp"
#include "geometry/word_digest.hpp"
#include "transport.hpp"

namespace datamover::transport {

extern const TransportKind self_kind;
extern const TransportKind shared_kind;
extern const TransportKind read_kind;
extern const TransportKind staged_kind;
extern const TransportKind p2p_kind;
extern const TransportKind datatype_kind;
extern const TransportKind collective_kind;
extern const TransportKind get_kind;
extern const TransportKind put_kind;

namespace {

std::vector<TransportKind>& all_kinds() {
    static std::vector<TransportKind> kinds{
        self_kind,     shared_kind,     read_kind, staged_kind, p2p_kind,
        datatype_kind, collective_kind, get_kind,  put_kind,
    };
    return kinds;
}

/// Why those that were named do not carry a pair: a reason, or one for each name.
std::string why_not(const PairFacts& facts, std::string_view names) {
    std::string text;
    const bool several = names.find('+') != std::string_view::npos;
    any_transport_name(names, [&](std::string_view name, std::string_view) {
        const auto& kinds = transport_kinds();
        const auto kind = std::ranges::find(kinds, name, &TransportKind::name);
        if (kind == kinds.end() || !kind->why_not) return false;
        text += text.empty() ? ": " : "; ";
        if (several) text += std::string(name) + ": ";
        text += kind->why_not(facts);
        return false;
    });
    return text;
}

const TransportKind* first_kind(const PairFacts& facts, std::string_view name) {
    for (const TransportKind& kind : transport_kinds()) {
        const bool wanted = name == "auto" ? kind.pays(facts) : name == kind.name;
        if (kind.carries(facts) && (wanted || facts.same_process)) return &kind;
    }
    return nullptr;
}

}  // namespace

const std::vector<TransportKind>& transport_kinds() {
    return all_kinds();
}

void add_transport_kind(TransportKind kind) {
    constexpr std::size_t longest = 15;
    const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const bool is_name = !kind.name.empty() && kind.name.size() <= longest &&
                         kind.name.find_first_not_of(letters) == std::string::npos;
    if (!is_name || is_transport_name(kind.name) || kind.name == "measure")
        throw Error(
            ErrorCode::invalid_argument,
            "a transport cannot be called \"" + kind.name +
                "\"; a name that is not taken is needed, of at most 15 letters, digits, _ and -");
    all_kinds().push_back(std::move(kind));
}

std::int64_t transport_kinds_digest() {
    geometry::WordDigest digest;
    for (const TransportKind& kind : all_kinds()) {
        digest.put(static_cast<std::int64_t>(kind.name.size()));
        for (const char c : kind.name) digest.put(c);
    }
    return digest.value();
}

const TransportKind& choose_transport(const PairFacts& facts, std::string_view names) {
    const TransportKind* chosen = nullptr;
    any_transport_name(names, [&](std::string_view name, std::string_view) {
        chosen = first_kind(facts, name);
        return chosen != nullptr;
    });
    if (chosen) return *chosen;
    throw make_error(ErrorCode::unsupported, "transport \"", names, "\" cannot carry from process ",
                     facts.source_rank, " to ", facts.destination_rank, why_not(facts, names));
}

std::string CostComparison::text() const {
    if (slots_ns == 0) return {};
    const auto microseconds = [](double ns) { return std::round(ns / 100) / 10; };
    return concat("; by ", built_in ? "built-in" : "measured", " rates ", microseconds(direct_ns),
                  " us in one copy, ", microseconds(slots_ns), " us through slots");
}

std::string why_not_on_node(const PairFacts& facts, const char* why_near) {
    if (!facts.why_not_shared.empty()) return facts.why_not_shared;
    return facts.same_node ? why_near : "they are on different nodes";
}

MoverPair pair_line(std::int64_t peer, bool sends, const std::string& transport,
                    const PairProgram& program) {
    const ProgramFigures& f = program.figures();
    MoverPair line{peer,    sends,      transport,        "",      f.elems,
                   f.bytes, f.encoding, f.relation_bytes, f.kernel};
    line.chunks = std::max<std::int64_t>(1, static_cast<std::int64_t>(program.chunks()));
    return line;
}

}  // namespace datamover::transport
