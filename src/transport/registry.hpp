// SPDX-License-Identifier: BSD-3-Clause
// The registry of transports, their names with options, and the choice for a pair.
//
// Names of kinds and "auto", joined by "+". A name may be followed by ":" and which side copies, or
// how long messages are at most: "shared:receiver", "p2p:64K", "auto:sender:256K".
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace datamover::transport {

struct TransportKind;

/// What a user says of how a kind is to carry.
struct TransportOptions {
    std::int64_t chunk_bytes = 0;        ///< longest message or slot; 0: as usual
    std::optional<bool> receivers_copy;  ///< where either side could; none: as usual
};

/// Calls visit(name, manner) for the names in turn, until it gives true; whether it did. What
/// stands behind a name is the text after its first ":".
template <class Visit>
bool any_transport_name(std::string_view names, Visit&& visit) {
    while (true) {
        const std::size_t end = names.find('+');
        const std::string_view word = names.substr(0, end);
        const std::size_t colon = std::min(word.find(':'), word.size());
        if (visit(word.substr(0, colon), word.substr(colon))) return true;
        if (end == std::string_view::npos) return false;
        names.remove_prefix(end + 1);
    }
}

/// Whether one name alone is that of a kind, or "auto".
bool is_transport_name(std::string_view name);
/// Whether a kind is among the names.
bool names_transport(std::string_view names, std::string_view kind);
/// Throws invalid_argument for names that are not such, and for manners that a kind does not have.
void check_transport_names(std::string_view names);
/// In what manner pairs of a kind are carried, of names that were verified: as the first name says
/// that is the kind's or "auto".
TransportOptions options_of_transport(std::string_view names, std::string_view kind);
/// Whether the names name a kind, or say in what manner it carries what "auto" chooses it for.
bool concerns(std::string_view names, const TransportKind& kind);
/// The same names with one of them in another manner than the usual one, in all ways worth a trial:
/// each side copies; messages of several lengths. None where a manner is given.
std::vector<std::string> other_options(std::string_view names);

}  // namespace datamover::transport
