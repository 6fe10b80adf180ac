// SPDX-License-Identifier: BSD-3-Clause
// Strided runs: found in lists of address pairs, decoded from symbols, walked on one side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datamover/side.hpp"
#include "encodings.hpp"
#include "offsets.hpp"

namespace datamover {

// ---------------------------------------------------------------- in a list of address pairs

/// Pairs of element addresses, and by what they are multiplied to be byte addresses.
struct PairList {
    const std::int64_t* source = nullptr;
    const std::int64_t* destination = nullptr;
    std::size_t size = 0;
    std::int64_t source_unit = 1;
    std::int64_t destination_unit = 1;
    std::int64_t source_elem_bytes = 1;
    std::int64_t destination_elem_bytes = 1;

    StridedRun single(std::size_t i) const {
        return {source[i] * source_unit, destination[i] * destination_unit, 1, source_elem_bytes,
                destination_elem_bytes};
    }
};

/// Calls emit(const StridedRun&) for rows of equal differences, in order, until it returns false.
/// Two elements make a row only when they touch on both sides: else the second may begin a row.
template <class Emit>
void scan_pairs(const PairList& list, Emit&& emit) {
    const std::int64_t* s = list.source;
    const std::int64_t* d = list.destination;
    const std::size_t n = list.size;
    for (std::size_t first = 0; first < n;) {
        StridedRun run = list.single(first);
        std::size_t next = first + 1;
        if (next < n) {
            const std::int64_t ss = s[next] - s[first];
            const std::int64_t ds = d[next] - d[first];
            ++next;
            while (next < n && s[next] - s[next - 1] == ss && d[next] - d[next - 1] == ds) ++next;
            const bool touch = ss * list.source_unit == list.source_elem_bytes &&
                               ds * list.destination_unit == list.destination_elem_bytes;
            if (next - first == 2 && !touch) {
                --next;
            } else {
                run.source_step = ss * list.source_unit;
                run.destination_step = ds * list.destination_unit;
            }
            run.elems = static_cast<std::int64_t>(next - first);
        }
        if (!emit(run)) return;
        first = next;
    }
}

// ---------------------------------------------------------------- of a difference map

/// Decodes symbols to strided rows. A symbol of length one usually only jumps to the start of the
/// row that the next symbol describes, so its element waits for that row to join it.
class SymbolDecoder {
public:
    SymbolDecoder(std::int64_t source_elem, std::int64_t destination_elem)
        : source_elem_(source_elem), destination_elem_(destination_elem) {}

    /// Calls emit(const StridedRun&) when a row is complete.
    template <class Emit>
    void push(const Symbol& symbol, Emit&& emit) {
        const std::int64_t ds = symbol.source_difference;
        const std::int64_t dd = symbol.destination_difference;
        if (symbol.length == 1) {
            finish(emit);
            source_ += ds;
            destination_ += dd;
            waiting_ = true;
            return;
        }
        const std::int64_t joined = waiting_ ? 1 : 0;
        emit(StridedRun{source_ + (1 - joined) * ds, destination_ + (1 - joined) * dd,
                        symbol.length + joined, ds, dd});
        waiting_ = false;
        source_ += symbol.length * ds;
        destination_ += symbol.length * dd;
    }

    template <class Emit>
    void finish(Emit&& emit) {
        if (waiting_) emit(StridedRun{source_, destination_, 1, source_elem_, destination_elem_});
        waiting_ = false;
    }

private:
    std::int64_t source_elem_;
    std::int64_t destination_elem_;
    std::int64_t source_ = 0;
    std::int64_t destination_ = 0;
    bool waiting_ = false;
};

// ---------------------------------------------------------------- contiguous on both sides

/// Calls emit(source, destination, elems) for maximal runs that are contiguous on both sides, in
/// order.
template <class Emit>
void walk_blocks(const AddressRelation::Storage& storage, Emit&& emit) {
    const std::int64_t source_elem = storage.source_elem_bytes;
    const std::int64_t destination_elem = storage.destination_elem_bytes;
    Block held;
    const auto add = [&](std::int64_t s, std::int64_t d, std::int64_t elems) {
        if (held.elems > 0 && held.source + held.elems * source_elem == s &&
            held.destination + held.elems * destination_elem == d) {
            held.elems += elems;
            return;
        }
        if (held.elems > 0) emit(held.source, held.destination, held.elems);
        held = {s, d, elems};
    };
    storage.visit([&](const StridedRun& r) {
        if (r.source_step == source_elem && r.destination_step == destination_elem) {
            add(r.source, r.destination, r.elems);
            return;
        }
        for (std::int64_t i = 0; i < r.elems; ++i)
            add(r.source + i * r.source_step, r.destination + i * r.destination_step, 1);
    });
    if (held.elems > 0) emit(held.source, held.destination, held.elems);
}

// ---------------------------------------------------------------- of one side

/// `elems` elements of one side whose addresses advance by fixed steps; in bytes.
struct SideRun {
    std::int64_t start = 0;
    std::int64_t elems = 1;
    std::int64_t step = 0;
};

/// Calls emit(const SideRun&) for all addresses of a side, in order. Offsets are read on this side
/// alone, and in chunks.
template <class Emit>
void walk_side(const AddressRelation::Storage& storage, Side side, Emit&& emit) {
    const auto* offsets = dynamic_cast<const OffsetsStorage*>(&storage);
    if (offsets == nullptr) {
        storage.visit(
            [&](const StridedRun& r) { emit(SideRun{r.start(side), r.elems, r.step(side)}); });
        return;
    }
    std::vector<std::int64_t> addresses(static_cast<std::size_t>(longest_chunk_elems));
    for (const OffsetChunk& chunk : offsets->chunks) {
        const OffsetSide& own = chunk.side(side);
        if (own.width == 0) {
            emit(SideRun{own.base, chunk.elems, own.step});
            continue;
        }
        read_addresses(*offsets, own, side, 0, chunk.elems, addresses.data());
        for (std::int64_t i = 0; i < chunk.elems; ++i)
            emit(SideRun{addresses[static_cast<std::size_t>(i)], 1, 0});
    }
}

}  // namespace datamover
