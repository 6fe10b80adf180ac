// SPDX-License-Identifier: BSD-3-Clause
// The checking wrapper "poison:": a mover reads and writes only what its plan states.
#include "poison.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "geometry/make_error.hpp"
#include "plan/compile.hpp"

namespace datamover {
namespace {

constexpr std::int64_t guard_bytes = 256;
constexpr std::byte guard{0xA5};
constexpr char is_read = 1, is_written = 2;

/// Calls visit(piece of memory) for what a motion takes from, or brings to, this process.
template <class Visit>
void for_each_piece(const Moves& moves, const Motion& motion, Side side, std::int64_t rank,
                    Visit&& visit) {
    const PlannedParts& parts = moves.plans[motion.plan];
    const ArrayPart& array = motion.array[side];
    const bool reads = side == Side::source;
    const plan::RelationSide own{&parts.plan.layout(side), &array.memory, array.elem_bytes, rank};
    const plan::RelationSide message{nullptr, nullptr, array.elem_bytes, rank};
    for (const PeerPart& peer : reads ? parts.outgoing : parts.incoming) {
        const AddressRelation relation =
            reads ? plan::compile(peer.part, own, message) : plan::compile(peer.part, message, own);
        for (const MemoryPiece& piece : relation.pieces(side, array.base)) visit(piece);
    }
}

}  // namespace

PoisonedArrays::PoisonedArrays(const std::vector<Moves>& user_phases)
    : phases(user_phases), scratch_(user_phases, guard_bytes) {
    phases = scratch_.stand_in(std::move(phases));
}

void PoisonedArrays::note_touched(std::int64_t rank) {
    rank_ = rank;
    const auto& spans = scratch_.spans();
    checked_.assign(spans.size(), {});
    for (std::size_t i = 0; i < spans.size(); ++i) {
        checked_[i].touched.assign(static_cast<std::size_t>(spans[i].bytes), 0);
        checked_[i].before.resize(static_cast<std::size_t>(spans[i].bytes + 2 * guard_bytes));
        checked_[i].result.resize(static_cast<std::size_t>(spans[i].bytes));
    }
    const auto note = [&](const MemoryPiece& piece, char how) {
        const auto* data = static_cast<const std::byte*>(piece.data);
        for (std::size_t i = 0; i < spans.size(); ++i) {
            const std::ptrdiff_t at = data - spans[i].scratch;
            if (at < 0 || at >= spans[i].bytes) continue;
            for (std::size_t k = 0; k < piece.bytes; ++k)
                checked_[i].touched[static_cast<std::size_t>(at) + k] |= how;
        }
    };
    for (const Moves& moves : phases)
        for (const Motion& motion : moves.motions)
            for (const Side side : both_sides)
                for_each_piece(moves, motion, side, rank, [&](const MemoryPiece& piece) {
                    note(piece, side == Side::source ? is_read : is_written);
                });
}

void PoisonedArrays::fill(bool inverted) {
    for (std::size_t i = 0; i < checked_.size(); ++i) {
        const ScratchArrays::Span& span = scratch_.spans()[i];
        Checked& c = checked_[i];
        std::ranges::fill(c.before, guard);
        std::memcpy(c.before.data() + guard_bytes, span.user, c.touched.size());
        if (inverted) {
            for (std::size_t k = 0; k < c.touched.size(); ++k)
                if (c.touched[k] == 0) c.before[guard_bytes + k] ^= std::byte{0xFF};
        }
        std::memcpy(span.scratch - guard_bytes, c.before.data(), c.before.size());
    }
}

void PoisonedArrays::check_untouched(const std::string& transport) const {
    for (std::size_t i = 0; i < checked_.size(); ++i) {
        const Checked& c = checked_[i];
        const std::byte* now = scratch_.spans()[i].scratch - guard_bytes;
        const auto end = static_cast<std::int64_t>(c.before.size());
        for (std::int64_t k = 0; k < end; ++k) {
            const std::int64_t at = k - guard_bytes;
            const bool inside = at >= 0 && at < end - 2 * guard_bytes;
            if (inside && c.touched[static_cast<std::size_t>(at)] & is_written) continue;
            if (now[k] != c.before[static_cast<std::size_t>(k)])
                complain(transport + " wrote what the plan does not write", i, at);
        }
    }
}

void PoisonedArrays::keep_result() {
    for (std::size_t i = 0; i < checked_.size(); ++i)
        std::memcpy(checked_[i].result.data(), scratch_.spans()[i].scratch,
                    checked_[i].result.size());
}

void PoisonedArrays::check_result(const std::string& transport) const {
    for (std::size_t i = 0; i < checked_.size(); ++i) {
        const Checked& c = checked_[i];
        const std::byte* now = scratch_.spans()[i].scratch;
        for (std::size_t k = 0; k < c.result.size(); ++k)
            if (c.touched[k] & is_written && now[k] != c.result[k])
                complain(transport + " made the result of what the plan does not read", i,
                         static_cast<std::int64_t>(k));
    }
}

void PoisonedArrays::hand_over() const {
    for (std::size_t i = 0; i < checked_.size(); ++i) {
        const ScratchArrays::Span& span = scratch_.spans()[i];
        for (std::size_t k = 0; k < checked_[i].touched.size(); ++k)
            if (checked_[i].touched[k] & is_written) span.user[k] = span.scratch[k];
    }
}

void PoisonedArrays::complain(const std::string& what, std::size_t span,
                              std::int64_t at_byte) const {
    throw make_error(ErrorCode::mismatch, "transport ", what, ": process ", rank_, ", byte ",
                     at_byte, " of the ", scratch_.spans()[span].bytes, " bytes that array ", span,
                     " spans");
}

void PoisonedOperation::announce() {
    second_ = false;
    arrays_.fill(false);
    inner_.announce();
    inner_.take_turns();  // of the second time: other movers may be started before it begins
}

Progress PoisonedOperation::progress() {
    const Progress made = inner_.progress();
    if (made != Progress::complete) return made;
    arrays_.check_untouched(transports());
    if (second_) {
        arrays_.check_result(transports());
        arrays_.hand_over();
        return Progress::complete;
    }
    second_ = true;
    arrays_.keep_result();
    arrays_.fill(true);
    inner_.announce_again();
    inner_.begin();
    return Progress::some;
}

/// The names of those that carry.
std::string PoisonedOperation::transports() const {
    std::set<std::string> names;
    inner_.for_each_binding([&](const Binding& binding) {
        for (const PairReason& reason : binding.reasons) names.insert(reason.transport);
    });
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

}  // namespace datamover
