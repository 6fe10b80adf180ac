// SPDX-License-Identifier: BSD-3-Clause
// Does a process's part of a plan write an element twice, or read what it writes?
#include "conflicts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile.hpp"
#include "datamover/error.hpp"
#include "datamover/side.hpp"

namespace datamover::plan {
namespace {

/// Local positions from lo to hi - 1.
struct Span {
    std::int64_t lo = 0, hi = 0;
};

Span span_of(const AxisTable& table, bool source_side) {
    Span span{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
    table.for_each_block([&](std::int64_t source, std::int64_t destination, std::int64_t length) {
        const std::int64_t first = source_side ? source : destination;
        span.lo = std::min(span.lo, first);
        span.hi = std::max(span.hi, first + length);
    });
    return span;
}

/// The local positions that a piece about one pair of blocks takes along the dimensions of a side.
struct LocalSpans {
    std::int64_t block = 0;
    std::vector<std::pair<int, Span>> spans;
    bool whole = false;  ///< single elements: all of the block
};

LocalSpans spans_of(const Piece& piece, Side side) {
    LocalSpans local;
    const bool of_source = side == Side::source;
    const auto block_of = [&](const auto& c) {
        return of_source ? c.source_block : c.destination_block;
    };
    if (const auto* product = std::get_if<ProductPiece>(&piece.content)) {
        local.block = block_of(*product);
        for (const PieceAxis& axis : product->axes)
            local.spans.push_back({of_source ? axis.source_dim : axis.destination_dim,
                                   span_of(*axis.table, of_source)});
    } else if (const auto* reshape = std::get_if<ReshapePiece>(&piece.content)) {
        local.block = block_of(*reshape);
        const Region& box = of_source ? reshape->source : reshape->destination;
        for (int d = 0; d < box.dims(); ++d) local.spans.push_back({d, {box.lo()[d], box.hi()[d]}});
    } else if (const auto* list = std::get_if<BoxList>(&piece.content)) {
        local.block = block_of(list->boxes.front());
        for (const BoxAxis& axis : list->shape_of(list->boxes.front()).axes()) {
            const std::int64_t first = of_source ? axis.source : axis.destination;
            local.spans.push_back(
                {of_source ? axis.source_dim : axis.destination_dim, {first, first + axis.length}});
        }
    } else {
        local.block = block_of(std::get<IndexPiece>(piece.content));
        local.whole = true;
    }
    return local;
}

Region section(const Layout& layout, const Piece& piece, Side side) {
    const LocalSpans local = spans_of(piece, side);
    if (local.whole || layout.index_list()) return layout.domain();
    const auto sets = layout.axis_sets(local.block);
    Point lo = layout.block_extents(local.block), hi = lo;
    for (const auto& [d, span] : local.spans) {
        const AxisSet& set = sets[static_cast<std::size_t>(d)];
        lo[d] = set.global(span.lo);
        hi[d] = set.global(span.hi - 1) + 1;
    }
    return {lo, hi};
}

/// Calls visit(const Piece&) for every pair of blocks of a part: boxes come one by one.
template <class Visit>
void for_each_of_one_pair(const PairPart& part, Visit&& visit) {
    for (const Piece& piece : part.pieces) {
        const auto* list = std::get_if<BoxList>(&piece.content);
        if (!list) {
            visit(piece);
            continue;
        }
        for (const PlacedBox& box : list->boxes) {
            const BoxShape& shape = list->shape_of(box);
            visit(Piece{
                BoxList{{shape}, {{box.source_block, box.destination_block, 0}}, shape.size()}});
        }
    }
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
void for_each_range(const BoundMemory& side, const Piece& piece, std::int64_t rank,
                    bool source_side, const VisitAddresses& visit) {
    PairPart alone;
    alone.pieces.push_back(piece);
    const RelationSide memory{side.layout, side.memory, side.elem_bytes, rank};
    const RelationSide message{nullptr, nullptr, side.elem_bytes, rank};
    const AddressRelation relation =
        source_side ? compile(alone, memory, message) : compile(alone, message, memory);
    relation.for_each_run([&](std::int64_t source, std::int64_t destination, std::int64_t elems) {
        const std::uintptr_t from =
            side.base + static_cast<std::uintptr_t>(source_side ? source : destination);
        visit(from, from + static_cast<std::uintptr_t>(elems * side.elem_bytes));
    });
}

std::string named(const char* side, std::int64_t block, const Region& region) {
    return std::string(side) + " block " + std::to_string(block) + ", region " + region.to_string();
}

/// Who writes an address, for error texts.
struct Writer {
    std::int64_t peer = 0;
    Piece piece;
};

class ConflictSearch {
public:
    ConflictSearch(const BoundMemory& source, const BoundMemory& destination, std::int64_t rank)
        : source_(source), destination_(destination), rank_(rank) {}

    void note_writes(const std::vector<PeerPart>& incoming, bool combines) {
        for (const PeerPart& peer : incoming)
            for_each_of_one_pair(peer.part, [&](const Piece& piece) {
                for_each_range(destination_, piece, rank_, false, [&](auto from, auto to) {
                    const auto again = combines ? std::nullopt : written_.first_touched(from, to);
                    if (again) refuse_second_write(incoming, {peer.rank, piece}, *again);
                    written_.touch(from, to);
                });
            });
    }

    void check_reads(const std::vector<PeerPart>& outgoing,
                     const std::vector<PeerPart>& incoming) const {
        for (const PeerPart& peer : outgoing)
            for_each_of_one_pair(peer.part, [&](const Piece& piece) {
                for_each_range(source_, piece, rank_, true, [&](auto from, auto to) {
                    if (const auto at = written_.first_touched(from, to))
                        refuse_read(incoming, {peer.rank, piece}, *at);
                });
            });
    }

private:
    /// The first piece that writes an address; `otherwise` where it is none.
    Writer writer_of(const std::vector<PeerPart>& incoming, std::uintptr_t address,
                     const Writer& otherwise) const {
        std::optional<Writer> writer;
        for (const PeerPart& peer : incoming)
            for_each_of_one_pair(peer.part, [&](const Piece& piece) {
                if (writer) return;
                for_each_range(destination_, piece, rank_, false, [&](auto from, auto to) {
                    if (from <= address && address < to) writer = {peer.rank, piece};
                });
            });
        return writer.value_or(otherwise);
    }

    std::string written_by(const Writer& w) const {
        return named("destination", spans_of(w.piece, Side::destination).block,
                     destination_section(*destination_.layout, w.piece)) +
               " (from block " + std::to_string(spans_of(w.piece, Side::source).block) +
               " of process " + std::to_string(w.peer) + ")";
    }

    [[noreturn]] void refuse_second_write(const std::vector<PeerPart>& incoming,
                                          const Writer& second, std::uintptr_t address) const {
        throw Error(ErrorCode::invalid_argument,
                    "on process " + std::to_string(rank_) + " an element is written twice: by " +
                        written_by(writer_of(incoming, address, second)) + " and by " +
                        written_by(second));
    }

    [[noreturn]] void refuse_read(const std::vector<PeerPart>& incoming, const Writer& reader,
                                  std::uintptr_t address) const {
        throw Error(ErrorCode::invalid_argument,
                    "on process " + std::to_string(rank_) + " an element is read while it is " +
                        "written: read by " +
                        named("source", spans_of(reader.piece, Side::source).block,
                              source_section(*source_.layout, reader.piece)) +
                        " (for process " + std::to_string(reader.peer) + "), written by " +
                        written_by(writer_of(incoming, address, reader)));
    }

    const BoundMemory& source_;
    const BoundMemory& destination_;
    std::int64_t rank_;
    TouchedBytes written_;
};

}  // namespace

Region source_section(const Layout& source, const Piece& piece) {
    return section(source, piece, Side::source);
}

Region destination_section(const Layout& destination, const Piece& piece) {
    return section(destination, piece, Side::destination);
}

void check_conflicts(const BoundMemory& source, const std::vector<PeerPart>& outgoing,
                     const BoundMemory& destination, const std::vector<PeerPart>& incoming,
                     std::int64_t rank, bool combines) {
    ConflictSearch search(source, destination, rank);
    search.note_writes(incoming, combines);
    search.check_reads(outgoing, incoming);
}

}  // namespace datamover::plan
