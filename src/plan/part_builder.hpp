// SPDX-License-Identifier: BSD-3-Clause
// Builder of a pair's part: pieces in the canonical order that both sides derive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datamover/advanced/pair_part.hpp"
#include "geometry/record_index.hpp"

namespace datamover::plan {

/// Numbers the different shapes of boxes.
struct ShapeTable {
    /// O(1).
    std::int64_t number_of(const BoxShape& shape);

    std::vector<BoxShape> shapes;
    std::vector<std::int64_t> elems;  ///< of each

private:
    geometry::RecordIndex known_;
};

/// Appends boxes to a list; those that are alike get one shape.
class BoxListBuilder {
public:
    /// Boxes without elements are left out. O(1). Throws out_of_range
    /// beyond 63 bits of elements.
    void add(const BlockPair& blocks, const BoxShape& shape);

    bool empty() const { return list_.boxes.empty(); }
    /// Returns the list. To be called once.
    BoxList finish();

private:
    ShapeTable shapes_;
    BoxList list_;
};

/// Collects the pieces that one process exchanges and puts them into the canonical order: by peer,
/// term, source block and destination block, all of which both sides know. Pieces of one term and
/// one pair of blocks keep the order in which they are added, so both sides must add those in one
/// order. Terms must be added in ascending order.
class PartBuilder {
public:
    PartBuilder() {
        constexpr std::size_t few = 8;  // in one allocation
        entries_.reserve(few);
        others_.reserve(few);
    }

    /// A box without elements is left out. O(1).
    void add(std::int64_t peer, std::int64_t term, const BlockPair& blocks, const BoxShape& shape);
    void add(std::int64_t peer, std::int64_t term, const BlockPair& blocks, Piece piece);
    /// Returns the parts. To be called once. O(n) if the pieces of a term were added in order of
    /// one of the two blocks. Throws out_of_range beyond 63 bits of elements.
    std::vector<PeerPart> build();

private:
    /// Small, because there may be millions: ranks and numbers of shapes fit in 32 bits.
    struct Entry : BlockPair {
        std::int32_t peer;
        std::int32_t shape;  ///< -1 - its number in `others_` if the piece is not a box
    };

    void push(std::int64_t peer, std::int64_t term, const BlockPair& blocks, std::int64_t shape);
    void end_term();
    PairPart part_of(std::span<const Entry> entries);

    std::vector<Entry> entries_;
    ShapeTable shapes_;
    /// Each in a vector of its own, which can become a part without moving the piece: it is large.
    std::vector<std::vector<Piece>> others_;
    std::vector<std::int64_t> number_in_list_;  ///< of each shape, in the list that is made, or -1
    std::int64_t term_ = -1;
    std::size_t first_of_term_ = 0;
};

}  // namespace datamover::plan
