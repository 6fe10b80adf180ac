// SPDX-License-Identifier: BSD-3-Clause
// The registry of transports, their names with options, and the choice for a pair.
//
// Names of kinds and "auto", joined by "+". A name may be followed by ":" and which side copies, or
// how long messages are at most: "shared:receiver", "p2p:64K", "auto:sender:256K".
#include "transport.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::transport {

extern const TransportKind self_kind, shared_kind, read_kind, staged_kind, p2p_kind, datatype_kind,
    collective_kind, get_kind, put_kind;

std::vector<TransportKind>& transport_kinds() {
    static std::vector<TransportKind> kinds{
        self_kind,     shared_kind,     read_kind, staged_kind, p2p_kind,
        datatype_kind, collective_kind, get_kind,  put_kind,
    };
    return kinds;
}

namespace {

/// A name, and the text after its first ":".
struct Name {
    std::string_view name, words;
};

std::vector<Name> all_of(std::string_view names) {
    std::vector<Name> all;
    while (true) {
        const std::size_t end = names.find('+');
        const std::string_view word = names.substr(0, end);
        const std::size_t colon = std::min(word.find(':'), word.size());
        all.push_back({word.substr(0, colon), word.substr(colon)});
        if (end == std::string_view::npos) return all;
        names.remove_prefix(end + 1);
    }
}

const TransportKind* kind_of(std::string_view name) {
    const auto& kinds = transport_kinds();
    const auto found = std::ranges::find(kinds, name, &TransportKind::name);
    return found == kinds.end() ? nullptr : &*found;
}

/// Why those that were named do not carry a pair: a reason, or one for each name.
std::string why_not(const PairFacts& facts, std::string_view names) {
    std::string text;
    const bool several = names.find('+') != std::string_view::npos;
    for (const auto& [name, words] : all_of(names)) {
        const TransportKind* kind = kind_of(name);
        if (!kind || !kind->why_not) continue;
        text += text.empty() ? ": " : "; ";
        if (several) text += std::string(name) + ": ";
        text += kind->why_not(facts);
    }
    return text;
}

const TransportKind* first_kind(const PairFacts& facts, std::string_view name) {
    for (const TransportKind& kind : transport_kinds()) {
        const bool wanted = name == "auto" ? kind.pays(facts) : name == kind.name;
        if (kind.carries(facts) && (wanted || facts.same_process)) return &kind;
    }
    return nullptr;
}

constexpr std::int64_t most_chunk_bytes = std::int64_t{1} << 30;
constexpr std::array side_words{":sender", ":receiver"};
/// Lengths of messages that are tried; each is four times the one before.
constexpr std::array size_words{":16K", ":64K", ":256K", ":1M", ":4M"};

/// A number of bytes, K and M behind it for powers of 1024; none where it is no such.
std::optional<std::int64_t> bytes_in(std::string_view word) {
    std::int64_t unit = 1, count = 0;
    if (word.ends_with('K')) unit = std::int64_t{1} << 10;
    if (word.ends_with('M')) unit = std::int64_t{1} << 20;
    if (unit > 1) word.remove_suffix(1);
    const auto read = std::from_chars(word.data(), word.data() + word.size(), count);
    if (read.ec != std::errc{} || read.ptr != word.data() + word.size()) return {};
    if (count < 1 || count > most_chunk_bytes / unit) return {};
    return count * unit;
}

/// Takes one word of a manner; whether it is one.
bool take(TransportOptions& options, std::string_view word) {
    if (word == "sender" || word == "receiver") {
        if (options.receivers_copy) return false;
        options.receivers_copy = word == "receiver";
        return true;
    }
    const auto bytes = bytes_in(word);
    if (!bytes || options.chunk_bytes > 0) return false;
    options.chunk_bytes = *bytes;
    return true;
}

/// What stands behind a name: nothing, or words that each follow a ":". None where a word is
/// unknown or says what another one has said.
std::optional<TransportOptions> manner_in(std::string_view words) {
    TransportOptions options;
    while (!words.empty()) {
        words.remove_prefix(1);
        const std::size_t end = std::min(words.find(':'), words.size());
        if (!take(options, words.substr(0, end))) return {};
        words.remove_prefix(end);
    }
    return options;
}

bool is_taken(const TransportOptions& options, std::string_view name) {
    if (name == "auto") return true;
    const AcceptedOption takes = kind_of(name)->takes;
    return (options.chunk_bytes == 0 || takes == AcceptedOption::chunk_bytes) &&
           (!options.receivers_copy || takes == AcceptedOption::who_copies);
}

std::string manners_of(std::string_view name) {
    if (name == "auto") return "\"auto:sender\", \"auto:receiver\" and \"auto:64K\"";
    switch (kind_of(name)->takes) {
        case AcceptedOption::chunk_bytes:
            return concat("\"", name, ":64K\", the bytes of the longest message, 1 to 1024M");
        case AcceptedOption::who_copies:
            return concat("\"", name, ":sender\" and \"", name, ":receiver\"");
        case AcceptedOption::nothing:
            break;
    }
    return concat("\"", name, "\" alone");
}

/// For an error: not a book.
std::string shown(std::string_view text) {
    constexpr std::size_t most = 60;
    return concat(text.substr(0, most), text.size() > most ? "…" : "");
}

void check_name(std::string_view name, std::string_view words) {
    if (name == "measure")
        throw Error(
            ErrorCode::invalid_argument,
            "transport \"measure\" stands alone: nothing is joined to it, before or behind");
    if (!is_transport_name(name))
        throw make_error(ErrorCode::invalid_argument, "there is no transport \"", shown(name),
                         "\"; known are auto, ", transport_names(),
                         ", and several of them joined by \"+\"");
    const auto options = manner_in(words);
    if (!options || !is_taken(*options, name))
        throw make_error(ErrorCode::invalid_argument, "there is no transport \"", name,
                         shown(words), "\"; there is ", manners_of(name));
}

}  // namespace

std::string transport_names() {
    std::string names;
    for (const TransportKind& kind : transport_kinds())
        names += (names.empty() ? "" : ", ") + kind.name;
    return names;
}

const TransportKind& choose_transport(const PairFacts& facts, std::string_view names) {
    for (const auto& [name, words] : all_of(names))
        if (const TransportKind* const chosen = first_kind(facts, name)) return *chosen;
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

MoverPair& Transport::add_line(const BindContext& context, const Pair& pair,
                               const PairProgram& program) {
    const ProgramFigures& f = program.figures();
    return lines_.emplace_back(
        MoverPair{pair.peer, pair.sends(), transport_kinds()[context.kind].name, pair.why, f.elems,
                  f.bytes, f.encoding, f.relation_bytes, f.kernel,
                  std::max<std::int64_t>(1, static_cast<std::int64_t>(program.chunks()))});
}

std::vector<std::int64_t> Transport::waiting_for() const {
    std::vector<std::int64_t> peers;
    for (std::size_t i = 0; i < lines_.size(); ++i)
        if (waits_for(i)) peers.push_back(lines_[i].peer);
    return peers;
}

bool is_transport_name(std::string_view name) {
    return name == "auto" || kind_of(name) != nullptr;
}

bool names_transport(std::string_view names, std::string_view kind) {
    return std::ranges::count(all_of(names), kind, &Name::name) > 0;
}

void check_transport_names(std::string_view names) {
    for (const auto& [name, words] : all_of(names)) check_name(name, words);
}

TransportOptions options_of_transport(std::string_view names, std::string_view kind) {
    // What comes behind "auto" carries nothing: that takes every pair.
    for (const auto& [name, words] : all_of(names))
        if (name == kind || name == "auto") return *manner_in(words);
    return {};
}

bool concerns(std::string_view names, const TransportKind& kind) {
    if (names_transport(names, kind.name)) return true;
    const TransportOptions options = options_of_transport(names, kind.name);
    return (kind.takes == AcceptedOption::chunk_bytes && options.chunk_bytes > 0) ||
           (kind.takes == AcceptedOption::who_copies && options.receivers_copy);
}

std::vector<std::string> other_options(std::string_view names) {
    std::vector<std::string> made;
    for (const auto& [name, words] : all_of(names)) {
        if (!words.empty()) continue;
        const auto at = static_cast<std::size_t>(name.data() - names.data()) + name.size();
        const bool both = name == "auto";
        const AcceptedOption takes = both ? AcceptedOption::nothing : kind_of(name)->takes;
        const auto add = [&](std::string_view word) {
            made.push_back(std::string(names).insert(at, word));
        };
        if (both || takes == AcceptedOption::who_copies) std::ranges::for_each(side_words, add);
        if (both || takes == AcceptedOption::chunk_bytes) std::ranges::for_each(size_words, add);
    }
    return made;
}

}  // namespace datamover::transport
