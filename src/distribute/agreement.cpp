// SPDX-License-Identifier: BSD-3-Clause
// Do all processes call the same operation with arguments that fit, and if not, what do all hear?
#include "agreement.hpp"

#include <functional>

#include "geometry/make_error.hpp"

namespace datamover::distribute {
namespace {

/// Two bits of a notice's number are taken otherwise.
constexpr std::uint64_t signature_limit = std::uint64_t{1} << 60;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
    return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29);
}

std::uint64_t hash_of(const std::string& text) {
    return std::hash<std::string>()(text);
}

/// The text that process `rank` brings. Collective.
std::string text_of(const mpi::ProcessGroup& group, int rank, const std::string& mine) {
    try {
        group.agree(group.rank() == rank ? std::optional(Error(ErrorCode::mismatch, mine))
                                         : std::nullopt);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::mismatch) throw;
        return e.what();
    }
    return {};
}

/// Throws on all processes what process 0 calls, and the first that calls something else.
[[noreturn]] void refuse_different(const mpi::ProcessGroup& group, const Call& call) {
    const std::string mine = call.describe(), first = text_of(group, 0, "process 0 " + mine);
    std::optional<Error> error;
    if (first != "process 0 " + mine)
        error.emplace(ErrorCode::mismatch, concat(first, ", process ", group.rank(), " ", mine,
                                                  "; all have to do the same"));
    group.agree(error);
    throw Error(ErrorCode::mismatch, "processes call different operations");
}

}  // namespace

std::int64_t Call::signature() const {
    std::uint64_t hash = mixed(hash_of(what_), hash_of(how_.method) + (how_.stable ? 1 : 0));
    hash = mixed(hash, static_cast<std::uint64_t>(op_) * 16 + static_cast<std::uint64_t>(by_));
    hash = mixed(hash, static_cast<std::uint64_t>(distribution_));
    for (const ElementColumn& c : columns_) {
        hash = mixed(hash, static_cast<std::uint64_t>(c.elem_bytes));
        hash = mixed(hash, static_cast<std::uint64_t>(c.type) + hash_of(c.type_name));
    }
    return static_cast<std::int64_t>(hash % signature_limit);
}

std::string Call::describe() const {
    std::string text = std::string(what_);
    if (!columns_.empty()) {
        text += columns_.size() == 1 ? " a column" : concat(" ", columns_.size(), " columns");
        std::string separator = " of elements of ";
        for (const ElementColumn& c : columns_) {
            text += concat(separator, c.elem_bytes, " bytes");
            const std::string type = c.type_name.empty() && c.type != ScalarType::opaque
                                         ? scalar_name(c.type)
                                         : c.type_name;
            if (!type.empty()) text += " (" + type + ")";
            separator = ", ";
        }
    }
    text += " by " + how_.method + (how_.stable ? " in stable order" : " in any order");
    if (op_ != Op::replace) text += concat(", combined by ", op_name(op_));
    if (by_ == ArrivedBy::move) text += ", that arrived by a move";
    if (by_ == ArrivedBy::move_in_place) text += ", that arrived by a move in place";
    if (distribution_ > 0)
        text += concat(", with distribution ", distribution_, " of the communicator");
    return text;
}

void raise_if_needed(const mpi::ProcessGroup& group, const Notices& all, const Trouble& mine,
                     const Call& call) {
    if (!all.failed && !all.differ) return;
    try {
        if (all.failed) group.agree(mine.told);
        refuse_different(group, call);
    } catch (const Error&) {
        mine.raise_own();
        throw;
    }
}

bool agree(State& s, NodeSlot& slot, const Trouble& mine, const Call& call, bool limited) {
    const auto all = exchange_notices(s, slot, {mine.told.has_value(), limited, call.signature()});
    raise_if_needed(*s.group, all, mine, call);
    return all.limited;
}

}  // namespace datamover::distribute
