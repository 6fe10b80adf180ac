// SPDX-License-Identifier: BSD-3-Clause
// Strided runs: found in lists of address pairs, decoded from symbols, walked on one side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "encodings.hpp"

namespace datamover {

/// Calls emit(const StridedRun&) for rows of equal differences, in order, until it returns false if
/// it returns anything. Two elements make a row only when they touch on both sides: else the second
/// may begin a row.
template <class Emit>
void scan_pairs(const PairList& list, Emit&& emit) {
    const std::int64_t* s = list.at.source;
    const std::int64_t* d = list.at.destination;
    const std::int64_t n = list.size;
    for (std::int64_t first = 0; first < n;) {
        StridedRun run{AddressPair{s[first], d[first]} * list.unit, 1, list.elem_bytes};
        std::int64_t next = first + 1;
        if (next < n) {
            const std::int64_t ss = s[next] - s[first];
            const std::int64_t ds = d[next] - d[first];
            ++next;
            while (next < n && s[next] - s[next - 1] == ss && d[next] - d[next - 1] == ds) ++next;
            const AddressPair step = AddressPair{ss, ds} * list.unit;
            if (next - first == 2 && step != list.elem_bytes)
                --next;
            else
                run.step = step;
            run.elems = next - first;
        }
        first = next;
        if constexpr (std::is_void_v<decltype(emit(run))>)
            emit(run);
        else if (!emit(run))
            return;
    }
}

template <class Emit>
void for_each_row(const BlocksStorage& storage, Emit&& emit) {
    for (const Block& b : storage.blocks) emit(StridedRun{b.start, b.count, storage.elem_bytes});
}

/// Of runs and dictionaries. A symbol of length one usually only jumps to the start of the row that
/// the next symbol describes, so its element waits for that row to join it.
template <class Storage, class Emit>
void for_each_row(const Storage& storage, Emit&& emit) {
    AddressPair at;
    bool waits = false;
    const auto emit_waiting = [&] {
        if (waits) emit(StridedRun{at, 1, storage.elem_bytes});
    };
    storage.for_each_symbol([&](const Symbol& symbol) {
        if (symbol.length == 1) {
            emit_waiting();
            at += symbol.difference;
            waits = true;
            return;
        }
        const AddressPair start = waits ? at : at + symbol.difference;
        emit(StridedRun{start, symbol.length + (waits ? 1 : 0), symbol.difference});
        waits = false;
        at += symbol.length * symbol.difference;
    });
    emit_waiting();
}

/// Calls emit(const Block&) for maximal runs that are contiguous on both sides, in order.
template <class Emit>
void walk_blocks(const RelationWalk& walk, Emit&& emit) {
    Block held;
    const auto add = [&](Block& last, AddressPair start, std::int64_t elems) {
        if (last.count > 0 && last.start + last.count * walk.elem_bytes == start) {
            last.count += elems;
            return;
        }
        if (last.count > 0) emit(last);
        last = {start, elems};
    };
    walk.visit([&](const StridedRun& r) {
        if (r.step == walk.elem_bytes) return add(held, r.start, r.elems);
        Block last = held;  // stays in registers
        for (std::int64_t i = 0; i < r.elems; ++i) add(last, r.start + i * r.step, 1);
        held = last;
    });
    if (held.count > 0) emit(held);
}

/// Calls emit(start, elems, step) for all addresses of a side, in order. Offsets are read on this
/// side alone, and in chunks.
template <class Emit>
void walk_side(const AddressRelation::Storage& storage, Side side, Emit&& emit) {
    const auto* offsets = dynamic_cast<const OffsetsStorage*>(&storage);
    if (offsets == nullptr) {
        storage.visit([&](const StridedRun& r) { emit(r.start[side], r.elems, r.step[side]); });
        return;
    }
    std::vector<std::int64_t> addresses(static_cast<std::size_t>(longest_chunk_elems));
    for (const OffsetChunk& chunk : offsets->chunks) {
        const OffsetSide& own = chunk.side[side];
        if (own.width == 0) {
            emit(own.base, chunk.elems, own.step);
            continue;
        }
        offsets->read_addresses(chunk, side, 0, chunk.elems, addresses.data());
        for (std::int64_t i = 0; i < chunk.elems; ++i)
            emit(addresses[static_cast<std::size_t>(i)], std::int64_t{1}, std::int64_t{0});
    }
}

}  // namespace datamover
