// SPDX-License-Identifier: BSD-3-Clause
// Exact check for elements written twice, or read and written. Found by looking at every byte.
#include "conflicts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "compile.hpp"
#include "geometry/make_error.hpp"
#include "redistribution.hpp"

namespace datamover::plan {
namespace {

std::int64_t block_of(const Piece& piece, Side side) {
    return std::visit(
        [&](const auto& content) {
            if constexpr (requires { content.block(side); }) return content.block(side);
            return std::int64_t{0};
        },
        piece.content);
}

std::string named(const char* side, const Touch& touch) {
    return concat(side, " block ", block_of(touch.piece, touch.side), ", region ",
                  section(*touch.array->layout, touch.piece, touch.side).to_string());
}

std::string written_by(const Touch& w) {
    return concat(named("destination", w), " (from block ", block_of(w.piece, Side::source),
                  " of process ", w.peer, ")");
}

[[noreturn]] void refuse_second_write(std::int64_t rank, const Touch& first, const Touch& second) {
    throw make_error(ErrorCode::invalid_argument, "on process ", rank,
                     " an element is written twice: by ", written_by(first), " and by ",
                     written_by(second));
}

/// Which addresses have been touched: one bit each, in chunks, since a user's blocks may lie
/// terabytes apart.
class TouchedBytes {
public:
    /// The first address in [from, to) that was touched before.
    std::optional<std::uintptr_t> first_touched(std::uintptr_t from, std::uintptr_t to) const {
        std::optional<std::uintptr_t> found;
        for_each_word(from, to, [&](std::uintptr_t word, std::uint64_t mask) {
            const auto chunk = chunks_.find(word / words_per_chunk);
            if (found || chunk == chunks_.end()) return;
            const std::uint64_t hit = chunk->second[word % words_per_chunk] & mask;
            if (hit != 0)
                found = word * bits_per_word + static_cast<std::uintptr_t>(std::countr_zero(hit));
        });
        return found;
    }
    void touch(std::uintptr_t from, std::uintptr_t to) {
        for_each_word(from, to, [&](std::uintptr_t word, std::uint64_t mask) {
            chunks_[word / words_per_chunk][word % words_per_chunk] |= mask;
        });
    }

private:
    static constexpr std::uintptr_t bits_per_word = 64, words_per_chunk = 64;

    /// Calls visit(number of a word of bits, those of its bits that stand for [from, to)).
    template <class Visit>
    static void for_each_word(std::uintptr_t from, std::uintptr_t to, Visit&& visit) {
        while (from < to) {
            const std::uintptr_t word = from / bits_per_word;
            const std::uintptr_t end = std::min(to, (word + 1) * bits_per_word);
            const std::uint64_t ones = ~std::uint64_t{0} >> (bits_per_word - (end - from));
            visit(word, ones << (from % bits_per_word));
            from = end;
        }
    }

    std::unordered_map<std::uintptr_t, std::array<std::uint64_t, words_per_chunk>> chunks_;
};

using VisitAddresses = std::function<void(std::uintptr_t from, std::uintptr_t to)>;

/// Calls visit for every contiguous range of addresses that a piece reads (writes).
void for_each_range(const Touch& touch, std::int64_t rank, const VisitAddresses& visit) {
    const BoundMemory& array = *touch.array;
    PairPart alone;
    alone.pieces.push_back(touch.piece);
    const RelationSide memory{array.layout, array.memory, array.elem_bytes, rank};
    const RelationSide message{nullptr, nullptr, array.elem_bytes, rank};
    const bool reads = touch.side == Side::source;
    const AddressRelation relation =
        reads ? compile(alone, memory, message) : compile(alone, message, memory);
    relation.for_each_run([&](std::int64_t source, std::int64_t destination, std::int64_t elems) {
        const std::uintptr_t from =
            array.base + static_cast<std::uintptr_t>(reads ? source : destination);
        visit(from, from + static_cast<std::uintptr_t>(elems * array.elem_bytes));
    });
}

}  // namespace

Region section(const Layout& layout, const Piece& piece, Side side) {
    const auto* product = std::get_if<ProductPiece>(&piece.content);
    const auto* reshape = std::get_if<ReshapePiece>(&piece.content);
    if (!layout.has_products() || (!product && !reshape)) return layout.domain();
    const std::int64_t block = block_of(piece, side);
    const auto sets = layout.axis_sets(block);
    Point lo = layout.block_extents(block), hi = lo;
    const auto set_positions = [&](int d, std::int64_t first, std::int64_t last) {
        const AxisSet& set = sets[static_cast<std::size_t>(d)];
        lo[d] = set.global(first);
        hi[d] = set.global(last) + 1;
    };
    if (product)
        for (const PieceAxis& axis : product->axes) {
            const Extent extent = positions_of(axis, side);
            set_positions(axis.dim(side), extent.low, extent.high);
        }
    if (reshape)
        for (int d = 0; d < lo.dims(); ++d)
            set_positions(d, reshape->box(side).lo()[d], reshape->box(side).hi()[d] - 1);
    return {lo, hi};
}

void refuse_read(std::int64_t rank, const Touch& reader, const Touch& writer) {
    throw make_error(ErrorCode::invalid_argument, "on process ", rank,
                     " an element is read while it is written: read by ", named("source", reader),
                     " (for process ", reader.peer, "), written by ", written_by(writer));
}

void check_conflicts(std::span<const BoundParts> move, std::int64_t rank, bool combines) {
    const auto for_each_write = [&](auto&& visit) {
        for (const BoundParts& parts : move) for_each_touch(parts, Side::destination, visit);
    };
    // The first piece that writes an address; `otherwise` where it is none.
    const auto writer_of = [&](std::uintptr_t address, const Touch& otherwise) {
        std::optional<Touch> writer;
        for_each_write([&](const Touch& write) {
            if (writer) return;
            for_each_range(write, rank, [&](auto from, auto to) {
                if (from <= address && address < to) writer = write;
            });
        });
        return writer.value_or(otherwise);
    };
    TouchedBytes written;
    for_each_write([&](const Touch& write) {
        for_each_range(write, rank, [&](auto from, auto to) {
            const auto again = combines ? std::nullopt : written.first_touched(from, to);
            if (again) refuse_second_write(rank, writer_of(*again, write), write);
            written.touch(from, to);
        });
    });
    for (const BoundParts& parts : move)
        for_each_touch(parts, Side::source, [&](const Touch& read) {
            for_each_range(read, rank, [&](auto from, auto to) {
                const auto at = written.first_touched(from, to);
                if (at) refuse_read(rank, read, writer_of(*at, read));
            });
        });
}

}  // namespace datamover::plan
